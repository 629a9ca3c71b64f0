//! How an agent's facts are called in explanations: in the words of its author, not in those of the planner.

use crate::planning::explain::{self, Cause, Missing, Reach, Words};
use crate::planning::{FactId, Problem, Truth};

use super::{Agent, Condition, ConditionKind, Fact};

/// The words for the facts of an agent.
#[derive(Clone, Copy, Debug)]
pub struct AgentWords<'a> {
    agent: &'a Agent,
    /// Where objects are that are there: `among the inputs`, or `on the blackboard` once a process runs.
    place: &'static str,
}

impl Agent {
    /// Its words before anything has run.
    pub fn words_for_inputs(&self) -> AgentWords<'_> {
        AgentWords { agent: self, place: "among the inputs" }
    }

    /// Its words while a process runs.
    pub fn words_for_process(&self) -> AgentWords<'_> {
        AgentWords { agent: self, place: "on the blackboard" }
    }
}

impl AgentWords<'_> {
    /// Why a goal cannot be reached, leaf first.
    pub fn unreachable(&self, problem: &Problem<'_>, goal: usize) -> Vec<Missing> {
        self.without_echoes(explain::unreachable_in(problem, goal, self))
    }

    /// What keeps facts from being had, leaf first.
    pub fn missing(&self, reach: &Reach<'_, '_>, wanted: &[(FactId, bool)]) -> Vec<Missing> {
        self.without_echoes(reach.missing(wanted, self))
    }

    /// That an action has not run says nothing beside its output, which it alone supplies.
    fn without_echoes(&self, all: Vec<Missing>) -> Vec<Missing> {
        let is_run = |missing: &Missing| missing.value && matches!(self.meaning(missing.fact), Some(Fact::Ran(_)));
        let echoes = |missing: &Missing| {
            is_run(missing) && all.iter().any(|other| !is_run(other) && other.suppliers == missing.suppliers)
        };
        all.iter().filter(|missing| !echoes(missing)).cloned().collect()
    }

    fn meaning(&self, fact: FactId) -> Option<&Fact> {
        self.agent.facts.get(fact.0 as usize)
    }

    fn type_name(&self, id: crate::value::TypeId) -> &str {
        self.agent.types.name(id)
    }

    fn action_name(&self, action: usize) -> &str {
        self.agent.actions.get(action).map_or("?", |action| &action.name)
    }

    /// The text of a condition or expr.
    fn text(&self, fact: FactId) -> &str {
        self.agent.domain.domain().fact_name(fact)
    }

    fn condition(&self, fact: FactId) -> Option<&Condition> {
        match self.meaning(fact)? {
            Fact::Condition(at) => self.agent.conditions.get(*at),
            _ => None,
        }
    }

    /// The types that a condition or expr looks at, listed.
    fn looks_at(&self, fact: FactId) -> String {
        let mentions = match self.meaning(fact) {
            Some(Fact::Condition(at)) => self.agent.conditions.get(*at).map(|condition| &condition.mentions),
            Some(Fact::Expr { mentions, .. }) => Some(mentions),
            _ => None,
        };
        let names: Vec<&str> = mentions.into_iter().flatten().map(|id| self.type_name(*id)).collect();
        crate::decl::read::listed(&names)
    }

    /// A fact without backticks, as a plan shows what a step needs: `Water`, `2 of Draft`, `not urgent`.
    pub fn short(&self, fact: FactId, value: bool) -> String {
        let text = match self.meaning(fact) {
            Some(Fact::Has { type_id, count: 1 }) => self.type_name(*type_id).to_owned(),
            Some(Fact::Has { type_id, count }) => format!("{count} of {}", self.type_name(*type_id)),
            Some(Fact::HasNamed { name, type_id }) => format!("{name}: {}", self.type_name(*type_id)),
            Some(Fact::Newest(type_id)) => format!("newest {}", self.type_name(*type_id)),
            Some(Fact::In(type_id)) => format!("state {}", self.type_name(*type_id)),
            _ => self.text(fact).to_owned(),
        };
        if value { text } else { format!("not {text}") }
    }
}

