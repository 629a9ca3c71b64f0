//! Actions as a supervisor's tools (runtime.md 2): what is on the blackboard is filled in, the rest is asked for.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::diag::suggest;
use crate::llm::ToolSpec;
use crate::planning::{self, FactId, Problem, State};
use crate::program::{Action, Fact, Input};
use crate::tool::group::NAME_CHARS_MAX;
use crate::value::{Field, ObjectDef, Open, OutputKind, Shape, ShapeKind, Tags, TypeId, schema_of};

use super::blackboard::Bound;
use super::decide::Seen;
use super::facts;
use super::run::{Given, Process};
use super::scope::Scope;
use super::supervisor::{Call, LEADS, READY};

/// An action that a supervisor may call.
pub(super) struct Choice {
    /// The action's index.
    pub(super) action: usize,
    /// What the model sees.
    pub(super) spec: ToolSpec,
    /// What of its inputs is on the blackboard: `Absent` for the rest.
    bound: Vec<Bound>,
    /// Inputs that are not on the blackboard, by position.
    asks: Vec<usize>,
    /// What else it needs and is not so.
    unmet: Vec<String>,
    /// It would bring nothing that is not there.
    is_stale: bool,
}

/// What comes of a call.
pub(super) enum Verdict {
    /// The action can run: its inputs, and the objects that the call gives for some of them.
    Run { action: usize, bound: Vec<Bound>, given: Vec<(usize, Vec<Given>)> },
    /// It hangs on this prompted condition, asked of the blackboard as the call would make it.
    Ask(usize, Box<Scope>),
    /// It cannot run, for this reason.
    No(String),
}

impl Choice {
    /// Whether it can be called without arguments.
    pub(super) fn is_ready(&self, inputs: &[Input]) -> bool {
        self.unmet.is_empty() && !self.is_stale && self.asks.iter().all(|at| inputs[*at].optional)
    }

    /// Names of the inputs that a call has to give.
    pub(super) fn asks<'a>(&'a self, inputs: &'a [Input]) -> impl Iterator<Item = &'a Input> {
        self.asks.iter().map(|at| &inputs[*at]).filter(|input| !input.optional)
    }

    /// What else it needs and is not so, such as `not urgent`.
    pub(super) fn unmet(&self) -> Vec<String> {
        let stale = self.is_stale.then(|| "something that is not there already".to_owned());
        self.unmet.iter().cloned().chain(stale).collect()
    }
}

impl Process {
    /// The actions that a supervisor may call now, in declaration order.
    pub(super) fn choices(&self, seen: &Seen, problem: &Problem<'_>) -> Vec<Choice> {
        let agent = &self.core().agent;
        let all = agent.actions.iter().enumerate().filter(|(at, _)| self.is_open(*at, seen, problem));
        let mut choices: Vec<Choice> = all.map(|(at, action)| self.choice(at, action, seen, problem)).collect();
        let mut taken: Vec<String> = Vec::new();
        for choice in &mut choices {
            choice.spec.name = free_name(&choice.spec.name, &taken);
            taken.push(choice.spec.name.clone());
        }
        choices
    }

