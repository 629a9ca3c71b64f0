//! The heads of an agent: its types, the inputs and outputs of its actions, and what a run starts from. They are
//! resolved for all agents before any body, because a body may run another agent.

use std::sync::Arc;

use crate::action::lower::AgentRef;
use crate::decl::workflow::{Action, InputDecl, Inputs, OutputDecl, TypeMention};
use crate::decl::{Module, Name};
use crate::diag::{Diagnostic, suggest};
use crate::program::Input;
use crate::value::{Field, ObjectDef, Output, OutputKind, Shape, ShapeKind, TypeId, Types, schema_of, snake_case};

use super::check::names;
use super::load::{Loaded, ModuleId};
use super::types;
use super::visible::Visible;

/// One action with its inputs and output resolved.
#[derive(Debug)]
pub(crate) struct ActionHead<'a> {
    /// Its full name: a state's action is `State.action`.
    pub(crate) full_name: String,
    /// Its name as written.
    pub(crate) name: &'a Name,
    /// As written.
    pub(crate) decl: &'a Action,
    /// What it takes.
    pub(crate) inputs: Vec<Input>,
    /// Names of inputs whose type is unknown; nothing is said about their use.
    pub(crate) unknown_inputs: Vec<String>,
    /// What it gives; none after a finding too.
    pub(crate) output: Output,
    /// False when the output could not be resolved.
    pub(crate) output_known: bool,
    /// The type that triggers it.
    pub(crate) trigger: Option<TypeId>,
    /// The state whose action it is.
    pub(crate) state: Option<TypeId>,
    /// It is tried only when the process is stuck.
    pub(crate) on_stuck: bool,
}

/// The heads of one agent, or of a module without one.
#[derive(Debug)]
pub(crate) struct Heads<'a> {
    pub(crate) module: ModuleId,
    pub(crate) own: &'a Module,
    pub(crate) visible: Visible<'a>,
    pub(crate) types: Arc<Types>,
    pub(crate) actions: Vec<ActionHead<'a>>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) inputs_declared: bool,
    pub(crate) findings: Vec<Diagnostic>,
}

impl<'a> Heads<'a> {
    /// Resolves the heads of a module.
    pub(crate) fn resolve(loaded: &'a Loaded<'_>, module: ModuleId) -> Heads<'a> {
        let mut findings = Vec::new();
        let own: &'a Module = &loaded.modules[module.0].decl;
        let visible = Visible::from(loaded, module, &mut findings);
        let types = types::resolve(loaded, &visible, &mut findings);
        let mut actions: Vec<ActionHead<'a>> = Vec::new();
        let mut resolve = Resolve { types: &types, findings: &mut findings };
        for decl in visible.actions.values() {
            actions.push(resolve.action(decl.name, decl.decl, None, false));
        }
        for state in visible.states.values().chain(visible.types.values()) {
            let id = types.id(&state.name.value);
            for (name, decl) in state.decl.actions.iter() {
                actions.push(resolve.action(name, decl, id, false));
            }
        }
        for decl in visible.on_stuck.values() {
            actions.push(resolve.action(decl.name, decl.decl, None, true));
        }
        let (inputs, inputs_declared) = match &own.inputs {
            Some(inputs) => (resolve.inputs(inputs).0, true),
            None => (default_inputs(&types, &actions), false),
        };
        Heads { module, own, visible, types: Arc::new(types), actions, inputs, inputs_declared, findings }
    }

    /// How another agent refers to this one.
    pub(crate) fn reference(&self) -> AgentRef {
        let name = self.own.agent.as_ref().map(|name| name.value.clone()).unwrap_or_default();
        let input = |input: &Input| {
            let of = self.types.name(input.type_id).to_owned();
            (input.name.clone(), of, !input.optional)
        };
        let declared = self.visible.goals.values().filter_map(|goal| goal.decl.output.types.first());
        let achieved = self.actions.iter().filter(|action| action.decl.head.achieves.is_some());
        let achieved = achieved.flat_map(|action| action.output.types().iter().map(|id| self.types.name(*id)));
        let mut outputs: Vec<String> = Vec::new();
        for name in declared.map(|of| of.name.value.as_str()).chain(achieved) {
            if !outputs.iter().any(|known| known == name) {
                outputs.push(name.to_owned());
            }
        }
        let field = |input: &Input| {
            let one = Shape::named(input.type_id);
            let shape = if input.list { Shape::list(one) } else { one };
            (input.name.clone(), Field { shape, required: !input.optional })
        };
        let object = ObjectDef { fields: self.inputs.iter().map(field).collect(), ..ObjectDef::default() };
        AgentRef {
            name,
            inputs: self.inputs.iter().map(input).collect(),
            outputs,
            description: self.own.description.as_ref().map(|text| text.0.value.clone()).unwrap_or_default(),
            input_schema: schema_of(&self.types, &Shape::new(ShapeKind::Object(Box::new(object)))),
        }
    }
}

