//! What the author's strings and exprs see: inputs, config, conditions, the blackboard as it is at one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::Value;

use crate::program::{Action, Agent, ConditionKind, Input};
use crate::prompt::{Truth, Var, Vars, map_value, object_value};
use crate::value::{TypeId, present};

use super::blackboard::{Blackboard, Bound};
use super::document::HistoryEntry;
use super::host::Host;
use super::index::{AgentIndex, list};

/// How deep conditions may name one another; deeper is a cycle, which compiling refuses.
const CONDITION_DEPTH_MAX: usize = 32;
/// No condition.
const NONE: usize = usize::MAX;

/// What a process has gone through, as far as facts depend on it.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// By action: it has completed.
    pub ran: Vec<bool>,
    /// By condition: what `post` has made of it.
    pub flags: Vec<Option<bool>>,
    /// By condition: what a model has answered, and on which objects.
    pub answers: Vec<Option<(Vec<Bound>, Truth)>>,
}

impl Marks {
    /// No marks yet.
    pub fn new(agent: &Agent) -> Marks {
        let conditions = agent.conditions.len();
        Marks { ran: vec![false; agent.actions.len()], flags: vec![None; conditions], answers: vec![None; conditions] }
    }
}

/// Variables and functions of language.md 2 at one moment. It shares everything with the process; a clone is cheap.
#[derive(Clone)]
pub struct Scope {
    /// Clock and models.
    pub host: Arc<dyn Host>,
    /// The agent.
    pub agent: Arc<Agent>,
    /// Its tables.
    pub index: Arc<AgentIndex>,
    /// The blackboard as it was.
    pub board: Arc<Blackboard>,
    /// The marks as they were.
    pub marks: Arc<Marks>,
    /// What was done before.
    pub history: Arc<Vec<HistoryEntry>>,
    /// `process`.
    pub process: Value,
    /// Inputs of the action, or arguments of the tool, by name; absent optional ones are left out.
    pub inputs: Arc<Vec<(String, Value)>>,
    /// Variables that cover all others: those of a body around this place (`results`, `index`, …).
    pub extra: Arc<Vec<(String, Value)>>,
    /// What `now()` is; the clock's time when `None`.
    pub now: Option<jiff::Timestamp>,
    /// Positions on the blackboard of the objects that the action's inputs are bound to, by the input's name.
    pub bound: Arc<Vec<(String, Vec<usize>)>>,
    /// The state that the process is in: a position on the blackboard.
    pub state: Option<usize>,
    /// Whether `self` and the fields of the state are variables, as in the strings of its actions.
    sees_state: bool,
    /// Whether types may be mentioned by their default name, as in conditions, `pre`, `cost` and `value`.
    pub sees_types: bool,
    /// The last condition that was looked at and has yet to be asked of a model.
    hangs_on: Arc<AtomicUsize>,
    depth: usize,
}

impl Scope {
    /// What conditions, costs and values see.
    pub fn new(
        host: Arc<dyn Host>,
        agent: Arc<Agent>,
        index: Arc<AgentIndex>,
        board: Arc<Blackboard>,
        marks: Arc<Marks>,
        process: Value,
    ) -> Scope {
        Scope {
            host,
            agent,
            index,
            board,
            marks,
            history: Arc::default(),
            process,
            inputs: Arc::default(),
            extra: Arc::default(),
            now: None,
            bound: Arc::default(),
            state: None,
            sees_state: false,
            sees_types: true,
            hangs_on: Arc::new(AtomicUsize::new(NONE)),
            depth: 0,
        }
    }

    /// The same after what was done before.
    pub fn after(self, history: Arc<Vec<HistoryEntry>>) -> Scope {
        Scope { history, ..self }
    }

    /// The same in a state, whose object stands at this position.
    pub fn in_state(self, state: Option<usize>) -> Scope {
        Scope { state, ..self }
    }