impl Words for AgentWords<'_> {
    fn fact(&self, fact: FactId, value: bool) -> String {
        match (self.meaning(fact), value) {
            (Some(Fact::Has { type_id, count: 1 }), true) => format!("`{}`", self.type_name(*type_id)),
            (Some(Fact::Has { type_id, count }), true) => format!("{count} objects of `{}`", self.type_name(*type_id)),
            (Some(Fact::HasNamed { name, type_id }), true) => {
                format!("a `{}` named `{name}`", self.type_name(*type_id))
            }
            (Some(Fact::Newest(type_id)), true) => format!("`{}` as the newest object", self.type_name(*type_id)),
            (Some(Fact::In(type_id)), true) => format!("the state `{}`", self.type_name(*type_id)),
            (Some(Fact::Ran(action)), true) => format!("that `{}` has run", self.action_name(*action)),
            (Some(Fact::Ran(action)), false) => format!("that `{}` has not run", self.action_name(*action)),
            (_, true) => format!("`{}`", self.text(fact)),
            (_, false) => format!("`{}`", self.short(fact, false)),
        }
    }

    fn leaf(&self, fact: FactId, value: bool, start: Truth) -> String {
        let text = self.text(fact);
        if let (true, Some(ConditionKind::Never(why))) = (value, self.condition(fact).map(|condition| &condition.kind))
        {
            return why.clone();
        }
        match (self.meaning(fact), value) {
            (Some(Fact::Has { count: 1, .. }), true) => {
                format!("{} is not {}, and no action outputs it", self.fact(fact, true), self.place)
            }
            (Some(Fact::Has { .. }), true) => {
                format!("{} are not {}, and no action outputs more", self.fact(fact, true), self.place)
            }
            (Some(Fact::HasNamed { .. }), true) => {
                format!("{} is not {}, and no action outputs one", self.fact(fact, true), self.place)
            }
            (Some(Fact::Newest(_)), true) => format!("no action outputs {}", self.fact(fact, true)),
            (Some(Fact::In(_)), true) => format!("no action leads to {}", self.fact(fact, true)),
            (Some(Fact::Ran(action)), true) => format!("`{}` has not run, and never will", self.action_name(*action)),
            (Some(Fact::Ran(action)), false) => format!(
                "`{}` has run already, and runs once (`can_rerun: true` would let it run again)",
                self.action_name(*action)
            ),
            _ if start == Truth::Unknown => {
                format!("`{text}` is not known, because it looks at {}, and nothing outputs that", self.looks_at(fact))
            }
            _ => {
                let is = if value { "does not hold" } else { "holds" };
                let why = match self.condition(fact).map(|condition| &condition.kind) {
                    Some(ConditionKind::Flag(_)) => "no action has it in its `post`".to_owned(),
                    _ => match self.looks_at(fact).as_str() {
                        "" => "nothing changes it".to_owned(),
                        types => format!("no action outputs what it looks at, {types}"),
                    },
                };
                format!("`{text}` {is}, and {why}")
            }
        }
    }

    fn supplied(&self, fact: FactId, value: bool, by: &[String]) -> String {
        if let (Some(Fact::Ran(action)), true, [only]) = (self.meaning(fact), value, by) {
            let name = format!("`{}`", self.action_name(*action));
            // The only way to have run is to run.
            let why = only.strip_prefix(&format!("{name}, which ")).unwrap_or(only);
            return format!("{name} cannot run: it {why}");
        }
        let verb = match (self.meaning(fact), value) {
            (Some(Fact::Has { .. } | Fact::HasNamed { .. } | Fact::Newest(_)), true) => "is output only by",
            (Some(Fact::Has { .. } | Fact::HasNamed { .. } | Fact::Newest(_)), false) => "is taken away only by",
            (Some(Fact::In(_)), true) => "is entered only by",
            (_, true) => "is made true only by",
            (_, false) => "is made false only by",
        };
        let what = match self.meaning(fact) {
            Some(Fact::Has { .. } | Fact::HasNamed { .. } | Fact::Newest(_) | Fact::In(_)) => self.fact(fact, true),
            _ => format!("`{}`", self.text(fact)),
        };
        format!("{what} {verb} {}", by.join(", and by "))
    }

    fn excluded(&self, action: usize) -> &'static str {
        let action = self.agent.operators.get(action).and_then(|action| self.agent.actions.get(*action));
        match action {
            Some(action) if action.on_stuck => "is tried only when there is no plan",
            _ => "is excluded",
        }
    }

    fn lacks(&self, fact: FactId, value: bool, others: usize, cause: Cause) -> String {
        if let (Some(Fact::Ran(_)), false, Cause::Own) = (self.meaning(fact), value, cause) {
            return "has run already, and runs once".to_owned();
        }
        let others = if others == 0 { String::new() } else { format!(" and {others} more") };
        let cause = match (cause, value) {
            (Cause::Own, _) => "and that is so already",
            (Cause::NoSupplier, true) => "which nothing supplies",
            (Cause::NoSupplier, false) => "which nothing makes so",
            (Cause::Suppliers, _) => "which cannot be had either",
        };
        format!("needs {}{others}, {cause}", self.fact(fact, value))
    }
}