    fn operators_of(&self, action: usize) -> impl Iterator<Item = usize> + '_ {
        self.core().agent.operators.iter().enumerate().filter(move |(_, of)| **of == action).map(|(at, _)| at)
    }

    /// Whether an action is one of this moment: of the state that the process is in, not out, and not done with.
    fn is_open(&self, action: usize, seen: &Seen, problem: &Problem<'_>) -> bool {
        let domain = problem.domain.domain();
        let is_mark =
            |fact: &FactId| matches!(self.core().agent.facts.get(fact.0 as usize), Some(Fact::In(_) | Fact::Ran(_)));
        self.operators_of(action).any(|operator| {
            let mut marks = domain.actions[operator].pre.iter().filter(|(fact, _)| is_mark(fact));
            !problem.excluded.contains(&operator) && marks.all(|(fact, value)| seen.facts.state.knows(*fact, *value))
        })
    }

    fn choice(&self, at: usize, action: &Action, seen: &Seen, problem: &Problem<'_>) -> Choice {
        let bound = self.board.bind_each(&action.inputs);
        let is_missing = |(input, bound): (&Input, &Bound)| match bound {
            Bound::Absent => true,
            Bound::All(all) => all.is_empty() && !input.optional,
            Bound::One(_) => false,
        };
        let asks: Vec<usize> = (0..bound.len()).filter(|at| is_missing((&action.inputs[*at], &bound[*at]))).collect();
        let (unmet, is_stale) = self.unmet(at, action, &asks, seen, problem);
        let name: String = action.name.replace('.', "_").chars().take(NAME_CHARS_MAX).collect();
        let mut choice = Choice {
            action: at,
            spec: ToolSpec { name, description: String::new(), parameters: self.parameters(action, &asks) },
            bound,
            asks,
            unmet,
            is_stale,
        };
        choice.spec.description = self.description(action, &choice);
        choice
    }

    /// What an action needs beside its inputs and is not so; nothing where that hangs on what is asked for.
    fn unmet(
        &self,
        at: usize,
        action: &Action,
        asks: &[usize],
        seen: &Seen,
        problem: &Problem<'_>,
    ) -> (Vec<String>, bool) {
        let agent = &self.core().agent;
        let asked: Vec<&Input> = asks.iter().map(|at| &action.inputs[*at]).filter(|input| !input.optional).collect();
        let types: Vec<TypeId> = asked.iter().map(|input| input.type_id).collect();
        let state: State = match types.is_empty() {
            true => seen.facts.state.clone(),
            false => agent.state_with(&seen.facts.state, &types),
        };
        let will_come = |fact: FactId| match agent.facts.get(fact.0 as usize) {
            Some(Fact::HasNamed { name, .. }) => asked.iter().any(|input| input.name == *name),
            // Several objects of one type are several inputs, and each is asked for.
            Some(Fact::Has { type_id, .. }) => types.iter().any(|of| agent.types.is_subtype(*of, *type_id)),
            Some(Fact::Newest(type_id)) => types.iter().any(|of| agent.types.is_subtype(*of, *type_id)),
            _ => false,
        };
        let words = agent.words_for_process();
        let domain = problem.domain.domain();
        let Some(operator) = self.operators_of(at).next() else { return (Vec::new(), false) };
        let lacks = domain.actions[operator]
            .pre
            .iter()
            .filter(|(fact, value)| !will_come(*fact) && !state.allows(*fact, *value));
        let unmet: Vec<String> = lacks.map(|(fact, value)| words.short(*fact, *value)).collect();
        let mut then = problem.clone();
        then.start = state;
        let brings_something = self.operators_of(at).any(|operator| planning::brings_news(&then, operator));
        (unmet, !brings_something)
    }

    fn parameters(&self, action: &Action, asks: &[usize]) -> Value {
        let field = |input: &Input| {
            let mut shape = Shape::named(input.type_id);
            if input.list {
                shape = Shape::list(shape).with("minItems", 1);
            }
            (input.name.clone(), Field { shape, required: !input.optional })
        };
        let fields: IndexMap<String, Field> = asks.iter().map(|at| field(&action.inputs[*at])).collect();
        let object = ObjectDef { fields, open: Open::Closed, ..ObjectDef::default() };
        schema_of(&self.core().agent.types, &Shape::new(ShapeKind::Object(Box::new(object))))
    }

    fn description(&self, action: &Action, choice: &Choice) -> String {
        let types = &self.core().agent.types;
        let mut lines: Vec<String> = action.description.iter().cloned().collect();
        lines.push(format!("Gives: {}.", gives(self, action)));
        let goals = self.considered_goals().filter_map(|goal| self.goals.get(goal));
        let reached: Vec<&str> = goals
            .filter(|goal| match goal.action {
                Some(own) => own == choice.action,
                None => action.output.types().iter().any(|of| {
                    goal.output
                        .types()
                        .iter()
                        .any(|wanted| types.is_subtype(*of, *wanted) || types.is_subtype(*wanted, *of))
                }),
            })
            .map(|goal| goal.name.as_str())
            .collect();
        if !reached.is_empty() {
            lines.push(format!("{LEADS} {}.", suggest::listed(&reached)));
        }
        let filled = (0..choice.bound.len()).filter(|at| !choice.asks.contains(at));
        let filled: Vec<&str> = filled.map(|at| action.inputs[at].name.as_str()).collect();
        if !filled.is_empty() {
            lines.push(format!("Filled in from the blackboard: {}.", suggest::listed(&filled)));
        }
        let asked: Vec<&str> = choice.asks(&action.inputs).map(|input| input.name.as_str()).collect();
        lines.push(match (choice.unmet.is_empty(), asked.is_empty()) {
            (false, _) => format!("Not now: it needs {}.", suggest::listed(&choice.unmet)),
            (true, _) if choice.is_stale => "Not now: what it gives is there already.".to_owned(),
            (true, true) => READY.to_owned(),
            (true, false) => format!("Asks for {}.", suggest::listed(&asked)),
        });
        lines.join("\n")
    }

    /// Whether a call can be carried out now.
    pub(super) fn verdict(&self, call: &Call, seen: &Seen, problem: &Problem<'_>, choices: &[Choice]) -> Verdict {
        let agent = self.core().agent.clone();
        let named = |choice: &&Choice| choice.spec.name == call.tool || agent.actions[choice.action].name == call.tool;
        let Some(choice) = choices.iter().find(named) else {
            return Verdict::No(self.why_closed(&call.tool, choices));
        };
        let action = &agent.actions[choice.action];
        let given = match self.arguments(call, action, choice) {
            Ok(given) => given,
            Err(why) => return Verdict::No(why),
        };
        let mut after = None;
        if !given.is_empty() {
            let mut board = (*self.board).clone();
            for one in given.iter().flat_map(|(_, objects)| objects) {
                let name = one.name.as_deref().map(std::sync::Arc::from);
                board.add(one.type_id, name, std::sync::Arc::new(one.value.clone()));
            }
            let mut scope = seen.scope.clone();
            scope.board = std::sync::Arc::new(board);
            let facts = facts::read(&scope);
            after = Some(Seen { scope, facts });
        }
        let seen = after.as_ref().unwrap_or(seen);
        let mut problem = problem.clone();
        problem.start = seen.facts.state.clone();
        if self.operators_of(choice.action).any(|operator| planning::applicable_now(&problem, operator)) {
            return Verdict::Run { action: choice.action, bound: choice.bound.clone(), given };
        }
        let candidates = planning::candidates(&problem);
        let own = candidates.iter().find(|one| agent.operators.get(one.action) == Some(&choice.action));
        let to_ask = |open: &(FactId, bool)| {
            seen.facts.to_ask.iter().find(|(fact, _)| *fact == open.0).map(|(_, condition)| *condition)
        };
        if let Some(condition) = own.and_then(|one| one.hangs_on.iter().find_map(to_ask)) {
            return Verdict::Ask(condition, Box::new(seen.scope.clone()));
        }
        let words = agent.words_for_process();
        let lacks = self.operators_of(choice.action).next().into_iter().flat_map(|operator| {
            let pre = problem.domain.domain().actions[operator].pre.iter();
            pre.filter(|(fact, value)| !problem.start.knows(*fact, *value)).collect::<Vec<_>>()
        });
        let lacks: Vec<String> = lacks.map(|(fact, value)| words.short(*fact, *value)).collect();
        Verdict::No(match lacks.is_empty() {
            true => {
                format!("`{}` is not run again: what it gives is there already (`can_rerun` is not set).", call.tool)
            }
            false => format!("`{}` cannot run now: it needs {}.", call.tool, suggest::listed(&lacks)),
        })
    }

    /// Why a tool that is not offered cannot be called.
    fn why_closed(&self, tool: &str, choices: &[Choice]) -> String {
        let agent = &self.core().agent;
        let known =
            agent.actions.iter().position(|action| action.name == tool || action.name.replace('.', "_") == tool);
        let Some((at, action)) = known.and_then(|at| Some((at, agent.actions.get(at)?))) else {
            let names: Vec<&str> = choices.iter().map(|choice| choice.spec.name.as_str()).collect();
            let help = suggest::near_or_all(tool, names, "the tools");
            let end = if help.ends_with('?') { "" } else { "." };
            return format!("There is no tool `{tool}`; {help}{end}");
        };
        if self.out.contains(&at) {
            return format!("`{tool}` has failed, and is not tried again in this run; find another way.");
        }
        if self.marks.ran.get(at) == Some(&true) && !action.can_rerun {
            return format!("`{tool}` has run already, and runs once; what it gave is on the blackboard.");
        }
        let why = match (action.state, action.on_stuck) {
            (_, true) => "it is tried by itself when nothing else is left".to_owned(),
            (Some(state), _) => format!("it belongs to the state `{}`", agent.types.name(state)),
            _ => "it has nothing new to run on, or belongs to no state".to_owned(),
        };
        format!("`{tool}` cannot be called now: {why}.")
    }

    /// The objects that a call gives.
    fn arguments(&self, call: &Call, action: &Action, choice: &Choice) -> Result<Vec<(usize, Vec<Given>)>, String> {
        let (agent, tool) = (&self.core().agent, &call.tool);
        let none = Map::new();
        let arguments = match &call.arguments {
            Value::Object(arguments) => arguments,
            Value::Null => &none,
            Value::String(text) if text.trim().is_empty() => &none,
            other => {
                let shown: String = other.to_string().chars().take(80).collect();
                return Err(format!("The arguments of `{tool}` must be a JSON object, and are {shown}."));
            }
        };
        let mut wrong: Vec<String> = Vec::new();
        for key in arguments.keys() {
            let Some(at) = action.inputs.iter().position(|input| input.name == *key) else {
                let names = choice.asks.iter().map(|at| action.inputs[*at].name.as_str());
                let names: Vec<&str> = names.collect();
                wrong.push(match names.is_empty() {
                    true => format!("`{key}`: it asks for nothing; call it with {{}}"),
                    false => format!(
                        "`{key}`: it does not ask for this; {}",
                        suggest::near_or_all(key, names, "it asks for")
                    ),
                });
                continue;
            };
            if !choice.asks.contains(&at) {
                wrong.push(format!("`{key}`: it is filled in from the blackboard; leave it out"));
            }
        }
        let mut given = Vec::new();
        for at in &choice.asks {
            let input = &action.inputs[*at];
            match arguments.get(&input.name).filter(|value| !value.is_null()) {
                Some(value) => match self.objects_of(input, value) {
                    Ok(objects) => given.push((*at, objects)),
                    Err(why) => wrong.push(format!("`{}`: {why}", input.name)),
                },
                None if input.optional => {}
                None => wrong.push(self.what_is_missing(input)),
            }
        }
        match wrong.is_empty() {
            true => Ok(given),
            false => {
                let of = agent.actions.get(choice.action).map_or("", |action| action.name.as_str());
                Err(format!("`{of}` cannot be called like this:\n- {}", wrong.join("\n- ")))
            }
        }
    }

    fn what_is_missing(&self, input: &Input) -> String {
        let agent = &self.core().agent;
        let makers = agent.actions.iter().filter(|action| {
            !action.on_stuck && action.output.types().iter().any(|of| agent.types.is_subtype(*of, input.type_id))
        });
        let makers: Vec<&str> = makers.map(|action| action.name.as_str()).collect();
        let from = match makers.is_empty() {
            true => String::new(),
            false => format!(
                ", or call {} first, which gives it",
                makers.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
            ),
        };
        let of = agent.types.name(input.type_id);
        format!("`{}`: it is not on the blackboard; give a `{of}`{from}", input.name)
    }

    fn objects_of(&self, input: &Input, value: &Value) -> Result<Vec<Given>, String> {
        let agent = &self.core().agent;
        let values = match (input.list, value) {
            (true, Value::Array(values)) if values.is_empty() => return Err("give at least one".to_owned()),
            (true, Value::Array(values)) => values.clone(),
            (true, other) => return Err(format!("a list is asked for, and this is {other}")),
            (false, one) => vec![one.clone()],
        };
        let one = |value: Value| {
            let shape = Shape::named(input.type_id);
            let valid = agent.validators.validate_with(&shape, value, &**agent, Tags::Inferred);
            valid
                .map(|valid| {
                    let type_id = valid.type_id.unwrap_or(input.type_id);
                    let value = crate::value::present(&agent.types, type_id, type_id, valid.value);
                    Given { type_id, name: input.named.then(|| input.name.clone()), value }
                })
                .map_err(|violations| violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        };
        values.into_iter().map(one).collect()
    }
}

/// What an action gives, in words.
fn gives(process: &Process, action: &Action) -> String {
    match action.output.kind {
        OutputKind::None => "an effect, no data".to_owned(),
        _ => action.output.describe(&process.core().agent.types),
    }
}

/// The name, or with a number after it where it is taken.
fn free_name(name: &str, taken: &[String]) -> String {
    let mut free = name.to_owned();
    let mut number = 2;
    while taken.contains(&free) {
        let suffix = format!("_{number}");
        free = name.chars().take(NAME_CHARS_MAX - suffix.len()).chain(suffix.chars()).collect();
        number += 1;
    }
    free
}
