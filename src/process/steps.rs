//! Steps: what the actions in flight have done to the outside (runtime.md 5).
//!
//! Each effect of an action — a model's reply, a tool call, a request, a program, a person's answer, a sub-process — is a
//! step with a [`Path`] that is the same each time the action is performed. When an action is performed again, after a
//! wait or a crash, the steps that were completed give their result instead of being done again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::context::Question;
use crate::action::{Failure, FailureKind};

use super::context::CallLog;
use super::run::Process;

/// A place inside an action that is performed, such as `map#1/part3`: the action's name, which start of it this is, and
/// what parts it went through. A clone is the same place.
#[derive(Clone, Debug)]
pub struct Path {
    text: Arc<str>,
    /// How many steps and parts of each name there were here.
    counts: Arc<Mutex<HashMap<String, u32>>>,
}

impl Path {
    /// The place of the `start`-th performance of an action (from 1), and of its `attempt`-th try (from 1).
    pub fn of_action(name: &str, start: u32, attempt: u32) -> Path {
        match attempt {
            1 => Path::new(format!("{name}#{start}")),
            again => Path::new(format!("{name}#{start}.{again}")),
        }
    }

    /// A place of its own.
    pub fn new(text: impl Into<Arc<str>>) -> Path {
        Path { text: text.into(), counts: Arc::default() }
    }

    /// A part of this place, which counts its own steps: what runs side by side never counts together. The second part
    /// of one name is told apart from the first.
    pub fn branch(&self, part: &str) -> Path {
        match self.count(&format!("/{part}")) {
            1 => Path::new(format!("{}/{part}", self.text)),
            again => Path::new(format!("{}/{part}~{again}", self.text)),
        }
    }

    /// The path of the next step of a kind, such as `find_news#1/llm1`.
    pub fn next(&self, kind: &str) -> String {
        format!("{}/{kind}{}", self.text, self.count(kind))
    }

    /// The place as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn count(&self, name: &str) -> u32 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(name.to_owned()).or_insert(0);
        *count += 1;
        *count
    }
}

/// A step that was completed: what came of it, and what it left behind.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// What came of it; a failure that was handed on is a result too.
    pub(super) result: Result<Value, Failure>,
    /// Calls and objects that it left behind.
    pub(super) log: CallLog,
}

/// A question to a person that has no answer yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The step that the answer completes.
    pub path: String,
    /// The question.
    pub question: Question,
    /// Until when the answer is waited for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<jiff::Timestamp>,
}

/// The record of the actions in flight of one process.
#[derive(Default)]
pub struct Steps {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    done: HashMap<String, Done>,
    /// Steps that were begun and must not be repeated without a person's word.
    begun: HashSet<String>,
    pending: Vec<Pending>,
    /// Until when unanswered questions are waited for, kept while the action is performed again.
    until: HashMap<String, jiff::Timestamp>,
    /// Sub-processes that wait, by the step that runs them.
    parked: HashMap<String, Box<Process>>,
    /// Sub-processes that were started, by the step that runs them.
    children: HashMap<String, String>,
    /// What was told of parts that have ended: it is not told again when the action is performed again.
    told: HashSet<String>,
}

impl Steps {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What came of a step, when it was completed.
    pub(super) fn done(&self, path: &str) -> Option<Done> {
        self.lock().done.get(path).cloned()
    }

    /// Whether a step at or below a place was completed: performing it now repeats what was done before.
    pub(super) fn has_any(&self, place: &str) -> bool {
        let inner = self.lock();
        let below = |path: &String| path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'));
        inner.done.keys().chain(inner.children.keys()).any(below)
    }

    /// Takes down what came of a step.
    pub(super) fn complete(&self, path: &str, done: Done) {
        let mut inner = self.lock();
        inner.begun.remove(path);
        inner.done.insert(path.to_owned(), done);
    }

    /// Whether a step was begun before, and must not be repeated.
    pub(super) fn was_begun(&self, path: &str) -> bool {
        self.lock().begun.contains(path)
    }

    /// Takes down that a step begins that must not be repeated.
    pub(super) fn begin(&self, path: &str) {
        self.lock().begun.insert(path.to_owned());
    }

