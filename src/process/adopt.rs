//! A process takes a changed program at its next planning step (runtime.md 6).
//!
//! What it has gone through is kept by name: an action that has run has run, a name that is bound is bound. Everything
//! visible is validated again under the new types. Nothing is changed until all of that is known, so a program that
//! cannot be taken leaves the process as it was.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::program::{Agent, Change, Limits, Reload};
use crate::value::{Shape, Tags, TypeId, present};

use super::blackboard::{Blackboard, Object};
use super::event::{NoLongerFits, What};
use super::host::{Newer, Refused, ReloadPolicy};
use super::journal::Record;
use super::run::Process;
use super::scope::Marks;

/// Positions by name: where what stood at `old[at]` is in `new`, or that it is gone.
struct Moved(Vec<Option<usize>>);

impl Moved {
    fn new<'a>(old: impl Iterator<Item = &'a str>, new: impl Iterator<Item = &'a str>) -> Moved {
        let new: HashMap<&str, usize> = new.enumerate().map(|(at, name)| (name, at)).collect();
        Moved(old.map(|name| new.get(name).copied()).collect())
    }

    fn get(&self, at: usize) -> Option<usize> {
        self.0.get(at).copied().flatten()
    }

    /// What belongs to each position, at its new one; what is new has the default.
    fn list<T: Clone + Default>(&self, old: &[T], length: usize) -> Vec<T> {
        let mut new = vec![T::default(); length];
        for (at, value) in old.iter().enumerate() {
            if let Some(place) = self.get(at).and_then(|at| new.get_mut(at)) {
                *place = value.clone();
            }
        }
        new
    }
}

impl Process {
    /// Takes the newest program, when there is one that this process may take. Nothing is in flight.
    pub(super) fn take_newer(&mut self) {
        if self.policy() == ReloadPolicy::Pin {
            return;
        }
        let core = &self.core;
        if Arc::strong_count(core) > 1 {
            return;
        }
        match core.host.newer(&core.agent.name, &core.run, core.parent.is_none()) {
            None => {}
            Some(Err(refused)) => self.refuse(refused),
            Some(Ok(newer)) if newer.number == self.refused => {}
            Some(Ok(newer)) => {
                let number = newer.number;
                if let Err(reason) = self.adopt(newer) {
                    self.refuse(Refused { number, reasons: vec![reason] });
                }
            }
        }
    }

    fn policy(&self) -> ReloadPolicy {
        match self.core.agent.reload() {
            Some(Reload::Adopt) => ReloadPolicy::Adopt,
            Some(Reload::Pin) => ReloadPolicy::Pin,
            None => self.core.run.reload,
        }
    }

    /// Says once why the process goes on with what it has.
    fn refuse(&mut self, refused: Refused) {
        if self.refused != refused.number {
            self.refused = refused.number;
            self.core.emit(|| What::ReloadRefused { reasons: refused.reasons });
        }
    }

    /// Goes on with another program from here on.
    ///
    /// # Errors
    /// Says why the process cannot; it is as it was then.
    pub(super) fn adopt(&mut self, newer: Newer) -> Result<(), String> {
        let Newer { host, agent, index, .. } = newer;
        let old = self.core.agent.clone();
        if let Some(what) = agent.unsupported.first() {
            return Err(what.clone());
        }
        if !Arc::ptr_eq(&old, &agent) {
            let returns = match &self.wanted.returns {
                Some(name) => Some(agent.types.id(name).ok_or_else(|| {
                    format!("the run is to give a `{name}`, and the changed files declare no such type")
                })?),
                None => None,
            };
            let changes = agent.diff(&old);
            let (board, hidden, filled) = revalidated(&self.board, &old, &agent, &index);
            self.reset_goals(&agent, returns)?;
            let cured = self.remap(&old, &agent, &changes);
            let is_state = |at: &usize| {
                board.get(*at).is_some_and(|object| {
                    agent.types.iter().any(|(id, _)| id == object.type_id) && agent.types.is_state(object.type_id)
                })
            };
            // A state whose object is none any more is left.
            self.state = self.state.filter(is_state).filter(|at| hidden.iter().all(|gone| gone.object != *at));
            self.board = Arc::new(board);
            self.core.ledger.set_limits(limits(self.core.ledger.limits(), old.limits, agent.limits));
            self.go_under(host, agent, index);
            self.core.put(|| Record::Adopted {
                shape: self.core.index.shape_of(&self.core.agent).to_owned(),
                hidden: hidden.iter().map(|gone| gone.object).collect(),
                filled: filled.iter().map(|(at, value)| (*at, (**value).clone())).collect(),
                cured: cured.clone(),
            });
            self.core.emit(|| What::ProgramReloaded {
                changes: changes.iter().map(ToString::to_string).collect(),
                hidden: hidden.clone(),
            });
            hidden.iter().for_each(|gone| self.hide(gone.object));
        } else {
            // Only what is around the agent differs: providers, permissions, other agents.
            self.go_under(host, agent, index);
        }
        Ok(())
    }

