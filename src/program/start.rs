//! The state that a run is assumed to start from, before there is a blackboard.

use crate::planning::{FactId, State, Truth};

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

    fn assumed(&self, fact: &Fact, inputs: &[Input]) -> Truth {
        let present = |id: &crate::value::TypeId| {
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
                    _ if condition.mentions.iter().all(present) => Truth::Open,
                    _ => Truth::Unknown,
                },
                None => Truth::Unknown,
            },
            Fact::Expr { mentions, .. } => {
                if mentions.iter().all(present) {
                    Truth::Open
                } else {
                    Truth::Unknown
                }
            }
        }
    }
}
