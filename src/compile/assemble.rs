//! An agent put together from all actions of the project, for one goal (cli.md `run --open`).
//!
//! The agent that the goal belongs to gives everything it has. Of every other agent it takes the actions and what they
//! need, with the agent's defaults written into them; an agent whose declarations clash with what is there already is
//! left out, and said to be. Then what the goal cannot need is taken out again ([`needed`]).

use std::sync::Arc;

use indexmap::IndexSet;

use crate::decl::models::{LlmChoice, Models};
use crate::decl::workflow::Settings;
use crate::decl::{List, Module, Table};
use crate::planning::{Effect, FactId};
use crate::program::Agent;
use crate::source::{Span, Spanned};

use super::load::{Loaded, LoadedModule, ModuleId, ModuleKind};
use super::visible;

/// What the name of an assembled agent begins with; the goal's name follows.
pub(crate) const PREFIX: &str = "open-";

/// Puts an agent for a goal of `agent` together, of the actions that `only` lists when it is there. Gives the new
/// module, and what was left out, a line each.
pub(crate) fn assemble(
    loaded: &mut Loaded<'_>,
    agent: &str,
    goal: &str,
    only: Option<&IndexSet<String>>,
) -> Option<(ModuleId, Vec<String>)> {
    loaded.load_workflows();
    loaded.load_platform();
    let own = loaded.agent(agent)?;
    let mut taken = Taken::default();
    for id in visible::closure(loaded, own) {
        taken.add(&loaded.modules[id.0].decl);
    }
    let mut imports: Vec<ModuleId> = visible::closure(loaded, own).into_iter().filter(|id| *id != own).collect();
    let mut left_out = Vec::new();
    let others: Vec<ModuleId> = loaded.agents.values().copied().filter(|id| *id != own).collect();
    for other in others {
        match fitting(loaded, other, &taken, &imports) {
            Ok(modules) => {
                for (id, decl) in modules {
                    taken.add(&decl);
                    imports.push(copy(loaded, id, decl));
                }
            }
            Err(clash) => left_out.push(clash),
        }
    }
    let mut decl = (*loaded.modules[own.0].decl).clone();
    let name = format!("{PREFIX}{}", goal.replace('.', "-"));
    decl.agent = Some(Spanned { value: name, span: decl.agent.as_ref().map_or(Span::default(), |name| name.span) });
    // What it starts from is what its actions need: the goal's own agent does not know the actions of the others.
    decl.inputs = None;
    decl.goals.entries.retain(|(name, _)| name.value == goal);
    let made = copy(loaded, own, decl);
    imports.retain(|id| loaded.modules[id.0].kind != ModuleKind::Project);
    if let Some(only) = only {
        // Shared modules are copied too: others import them as they are.
        for import in &mut imports {
            let decl = (*loaded.modules[import.0].decl).clone();
            *import = copy(loaded, *import, decl);
        }
        for id in imports.iter().chain([&made]) {
            Arc::make_mut(&mut loaded.modules[id.0].decl)
                .actions
                .entries
                .retain(|(name, _)| only.contains(&name.value));
        }
    }
    loaded.modules[made.0].imports = imports;
    Some((made, left_out))
}

/// Adds a changed copy of a module, which imports nothing by itself.
fn copy(loaded: &mut Loaded<'_>, of: ModuleId, decl: Module) -> ModuleId {
    let original = &loaded.modules[of.0];
    let copy = LoadedModule {
        path: original.path.clone(),
        kind: original.kind,
        decl: Arc::new(decl),
        keys: original.keys.clone(),
        imports: Vec::new(),
        lacks_imports: original.lacks_imports,
        platform: None,
        agents_named: original.agents_named.clone(),
        broken: original.broken.clone(),
        names_references: original.names_references,
    };
    loaded.modules.push(copy);
    ModuleId(loaded.modules.len() - 1)
}

/// The modules of another agent as they can be taken in, or why they cannot.
fn fitting(
    loaded: &Loaded<'_>,
    agent: ModuleId,
    taken: &Taken,
    imports: &[ModuleId],
) -> Result<Vec<(ModuleId, Module)>, String> {
    let name = loaded.modules[agent.0].decl.agent.as_ref().map(|name| name.value.clone()).unwrap_or_default();
    let mut modules = Vec::new();
    for id in visible::closure(loaded, agent) {
        if imports.contains(&id) || Some(id) == loaded.project {
            continue;
        }
        let mut decl = (*loaded.modules[id.0].decl).clone();
        let defaults = decl.defaults.take();
        let model = decl.models.as_mut().and_then(|models| models.default.take());
        taken.fit(&mut decl).map_err(|clash| format!("the agent `{name}`: {clash} is declared otherwise"))?;
        if id == agent {
            let own = decl.actions.entries.iter_mut().map(|(_, action)| action);
            let of_states = decl.states.entries.iter_mut().flat_map(|(_, state)| state.actions.entries.iter_mut());
            own.chain(of_states.map(|(_, action)| action))
                .for_each(|action| lay_under(&mut action.settings, defaults.as_ref(), model.as_ref()));
        }
        modules.push((id, decl));
    }
    Ok(modules)
}