    /// What a process that is rebuilt from its journal did when it adopted; the program is the newer one already.
    pub(super) fn adopt_again(&mut self, hidden: &[usize], filled: Vec<(usize, Value)>, cured: &[String]) {
        let filled: HashMap<usize, Arc<Value>> = filled.into_iter().map(|(at, value)| (at, Arc::new(value))).collect();
        let index = self.core.index.clone();
        self.board =
            Arc::new(self.board.converted(index, |at, object| {
                Some((object.type_id, filled.get(&at).unwrap_or(&object.value).clone()))
            }));
        hidden.iter().for_each(|at| self.hide(*at));
        let agent = self.core.agent.clone();
        self.out.retain(|at| agent.actions.get(*at).is_none_or(|action| !cured.contains(&action.name)));
        self.state = self.state.filter(|at| self.board.is_visible(*at));
        self.changes += 1;
    }

    /// Puts another program under the process.
    fn go_under(&mut self, host: Arc<dyn super::Host>, agent: Arc<Agent>, index: Arc<super::AgentIndex>) {
        self.changes += 1;
        // Nothing is in flight, so nothing else holds the core.
        debug_assert!(Arc::strong_count(&self.core) == 1, "nothing is in flight");
        if let Some(core) = Arc::get_mut(&mut self.core) {
            (core.host, core.agent, core.index) = (host, agent, index);
        }
    }

    /// The goals that this run is about, in a changed agent.
    fn reset_goals(&mut self, agent: &Arc<Agent>, returns: Option<TypeId>) -> Result<(), String> {
        let before = (self.domain.clone(), self.goals.clone(), self.only_goals.take());
        (self.domain, self.goals) = (agent.domain.clone(), agent.goals.clone());
        let goal = self.wanted.goal.clone();
        let chosen = self.choose_goals_of(agent, goal.as_deref(), returns);
        chosen.map_err(|failure| {
            (self.domain, self.goals, self.only_goals) = before;
            failure.message
        })
    }

