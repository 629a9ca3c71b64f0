//! What an action leaves behind: objects, marks, history; and the end of a process.

use std::sync::Arc;

use serde_json::Value;

use crate::action::{Failure, FailureKind};
use crate::program::{Action, Goal, OnError};
use crate::value::{OutputKind, TypeId, Valid, present, snake_case};

use super::act::Performed;
use super::blackboard::Bound;
use super::document::{Ending, HistoryEntry, Status, Typed};
use super::event::What;
use super::run::Process;

impl Process {
    /// Records an action that was performed.
    pub(super) fn record(&mut self, performed: Performed) {
        let Performed { action: index, bound, result, recovered_from, attempts, started_at, ms, log } = performed;
        let agent = self.core().agent.clone();
        let action = &agent.actions[index];
        let called = self.before_answer(index);
        for (type_id, value) in log.published {
            self.add(type_id, None, value);
        }
        let (ending, message) = match result {
            Ok(objects) => {
                let is_empty = objects.is_empty() && action.output.kind != OutputKind::None;
                self.succeed(index, action, &bound, objects);
                match recovered_from {
                    Some(failure) => (Ending::Recovered, Some(failure.message)),
                    None if is_empty => (Ending::Empty, None),
                    None => (Ending::Succeeded, None),
                }
            }
            Err(failure) => {
                let message = failure.message.clone();
                self.fail_action(index, action, failure);
                (Ending::Failed, Some(message))
            }
        };
        if let Some(before) = called {
            self.answer_call(index, &before, ending, message.as_deref());
        }
        self.core().emit(|| What::ActionFinished {
            action: action.name.clone(),
            status: ending.word().to_owned(),
            attempts,
            ms,
            message,
        });
        let (name, llm, tools) = (action.name.clone(), log.llm, log.tools);
        let entry = HistoryEntry { action: name, status: ending, attempts, started_at, ms, llm, tools };
        Arc::make_mut(&mut self.history).push(entry);
    }

    fn succeed(&mut self, index: usize, action: &Action, bound: &[Bound], objects: Vec<Valid>) {
        if action.trigger.is_some() {
            self.triggered[index] = self.board.last().map(|(at, _)| at);
        }
        let agent = self.core().agent.clone();
        let declared = action.output.types().first().copied();
        let mut produced = Vec::new();
        for object in objects {
            let Some(type_id) = object.type_id.or(declared) else { continue };
            let value = present(&agent.types, type_id, type_id, object.value);
            produced.push(self.add(type_id, action.output.name.clone(), value));
        }
        let entered = produced.iter().rev().copied().find(|at| self.is_state(*at));
        if action.clear_blackboard || entered.is_some() {
            self.clear(&produced);
        }
        for input in &action.hide {
            match bound.get(*input) {
                Some(Bound::One(at)) => self.hide(*at),
                Some(Bound::All(all)) => all.iter().for_each(|at| self.hide(*at)),
                Some(Bound::Absent) | None => {}
            }
        }
        let marks = Arc::make_mut(&mut self.marks);
        marks.ran[index] = true;
        for (condition, value) in &action.post {
            if marks.flags[*condition] != Some(*value) {
                marks.flags[*condition] = Some(*value);
                self.changes += 1;
            }
        }
        self.produced[index] = produced;
        self.ran_on[index] = bound.to_vec();
        if let Some(state) = entered {
            self.enter(state);
            // A goal of its own holds once it has run, also where it leads on to a state.
            let achieves = self.goals.iter().any(|goal| goal.action == Some(index));
            Arc::make_mut(&mut self.marks).ran[index] = achieves || action.state.is_none();
        }
    }

    /// Hides everything but what was just produced, objects of `keep` types and the conversation.
    fn clear(&mut self, produced: &[usize]) {
        let agent = self.core().agent.clone();
        let conversation = ["Conversation", "UserMessage", "AssistantMessage"].map(|name| agent.types.id(name));
        let stays =
            |id: TypeId| agent.keep.iter().any(|keep| self.board.is_a(id, *keep)) || conversation.contains(&Some(id));
        let going: Vec<usize> = self
            .board
            .visible()
            .filter(|(at, object)| !produced.contains(at) && !stays(object.type_id))
            .map(|(at, _)| at)
            .collect();
        going.into_iter().for_each(|at| self.hide(at));
    }