    /// A step that was begun has done nothing yet.
    pub(super) fn withdraw(&self, path: &str) {
        self.lock().begun.remove(path);
    }

    /// A sub-process has a question that no one answers now.
    pub(super) fn ask_for_child(&self, path: String, pending: Pending) {
        self.lock().pending.push(Pending { path, ..pending });
    }

    /// A person is asked and does not answer now.
    pub(super) fn ask(&self, path: String, question: Question, now: jiff::Timestamp) {
        let mut inner = self.lock();
        let until = inner.until.get(&path).copied();
        let until = until.or_else(|| now.checked_add(question.timeout?).ok());
        if let Some(until) = until {
            inner.until.insert(path.clone(), until);
        }
        inner.pending.push(Pending { path, question, until });
    }

    /// Whether this was not told before.
    pub(super) fn is_news(&self, what: String) -> bool {
        self.lock().told.insert(what)
    }

    /// How long a question that was asked before is still waited for.
    pub(super) fn time_left(&self, path: &str, now: jiff::Timestamp) -> Option<std::time::Duration> {
        let until = self.lock().until.get(path).copied()?;
        Some(until.duration_since(now).try_into().unwrap_or_default())
    }

    /// The question that an answer is for: the first that has none.
    pub(super) fn pending(&self) -> Option<Pending> {
        self.lock().pending.first().cloned()
    }

    /// The action is performed again: what has no answer yet will ask again.
    pub(super) fn perform_again(&self) {
        self.lock().pending.clear();
    }

    /// Keeps a sub-process that waits.
    pub(super) fn park(&self, path: &str, child: Process) {
        self.lock().parked.insert(path.to_owned(), Box::new(child));
    }

    /// The sub-process that a step has started and that waits.
    pub(super) fn unpark(&self, path: &str) -> Option<Box<Process>> {
        self.lock().parked.remove(path)
    }

    /// Takes down which sub-process a step has started.
    pub(super) fn start_child(&self, path: &str, id: &str) {
        self.lock().children.insert(path.to_owned(), id.to_owned());
    }

    /// The sub-process that a step has started.
    pub(super) fn child(&self, path: &str) -> Option<String> {
        self.lock().children.get(path).cloned()
    }

    /// Takes down until when a question is waited for, as it was before.
    pub(super) fn wait_until(&self, path: &str, until: jiff::Timestamp) {
        self.lock().until.insert(path.to_owned(), until);
    }

    /// The actions in flight have ended: their steps are no longer needed.
    pub(super) fn clear(&self) {
        *self.lock() = Inner::default();
    }
}

/// Whether a failure says nothing about the step: it is not taken down, and the step is done again.
pub(super) fn is_passing(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Waiting | FailureKind::Killed | FailureKind::Limit | FailureKind::Store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_the_same_each_time_and_count_by_place() {
        let paths = || {
            let action = Path::of_action("map", 1, 1);
            let (third, first) = (action.branch("part3"), action.branch("part1"));
            let again = action.branch("part1");
            let tools = [action.next("tool:search#"), action.next("tool:search#"), action.next("llm")];
            [vec![third.next("llm"), first.next("llm"), first.next("llm"), again.next("llm")], tools.to_vec()].concat()
        };
        assert_eq!(
            paths(),
            [
                "map#1/part3/llm1",
                "map#1/part1/llm1",
                "map#1/part1/llm2",
                "map#1/part1~2/llm1",
                "map#1/tool:search#1",
                "map#1/tool:search#2",
                "map#1/llm1"
            ]
        );
        assert_eq!(paths(), paths());
        assert_eq!(Path::of_action("map", 2, 3).next("llm"), "map#2.3/llm1");
    }

    #[test]
    fn a_step_that_must_not_be_repeated_is_known_until_it_is_completed() {
        let steps = Steps::default();
        steps.begin("a#1/tool:pay#1");
        assert!(steps.was_begun("a#1/tool:pay#1") && !steps.has_any("a#1"));
        steps.complete("a#1/tool:pay#1", Done { result: Ok(Value::Null), log: CallLog::default() });
        assert!(!steps.was_begun("a#1/tool:pay#1"));
        assert!(steps.has_any("a#1") && !steps.has_any("a"));
    }
}