    /// What an action sees that belongs to a state, or to none: `self` and the fields too, where it does.
    pub fn for_action(&self, action: &Action) -> Scope {
        Scope { sees_state: action.state.is_some(), ..self.clone() }
    }

    /// The same with `self` and the fields of the state.
    pub fn with_fields(&self) -> Scope {
        Scope { sees_state: true, ..self.clone() }
    }

    /// The type of the state that the process is in.
    pub fn state_type(&self) -> Option<TypeId> {
        self.state.and_then(|at| self.board.get(at)).map(|object| object.type_id)
    }

    /// `self`, or a field of the state.
    fn field(&self, name: &str) -> Option<Value> {
        let at = self.state.filter(|_| self.sees_state)?;
        let object = self.board.get(at)?;
        let view = object.view(&self.agent.templates);
        if name == "self" {
            return Some(view);
        }
        let is_field = self.agent.types.get(object.type_id).fields().is_some_and(|fields| fields.contains_key(name));
        is_field.then(|| view.get_attr(name).unwrap_or_default())
    }

    /// What the strings of an action see, its inputs bound.
    pub fn with_inputs(&self, inputs: &[Input], bound: &[Bound]) -> Scope {
        let named = inputs.iter().zip(bound);
        let named =
            named.filter_map(|(input, bound)| Some((input.name.clone(), self.bound_view(bound, input.type_id)?)));
        let objects = inputs.iter().zip(bound).map(|(input, bound)| {
            let objects = match bound {
                Bound::One(at) => vec![*at],
                Bound::All(all) => all.clone(),
                Bound::Absent => Vec::new(),
            };
            (input.name.clone(), objects)
        });
        let (named, objects) = (named.collect(), objects.collect());
        Scope { inputs: Arc::new(named), bound: Arc::new(objects), sees_types: false, ..self.clone() }
    }

    /// What the strings of a tool see: its arguments.
    pub fn with_arguments(&self, arguments: Vec<(String, Value)>) -> Scope {
        Scope {
            inputs: Arc::new(arguments),
            bound: Arc::default(),
            extra: Arc::default(),
            sees_types: false,
            sees_state: false,
            ..self.clone()
        }
    }

    /// The same with further variables, which cover those of the same name.
    pub fn with_variables(&self, variables: Vec<(String, Value)>) -> Scope {
        let kept = self.extra.iter().filter(|(name, _)| variables.iter().all(|(new, _)| new != name)).cloned();
        let extra = kept.chain(variables.iter().cloned()).collect();
        Scope { extra: Arc::new(extra), ..self.clone() }
    }

    /// The same, with types mentioned by their default names.
    pub fn seeing_types(&self) -> Scope {
        Scope { sees_types: true, ..self.clone() }
    }

    /// Takes note of the condition that was looked at and has yet to be asked of a model, since the last call of this.
    pub fn take_hangs_on(&self) -> Option<usize> {
        Some(self.hangs_on.swap(NONE, Ordering::Relaxed)).filter(|condition| *condition != NONE)
    }

    /// An object as it looks where its own type is asked for.
    pub fn object(&self, at: usize) -> Option<Value> {
        Some(self.board.get(at)?.view(&self.agent.templates))
    }

    /// An object as it looks where `expected` is asked for: with the discriminator where that is a supertype or union.
    fn view(&self, at: usize, expected: TypeId) -> Option<Value> {
        let object = self.board.get(at)?;
        let (types, templates) = (&self.agent.types, &self.agent.templates);
        if !types.is_polymorphic(expected) {
            return Some(object.view(templates));
        }
        let value = present(types, expected, object.type_id, (*object.value).clone());
        Some(object_value(templates, object.type_id, &Arc::new(value)))
    }

    fn bound_view(&self, bound: &Bound, expected: TypeId) -> Option<Value> {
        match bound {
            Bound::One(at) => self.view(*at, expected),
            Bound::All(all) => Some(list(all.iter().filter_map(|at| self.view(*at, expected)).collect())),
            Bound::Absent => None,
        }
    }

