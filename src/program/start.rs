//! The state that a run is assumed to start from, before there is a blackboard.

use crate::planning::explain::{Reach, suppliers};
use crate::planning::{FactId, Problem, State, Truth};
use crate::value::TypeId;

use super::{Agent, ConditionKind, Fact, Input};

impl Agent {
    /// The facts when objects of these inputs are there and nothing has run: `plan` without values starts so, and
    /// `check` asks from here what can be reached. A condition or expr whose objects are there may turn out either way.
    pub fn assumed_start(&self, inputs: &[Input]) -> State {
        let mut state = State::all(self.facts.len(), Truth::False);
        for (at, fact) in self.facts.iter().enumerate() {
            state.set(FactId(at as u32), self.assumed(fact, inputs));
        }
        state
    }

    /// A state in which objects of these types are there too: what mentions one of them may turn out either way.
    pub fn state_with(&self, state: &State, types: &[TypeId]) -> State {
        let input =
            |type_id: TypeId| Input { name: String::new(), type_id, list: false, optional: false, named: false };
        let there = self.facts.iter().enumerate().filter_map(|(at, fact)| match fact {
            Fact::Has { type_id, count: 1 } if state.knows(FactId(at as u32), true) => Some(*type_id),
            _ => None,
        });
        let inputs: Vec<Input> = there.chain(types.iter().copied()).map(input).collect();
        let new =
            |id: &TypeId| types.iter().any(|of| self.types.is_subtype(*of, *id) || self.types.is_subtype(*id, *of));
        let mut with = state.clone();
        for (at, fact) in self.facts.iter().enumerate() {
            let touched = match fact {
                Fact::Has { type_id, .. } | Fact::Newest(type_id) => new(type_id),
                Fact::HasNamed { .. } | Fact::Ran(_) | Fact::In(_) => false,
                Fact::Condition(at) => match self.conditions.get(*at) {
                    Some(condition) => condition.mentions.iter().any(new),
                    None => false,
                },
                Fact::Expr { mentions, .. } => mentions.iter().any(new),
            };
            let fact_id = FactId(at as u32);
            if touched && !(state.knows(fact_id, true) && matches!(fact, Fact::Has { .. })) {
                with.set(fact_id, self.assumed(fact, &inputs));
            }
        }
        with
    }

    /// Required inputs of actions that no action outputs and a run need not start from: under a supervisor the model may
    /// give such objects.
    pub fn asked_for(&self) -> Vec<Input> {
        let is_made = |of: TypeId| {
            let outputs = self.actions.iter().flat_map(|action| action.output.types());
            outputs.copied().any(|made| self.types.is_subtype(made, of) || self.types.is_subtype(of, made))
        };
        let inputs = self.actions.iter().flat_map(|action| &action.inputs);
        let mut asked: Vec<Input> = Vec::new();
        for input in inputs.filter(|input| !input.optional && !is_made(input.type_id)) {
            if asked.iter().all(|known| known.type_id != input.type_id || known.name != input.name) {
                asked.push(input.clone());
            }
        }
        asked
    }

    /// The types that are missing at the problem's start for these facts to be had: types that some action takes and none
    /// outputs, as few as will do. `None` when no input would help.
    pub fn inputs_wanted(&self, problem: &Problem<'_>, wanted: &[(FactId, bool)]) -> Option<Vec<TypeId>> {
        let reaches = |types: &[TypeId]| {
            let mut problem = problem.clone();
            problem.start = self.state_with(&problem.start, types);
            let reach = Reach::new(&problem);
            wanted.iter().all(|(fact, value)| reach.holds(*fact, *value))
        };
        let mut types: Vec<TypeId> = Vec::new();
        for (at, fact) in self.facts.iter().enumerate() {
            let id = FactId(at as u32);
            if let Fact::Has { type_id, count: 1 } = fact
                && !problem.start.allows(id, true)
                && self.domain.domain().actions.iter().any(|action| action.pre.contains(&(id, true)))
                && suppliers(problem, id, true).is_empty()
            {
                types.push(*type_id);
            }
        }
        if !reaches(&types) {
            return None;
        }
        for at in (0..types.len()).rev() {
            let mut fewer = types.clone();
            fewer.remove(at);
            if reaches(&fewer) {
                types = fewer;
            }
        }
        Some(types)
    }

    fn assumed(&self, fact: &Fact, inputs: &[Input]) -> Truth {
        let present = |id: &TypeId| {
            inputs
                .iter()
                .any(|input| self.types.is_subtype(input.type_id, *id) || self.types.is_subtype(*id, input.type_id))
        };
        match fact {
            Fact::Has { type_id, count } => {
                let surely = inputs.iter().filter(|input| self.types.is_subtype(input.type_id, *type_id));
                let many = surely.clone().any(|input| input.list);
                match surely.count() {
                    given if given >= *count as usize => Truth::True,
                    _ if many => Truth::Open,
                    _ if present(type_id) && *count == 1 => Truth::Open,
                    _ => Truth::False,
                }
            }
            Fact::HasNamed { name, type_id } => {
                let bound = |input: &Input| input.name == *name && self.types.is_subtype(input.type_id, *type_id);
                Truth::known(inputs.iter().any(bound))
            }
            Fact::Newest(type_id) => match inputs.last() {
                Some(last) if self.types.is_subtype(last.type_id, *type_id) => Truth::True,
                _ if present(type_id) => Truth::Open,
                _ => Truth::False,
            },
            Fact::Ran(_) | Fact::In(_) => Truth::False,
            Fact::Condition(at) => match self.conditions.get(*at) {
                Some(condition) => match condition.kind {
                    ConditionKind::Flag(value) => Truth::known(value),
                    ConditionKind::Never(_) => Truth::False,
                    _ if condition.mentions.iter().all(present) => Truth::Open,
                    _ => Truth::Unknown,
                },
                None => Truth::Unknown,
            },
            // The objects that it needs are asked for beside it; one that it only asks about, as in `has("T")`, may be
            // missing. So it may come out either way.
            Fact::Expr { .. } => Truth::Open,
        }
    }
}