    /// Brings everything that is kept by position to where it is in the changed agent.
    fn remap(&mut self, old: &Agent, new: &Agent, changes: &[Change]) -> Vec<String> {
        let has_changed =
            |kind: &str, name: &str| changes.iter().any(|change| change.kind == kind && change.name == name);
        let actions = Moved::new(
            old.actions.iter().map(|action| action.name.as_str()),
            new.actions.iter().map(|action| action.name.as_str()),
        );
        let conditions = Moved::new(
            old.conditions.iter().map(|condition| condition.name.as_str()),
            new.conditions.iter().map(|condition| condition.name.as_str()),
        );
        let (action_count, condition_count) = (new.actions.len(), new.conditions.len());
        let mut marks = Marks {
            ran: actions.list(&self.marks.ran, action_count),
            flags: conditions.list(&self.marks.flags, condition_count),
            answers: conditions.list(&self.marks.answers, condition_count),
        };
        // A changed question is asked again.
        for (at, condition) in new.conditions.iter().enumerate() {
            if has_changed("condition", &condition.name) {
                marks.answers[at] = None;
            }
        }
        self.marks = Arc::new(marks);
        self.triggered = actions.list(&self.triggered, action_count);
        self.produced = actions.list(&self.produced, action_count);
        self.ran_on = actions.list(&self.ran_on, action_count);
        self.starts = actions.list(&self.starts, action_count);
        self.asked = conditions.list(&self.asked, condition_count);
        // An action that failed for good and was changed since is tried again.
        let is_still_out = |at: &usize| old.actions.get(*at).is_some_and(|action| !has_changed("action", &action.name));
        let names = self.out.iter().filter(|at| !is_still_out(at)).filter_map(|at| old.actions.get(*at));
        let cured: Vec<String> = names.map(|action| action.name.clone()).collect();
        self.out = self.out.iter().filter(|at| is_still_out(at)).filter_map(|at| actions.get(*at)).collect();
        self.tried_when_stuck =
            self.tried_when_stuck.iter().filter(|at| is_still_out(at)).filter_map(|at| actions.get(*at)).collect();
        let is_cured = |(name, _): &(String, _)| !self.out.iter().any(|at| new.actions[*at].name == *name);
        if self.first_failure.as_ref().is_some_and(is_cured) {
            self.first_failure = None;
        }
        self.planner = self.wanted.planner.unwrap_or(new.planner);
        // Plans, and what was expected of them, were made for other facts.
        self.expected.clear();
        self.disappointments.clear();
        self.rest.clear();
        self.in_force = None;
        cured
    }
}

/// The blackboard under changed types, and the visible objects that do not fit any more.
fn revalidated(
    board: &Blackboard,
    old: &Agent,
    new: &Arc<Agent>,
    index: &Arc<super::AgentIndex>,
) -> (Blackboard, Vec<NoLongerFits>, IndexMap<usize, Arc<Value>>) {
    let id_of = |object: &Object| {
        let name = old.types.iter().find(|(id, _)| *id == object.type_id).map(|(_, def)| def.name.as_str());
        (name, name.and_then(|name| new.types.id(name)))
    };
    let mut values: IndexMap<usize, Arc<Value>> = IndexMap::new();
    let mut hidden = Vec::new();
    for (at, object) in board.visible() {
        let (name, id) = id_of(object);
        let checked = match id {
            None => Err("there is no such type any more".to_owned()),
            Some(id) => valid(new, id, &object.value),
        };
        match checked {
            Ok(value) if value == *object.value => {}
            Ok(value) => {
                values.insert(at, Arc::new(value));
            }
            Err(why) => {
                hidden.push(NoLongerFits { object: at, r#type: name.unwrap_or_default().to_owned(), why });
            }
        }
    }
    let board = board.converted(index.clone(), |at, object| {
        let value = values.get(&at).unwrap_or(&object.value);
        Some((id_of(object).1?, value.clone()))
    });
    (board, hidden, values)
}

/// A value as it is under a changed type, such as with a default that a new field brings.
fn valid(agent: &Arc<Agent>, id: TypeId, value: &Value) -> Result<Value, String> {
    let checked = agent.validators.validate_with(&Shape::named(id), value.clone(), &**agent, Tags::Inferred);
    match checked {
        Ok(valid) => Ok(present(&agent.types, id, id, valid.value)),
        Err(violations) => Err(violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

/// The limits from now on: the changed agent's, where the run has not set its own.
fn limits(now: Limits, old: Limits, new: Limits) -> Limits {
    fn pick<T: PartialEq>(now: T, old: &T, new: T) -> T {
        if now == *old { new } else { now }
    }
    Limits {
        actions: pick(now.actions, &old.actions, new.actions),
        cost: pick(now.cost, &old.cost, new.cost),
        tokens: pick(now.tokens, &old.tokens, new.tokens),
        llm_calls: pick(now.llm_calls, &old.llm_calls, new.llm_calls),
        time: pick(now.time, &old.time, new.time),
        depth: pick(now.depth, &old.depth, new.depth),
    }
}