    /// The truth of a condition.
    pub fn condition(&self, condition: usize) -> Truth {
        let Some(declared) = self.agent.conditions.get(condition) else { return Truth::Unknown };
        if let Some(flag) = self.marks.flags.get(condition).copied().flatten() {
            return if flag { Truth::True } else { Truth::False };
        }
        match &declared.kind {
            ConditionKind::Flag(first) => truth_of(*first),
            ConditionKind::Never(_) => truth_of(false),
            ConditionKind::Expr(inputs, expr) => {
                if self.depth >= CONDITION_DEPTH_MAX {
                    return Truth::Unknown;
                }
                let mut inside = Scope { depth: self.depth + 1, sees_types: true, ..self.clone() };
                inside.inputs = Arc::default();
                inside.extra = Arc::default();
                inside.sees_state = false;
                if !inputs.is_empty() {
                    let Some(bound) = self.board.bind(inputs) else { return Truth::Unknown };
                    inside = Scope { sees_types: true, ..inside.with_inputs(inputs, &bound) };
                }
                self.agent.templates.truth(*expr, &inside)
            }
            ConditionKind::Prompt(inputs, ..) => self.asked(condition, inputs),
        }
    }

    /// The answer of a prompted condition, as long as it is about the objects that are there now.
    fn asked(&self, condition: usize, inputs: &[Input]) -> Truth {
        let Some(bound) = self.board.bind(inputs) else { return Truth::Unknown };
        match self.marks.answers.get(condition) {
            Some(Some((about, answer))) if *about == bound => *answer,
            _ => {
                self.hangs_on.store(condition, Ordering::Relaxed);
                Truth::Unknown
            }
        }
    }

    fn type_id(&self, name: &str) -> Option<TypeId> {
        self.agent.types.id(name)
    }
}

/// The truth of a known value.
fn truth_of(value: bool) -> Truth {
    if value { Truth::True } else { Truth::False }
}

impl Vars for Scope {
    fn get(&self, name: &str) -> Var {
        if let Some((_, value)) = self.extra.iter().find(|(variable, _)| variable == name) {
            return Var::Value(value.clone());
        }
        if let Some((_, value)) = self.inputs.iter().find(|(input, _)| input == name) {
            return Var::Value(value.clone());
        }
        if let Some(field) = self.field(name) {
            return field.into();
        }
        match name {
            "inputs" => return Var::Value(map_value(self.inputs.iter().cloned())),
            "config" => return Var::Value(self.index.config().clone()),
            "process" => return Var::Value(self.process.clone()),
            _ => {}
        }
        if let Some(condition) = self.index.condition(name) {
            return match self.condition(condition) {
                Truth::True => Var::Value(Value::from(true)),
                Truth::False => Var::Value(Value::from(false)),
                Truth::Unknown => Var::Unknown,
            };
        }
        let id = self.index.type_of_default_name(name).filter(|_| self.sees_types);
        id.and_then(|id| self.view(self.board.newest(id)?.0, id)).into()
    }

    fn last(&self, type_name: &str) -> Var {
        self.type_id(type_name).and_then(|id| self.view(self.board.newest(id)?.0, id)).into()
    }

    fn all(&self, type_name: &str) -> Vec<Value> {
        let Some(id) = self.type_id(type_name) else { return Vec::new() };
        self.board.of_type(id).filter_map(|(at, _)| self.view(at, id)).collect()
    }

    fn count(&self, type_name: &str) -> usize {
        self.type_id(type_name).map_or(0, |id| self.board.count(id))
    }

    fn ran(&self, action: &str) -> bool {
        self.index.action(action).and_then(|action| self.marks.ran.get(action)).copied().unwrap_or(false)
    }

    fn now(&self) -> String {
        self.now.unwrap_or_else(|| self.host.world().now()).to_string()
    }
}