    /// Puts an object on the blackboard.
    pub(super) fn add(&mut self, type_id: TypeId, name: Option<String>, value: Value) -> usize {
        if self.talk.is_some() {
            self.join_conversation(type_id, &value);
        }
        let value = Arc::new(value);
        let at = Arc::make_mut(&mut self.board).add(type_id, name.as_deref().map(Arc::from), value.clone());
        self.changes += 1;
        let type_name = self.core().agent.types.name(type_id);
        self.core().emit(|| What::ObjectAdded {
            object: at,
            r#type: type_name.to_owned(),
            name,
            value: (*value).clone(),
        });
        at
    }

    pub(super) fn hide(&mut self, at: usize) {
        if Arc::make_mut(&mut self.board).hide(at) {
            self.changes += 1;
            self.core().emit(|| What::ObjectHidden { object: at });
        }
    }

    fn fail_action(&mut self, index: usize, action: &Action, failure: Failure) {
        match failure.kind {
            FailureKind::Killed => return self.finish(Status::Killed, Some((Some(action.name.clone()), failure))),
            FailureKind::Store => return self.finish(Status::Failed, Some((Some(action.name.clone()), failure))),
            FailureKind::Limit => return self.finish(Status::Terminated, Some((Some(action.name.clone()), failure))),
            _ => {}
        }
        match action.on_error {
            OnError::Fail | OnError::Output(_) => {
                self.finish(Status::Failed, Some((Some(action.name.clone()), failure)));
            }
            OnError::Replan => {
                self.out.push(index);
                self.first_failure.get_or_insert((action.name.clone(), failure));
            }
        }
    }

    /// A goal holds: its object is the result.
    pub(super) fn complete(&mut self, goal: usize) {
        self.goal = Some(goal);
        self.result = self.result_of_goal(goal);
        self.finish(Status::Completed, None);
    }

    fn result_of_goal(&self, goal: usize) -> Option<Typed> {
        let goal: &Goal = self.goals.get(goal)?;
        let types = &self.core().agent.types;
        let own = goal.action.and_then(|action| self.produced.get(action));
        let newest = |id: TypeId| match own {
            Some(own) => own
                .iter()
                .rev()
                .copied()
                .find(|at| self.board.get(*at).is_some_and(|object| self.board.is_a(object.type_id, id))),
            None => self.board.newest(id).map(|(at, _)| at),
        };
        let shown = |id: TypeId, at: usize| {
            let object = self.board.get(at)?;
            Some((object.type_id, present(types, id, object.type_id, (*object.value).clone())))
        };
        match &goal.output.kind {
            OutputKind::One(id) | OutputKind::Optional(id) => {
                let (of, value) = shown(*id, newest(*id)?)?;
                Some(Typed { r#type: types.name(of).to_owned(), value })
            }
            OutputKind::List(id) => {
                let all: Vec<usize> = match own {
                    Some(own) => own.clone(),
                    None => self.board.of_type(*id).map(|(at, _)| at).collect(),
                };
                let items = all.into_iter().filter_map(|at| shown(*id, at)).map(|(_, value)| value).collect();
                Some(Typed { r#type: goal.output.describe(types), value: Value::Array(items) })
            }
            OutputKind::SomeOf(ids) => {
                let member = |id: &TypeId| {
                    let (_, value) = shown(*id, newest(*id)?)?;
                    Some((snake_case(types.name(*id)), value))
                };
                let value = Value::Object(ids.iter().filter_map(member).collect());
                Some(Typed { r#type: goal.output.describe(types), value })
            }
            OutputKind::None => None,
        }
    }

    /// No plan is left: the first failure is the cause, or the process is stuck.
    pub(super) fn give_up(&mut self, why: String) {
        match self.first_failure.take() {
            Some((action, failure)) => self.finish(Status::Failed, Some((Some(action), failure))),
            None => self.finish(Status::Stuck, Some((None, Failure::new(FailureKind::Stuck, why)))),
        }
    }

    /// Ends the process, once.
    pub(super) fn finish(&mut self, status: Status, failure: Option<(Option<String>, Failure)>) {
        if self.has_ended() {
            return;
        }
        self.failure = failure;
        self.set_status(status);
        self.put_ended();
        self.core().emit(|| What::Finished {
            status: status.word().to_owned(),
            goal: self.goal.and_then(|goal| self.goals.get(goal)).map(|goal| goal.name.clone()),
            output: self.result.clone(),
            action: self.failure.as_ref().and_then(|(action, _)| action.clone()),
            kind: self.failure.as_ref().map(|(_, failure)| failure.kind.word().to_owned()),
            message: self.failure.as_ref().map(|(_, failure)| failure.message.clone()),
        });
    }
}