/// Every type that some action requires and none outputs, each optional (language.md 4).
fn default_inputs(types: &Types, actions: &[ActionHead<'_>]) -> Vec<Input> {
    let mut inputs: Vec<Input> = Vec::new();
    let outputs: Vec<TypeId> = actions.iter().flat_map(|action| action.output.types().iter().copied()).collect();
    let supplied = |wanted: TypeId| {
        let gives = |output: &TypeId| types.concrete(*output).iter().any(|sub| types.is_subtype(*sub, wanted));
        outputs.iter().any(|output| types.is_subtype(*output, wanted) || gives(output))
    };
    for action in actions.iter().filter(|action| action.state.is_none()) {
        let required = action.inputs.iter().filter(|input| !input.optional);
        let triggers = action.trigger.map(|type_id| Input {
            name: snake_case(types.name(type_id)),
            type_id,
            list: false,
            optional: false,
            named: false,
        });
        for input in required.cloned().chain(triggers) {
            let name = if input.named { input.name.clone() } else { snake_case(types.name(input.type_id)) };
            let known = inputs.iter().any(|known| known.type_id == input.type_id && known.name == name);
            if !known && !supplied(input.type_id) {
                inputs.push(Input { name, list: false, optional: true, ..input });
            }
        }
    }
    inputs
}

/// What resolving inputs and outputs needs.
pub(crate) struct Resolve<'a> {
    pub(crate) types: &'a Types,
    pub(crate) findings: &'a mut Vec<Diagnostic>,
}

impl Resolve<'_> {
    fn action<'d>(
        &mut self,
        name: &'d Name,
        decl: &'d Action,
        state: Option<TypeId>,
        on_stuck: bool,
    ) -> ActionHead<'d> {
        let (inputs, unknown_inputs) = self.inputs(&decl.head.inputs);
        let output = decl.head.output.as_ref().map(|output| self.output(output));
        let full_name = match state {
            Some(state) => format!("{}.{}", self.types.name(state), name.value),
            None => name.value.clone(),
        };
        ActionHead {
            full_name,
            name,
            decl,
            inputs,
            unknown_inputs,
            output_known: output.as_ref().is_none_or(Option::is_some),
            output: output.flatten().unwrap_or(Output::new(OutputKind::None)),
            trigger: decl.head.trigger.as_ref().and_then(|name| types::named(self.types, name, self.findings)),
            state,
            on_stuck,
        }
    }

    /// Resolves inputs; the second list names those whose type is unknown.
    pub(crate) fn inputs(&mut self, written: &Inputs) -> (Vec<Input>, Vec<String>) {
        let (mut inputs, mut unknown): (Vec<Input>, Vec<String>) = (Vec::new(), Vec::new());
        let mut places: Vec<(String, crate::source::Span)> = Vec::new();
        for input in &written.0 {
            let (name, span) = name_of(input);
            if let Some(own) = &input.name {
                names::check_variable(own, "an input", self.findings);
            }
            if let Some((_, earlier)) = places.iter().find(|(known, _)| *known == name) {
                self.findings.push(
                    Diagnostic::error("duplicate-name", span, format!("there are two inputs named `{name}`"))
                        .related(*earlier, "the first is here")
                        .help(format!("give them own names: `{{first: {0}, second: {0}}}`", input.of.name.value)),
                );
                continue;
            }
            places.push((name.clone(), span));
            match types::named(self.types, &input.of.name, self.findings) {
                Some(type_id) => inputs.push(Input {
                    name,
                    type_id,
                    list: input.of.list,
                    optional: input.of.optional,
                    named: input.named,
                }),
                None => {
                    // Its strings use the name of the type that was meant.
                    if input.name.is_none() {
                        let near = suggest::nearest(&input.of.name.value, self.types.names());
                        unknown.extend(near.first().map(|near| snake_case(near)));
                    }
                    unknown.push(name);
                }
            }
        }
        (inputs, unknown)
    }

    /// Resolves an output.
    pub(crate) fn output(&mut self, written: &OutputDecl) -> Option<Output> {
        if let Some(name) = &written.name {
            names::check_variable(name, "a binding", self.findings);
        }
        let ids: Vec<Option<TypeId>> =
            written.types.iter().map(|of| types::named(self.types, &of.name, self.findings)).collect();
        let ids: Vec<TypeId> = ids.into_iter().collect::<Option<_>>()?;
        for (at, of) in written.types.iter().enumerate() {
            if written.types[..at].iter().any(|earlier| earlier.name.value == of.name.value) {
                self.findings.push(Diagnostic::error(
                    "duplicate-value",
                    of.place.0,
                    format!("`{}` is listed already", of.name.value),
                ));
            }
        }
        let kind = match (ids.as_slice(), written.types.first()) {
            (_, _) if written.some_of => OutputKind::SomeOf(ids),
            ([id], Some(TypeMention { list: true, .. })) => OutputKind::List(*id),
            ([id], Some(TypeMention { optional: true, .. })) => OutputKind::Optional(*id),
            ([id], _) => OutputKind::One(*id),
            _ => return None,
        };
        Some(Output { kind, name: written.name.as_ref().map(|name| name.value.clone()) })
    }
}

fn name_of(input: &InputDecl) -> (String, crate::source::Span) {
    match &input.name {
        Some(name) => (name.value.clone(), name.span),
        None => (snake_case(&input.of.name.value), input.of.place.0),
    }
}