/// Writes an agent's defaults, and its default model, into an action that does not say otherwise.
fn lay_under(own: &mut Settings, defaults: Option<&Settings>, model: Option<&LlmChoice>) {
    fn lay<T: Clone>(own: &mut Option<T>, default: Option<&T>) {
        if own.is_none() {
            *own = default.cloned();
        }
    }
    lay(&mut own.llm, defaults.and_then(|defaults| defaults.llm.as_ref()).or(model));
    let Some(defaults) = defaults else { return };
    lay(&mut own.persona, defaults.persona.as_ref());
    lay(&mut own.tools, defaults.tools.as_ref());
    lay(&mut own.references, defaults.references.as_ref());
    lay(&mut own.contributors, defaults.contributors.as_ref());
    lay(&mut own.guardrails, defaults.guardrails.as_ref());
    lay(&mut own.retry, defaults.retry.as_ref());
    lay(&mut own.timeout, defaults.timeout.as_ref());
    lay(&mut own.max_turns, defaults.max_turns.as_ref());
}

/// The actions of an assembled agent that may help to reach its goal: those that can bring a fact which the goal, or
/// another of them, asks for. Actions of states and those for when nothing helps stay.
pub(crate) fn needed(agent: &Agent, goal: &str) -> IndexSet<String> {
    let domain = agent.domain.domain();
    let mut wanted: Vec<(FactId, bool)> = Vec::new();
    domain.goals.iter().filter(|other| other.name == goal).for_each(|goal| wanted.extend(&goal.pre));
    let mut relevant = vec![false; domain.actions.len()];
    let mut next = 0;
    while let Some((fact, value)) = wanted.get(next).copied() {
        next += 1;
        for (at, action) in domain.actions.iter().enumerate().filter(|(at, _)| !relevant[*at]).collect::<Vec<_>>() {
            let brings = |effect: &Effect| match effect {
                Effect::Makes(to) => *to == value,
                Effect::Opens => true,
            };
            if action.effects.iter().any(|(of, effect)| *of == fact && brings(effect)) {
                relevant[at] = true;
                wanted.extend(action.pre.iter().filter(|pre| !wanted.contains(pre)).copied().collect::<Vec<_>>());
            }
        }
    }
    let of_operators = agent.operators.iter().zip(&relevant).filter(|(_, relevant)| **relevant);
    of_operators.filter_map(|(action, _)| agent.actions.get(*action)).map(|action| action.name.clone()).collect()
}

/// What the assembled agent has so far.
#[derive(Default)]
struct Taken {
    modules: Vec<Module>,
}

impl Taken {
    fn add(&mut self, decl: &Module) {
        self.modules.push(decl.clone());
    }

    /// Takes out of `decl` what is there already. Actions and goals of a taken name go; anything else of a taken name
    /// must be the same, or the clash is named.
    fn fit(&self, decl: &mut Module) -> Result<(), String> {
        self.same("type", &mut decl.types, |module| Some(&module.types))?;
        self.same("state", &mut decl.states, |module| Some(&module.states))?;
        self.same("config entry", &mut decl.config, |module| Some(&module.config))?;
        self.same("condition", &mut decl.conditions, |module| Some(&module.conditions))?;
        self.same("persona", &mut decl.personas, |module| Some(&module.personas))?;
        self.same("tool", &mut decl.tools, |module| Some(&module.tools))?;
        self.same("tool group", &mut decl.tool_groups, |module| Some(&module.tool_groups))?;
        self.same("reference", &mut decl.references, |module| Some(&module.references))?;
        self.same("guardrail", &mut decl.guardrails, |module| Some(&module.guardrails))?;
        if let Some(models) = &mut decl.models {
            self.same("role", &mut models.roles, |module| module.models.as_ref().map(|models: &Models| &models.roles))?;
        }
        self.drop_taken(&mut decl.actions, |module| &module.actions);
        decl.goals = Table::default();
        decl.on_stuck = Table::default();
        decl.keep = List::default();
        Ok(())
    }

    fn same<T: PartialEq>(
        &self,
        what: &str,
        table: &mut Table<T>,
        of: impl Fn(&Module) -> Option<&Table<T>>,
    ) -> Result<(), String> {
        let mut clash = None;
        table.entries.retain(|(name, decl)| {
            let there = self.modules.iter().filter_map(&of).find_map(|table| table.get(&name.value));
            match there {
                Some(there) if there != decl => {
                    clash.get_or_insert_with(|| format!("its {what} `{}`", name.value));
                    false
                }
                Some(_) => false,
                None => true,
            }
        });
        clash.map_or(Ok(()), Err)
    }

    fn drop_taken<T>(&self, table: &mut Table<T>, of: impl Fn(&Module) -> &Table<T>) {
        table.entries.retain(|(name, _)| self.modules.iter().all(|module| of(module).get(&name.value).is_none()));
    }
}
