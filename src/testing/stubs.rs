//! What stands in for tools and actions in a case.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use serde_json::Value;

use crate::action::context::{Question, QuestionKind};
use crate::action::{Failure, FailureKind};
use crate::diag::Diagnostic;
use crate::process::Stubs;
use crate::source::{Node, Span};

use super::case::Parts;

/// The results that a tool or action gives.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stub {
    /// Results and errors in order.
    steps: Vec<Result<Value, String>>,
    /// The steps were written under `turns`: then they are used up.
    turns: bool,
    /// Where its name stands.
    pub(super) span: Span,
    /// The case itself gives it, so that it has to be used.
    pub(super) own: bool,
}

const KEYS: &[&str] = &["reply", "error", "turns"];

impl Stub {
    /// Reads data (which is given always), `{reply: data}`, `{error: text}` or `{turns: [those]}`.
    pub(super) fn read(node: &Node, span: Span, own: bool) -> Result<Stub, Box<Diagnostic>> {
        let only = node.as_map().and_then(|map| match map.entries.as_slice() {
            [only] if KEYS.contains(&only.key.value.as_str()) => Some((only.key.value.as_str(), &only.value)),
            _ => None,
        });
        let (steps, turns) = match only {
            Some(("turns", turns)) => {
                let Some(items) = turns.as_list().filter(|items| !items.is_empty()) else {
                    let wrong = Diagnostic::error("wrong-shape", turns.span, "expected a list of at least one result");
                    return Err(Box::new(wrong));
                };
                (items.iter().map(step).collect::<Result<Vec<_>, _>>()?, true)
            }
            _ => (vec![step(node)?], false),
        };
        Ok(Stub { steps, turns, span, own })
    }
}

fn step(node: &Node) -> Result<Result<Value, String>, Box<Diagnostic>> {
    let only = node.as_map().and_then(|map| match map.entries.as_slice() {
        [only] => Some((only.key.value.as_str(), &only.value)),
        _ => None,
    });
    match only {
        Some(("reply", value)) => Ok(Ok(value.to_json())),
        Some(("error", value)) => match value.as_str() {
            Some(text) => Ok(Err(text.to_owned())),
            None => Err(Box::new(Diagnostic::error("wrong-shape", value.span, "expected the text of the error"))),
        },
        _ => Ok(Ok(node.to_json())),
    }
}

/// What a person answers, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answers {
    pub(super) given: Vec<Value>,
    pub(super) span: Span,
    pub(super) own: bool,
}

/// The stubs of one run, and what became of them.
pub(super) struct CaseStubs {
    tools: IndexMap<String, Stub>,
    actions: IndexMap<String, Stub>,
    answers: IndexMap<String, Answers>,
    /// Actions that reach out of the program: HTTP, other programs.
    outside: BTreeSet<String>,
    live: bool,
    seen: Mutex<Seen>,
}

/// What became of stubs.
#[derive(Default)]
pub(super) struct Seen {
    /// How often each was asked for.
    tools: IndexMap<String, usize>,
    actions: IndexMap<String, usize>,
    answers: IndexMap<String, usize>,
    /// What was called without a stub, or oftener than its stub has turns.
    pub(super) problems: Vec<String>,
    /// Questions without an answer: what is asked, and a line to add.
    unanswered: Vec<String>,
}

impl CaseStubs {
    pub(super) fn new(parts: &Parts, outside: BTreeSet<String>) -> CaseStubs {
        CaseStubs {
            tools: parts.tools.clone(),
            actions: parts.actions.clone(),
            answers: parts.answers.clone(),
            outside,
            live: parts.live,
            seen: Mutex::default(),
        }
    }

    /// What became of the stubs, and the own ones that were never asked for: what, name, place.
    pub(super) fn finish(&self) -> (Vec<String>, Vec<(&'static str, String, Span)>) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unused = Vec::new();
        for (what, stubs, used) in [("tool", &self.tools, &seen.tools), ("action", &self.actions, &seen.actions)] {
            for (name, stub) in stubs.iter().filter(|(_, stub)| stub.own) {
                let used = used.get(name.as_str()).copied().unwrap_or(0);
                if used == 0 || (stub.turns && used < stub.steps.len()) {
                    unused.push((what, name.clone(), stub.span));
                }
            }
        }
        for (name, answers) in self.answers.iter().filter(|(_, answers)| answers.own) {
            let used = seen.answers.get(name).copied().unwrap_or(0);
            if used < answers.given.len() {
                unused.push(("answer", name.clone(), answers.span));
            }
        }
        let mut problems = seen.problems.clone();
        problems.dedup();
        (problems, unused)
    }

    /// Questions that no one has answered, each with a line to add.
    pub(super) fn unanswered(&self) -> Vec<String> {
        let mut lines = self.seen.lock().unwrap_or_else(PoisonError::into_inner).unanswered.clone();
        lines.dedup();
        lines
    }

    fn give(&self, stub: &Stub, what: &str, name: &str, used: usize, seen: &mut Seen) -> Result<Value, Failure> {
        let kind = if what == "tool" { FailureKind::Tool } else { FailureKind::Error };
        if stub.turns && used >= stub.steps.len() {
            let n = stub.steps.len();
            let turns = if n == 1 { "turn" } else { "turns" };
            let message =
                format!("the {what} `{name}` was called for the {} time; its stub has {n} {turns}", nth(used + 1));
            seen.problems.push(message.clone());
            return Err(Failure::new(kind, message));
        }
        match stub.steps.get(if stub.turns { used } else { 0 }) {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(text)) => Err(Failure::new(kind, text.clone())),
            None => Ok(Value::Null),
        }
    }
}

/// `1st`, `2nd`, `3rd`, `4th`, …
fn nth(n: usize) -> String {
    let ending = match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

impl Stubs for CaseStubs {
    fn tool(&self, name: &str, _: &Value) -> Option<Result<Value, Failure>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let used = *seen.tools.entry(name.to_owned()).and_modify(|n| *n += 1).or_insert(1) - 1;
        match self.tools.get(name) {
            Some(stub) => Some(self.give(stub, "tool", name, used, &mut seen)),
            None if self.live => None,
            None => {
                let message = format!(
                    "the tool `{name}` was called and has no stub: add `tools: {{{name}: …}}`, or `live: true`"
                );
                seen.problems.push(message.clone());
                Some(Err(Failure::new(FailureKind::Tool, message)))
            }
        }
    }

    fn action(&self, name: &str) -> Option<Result<Value, Failure>> {
        let short = name.rsplit('.').next().unwrap_or(name);
        let stub = self.actions.get(name).map(|stub| (name, stub)).or_else(|| Some((short, self.actions.get(short)?)));
        match stub {
            Some((name, stub)) => {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let used = *seen.actions.entry(name.to_owned()).and_modify(|n| *n += 1).or_insert(1) - 1;
                Some(self.give(stub, "action", name, used, &mut seen))
            }
            None if self.live || !self.outside.contains(name) => None,
            None => {
                let message = format!(
                    "the action `{name}` reaches out of the program and has no stub: add `actions: {{{name}: …}}`, or `live: true`"
                );
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.problems.push(message.clone());
                Some(Err(Failure::new(FailureKind::Error, message)))
            }
        }
    }

    fn answer(&self, question: &Question) -> Option<Value> {
        let short = question.action.rsplit('.').next().unwrap_or_default();
        let tool = match &question.kind {
            QuestionKind::ConfirmTool { tool, .. } => tool.as_str(),
            _ => "",
        };
        let names = [tool, question.action.as_str(), short];
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = names.into_iter().find_map(|name| self.answers.get_key_value(name));
        let given = found.map(|(name, answers)| {
            let used = *seen.answers.entry(name.clone()).and_modify(|n| *n += 1).or_insert(1) - 1;
            (answers.given.get(used).cloned(), answers.given.len())
        });
        let answer = match given {
            Some((Some(answer), _)) => answer,
            Some((None, count)) => {
                seen.unanswered.push(no_answer(question, count));
                return None;
            }
            None => {
                seen.unanswered.push(no_answer(question, 0));
                return None;
            }
        };
        Some(match (&question.kind, answer) {
            (QuestionKind::ConfirmAction | QuestionKind::ConfirmTool { .. }, Value::Bool(agrees)) => {
                serde_json::json!({"confirm": agrees})
            }
            (_, answer) => answer,
        })
    }
}

/// A question that is asked once more than it has answers, with what to add.
fn no_answer(question: &Question, given: usize) -> String {
    let (name, what) = match &question.kind {
        QuestionKind::ConfirmTool { tool, .. } => (tool, "the tool"),
        _ => (&question.action, "the action"),
    };
    let has = match given {
        0 => "and the case has no answer".to_owned(),
        1 => "for the 2nd time, and the case has one answer".to_owned(),
        n => format!("for the {} time, and the case has {n} answers", nth(n + 1)),
    };
    let answer = match &question.kind {
        QuestionKind::ConfirmTool { .. } | QuestionKind::ConfirmAction => "true".to_owned(),
        QuestionKind::Message => "a message".to_owned(),
        QuestionKind::Ask => match super::model::made_up(&question.form) {
            Ok(value) => super::subset::short(&value),
            Err(_) => "…".to_owned(),
        },
    };
    let add = if given == 0 { format!("answers: {{{name}: {answer}}}") } else { format!("{answer} to its list") };
    format!("{what} `{name}` asks a person ({:?}) {has}: add `{add}`", question.prompt)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_answer_in_order_and_then_no_more() {
        let (mut found, file) = (Vec::new(), crate::source::FileId(0));
        let source =
            crate::source::Source::new("a.yaml", "answers: {send: [false], ask: [{a: 1}, {a: 2}], never: 1}\n");
        let node = crate::source::read(file, &source).0.expect("a tree");
        let mut cx = crate::decl::ReadCx::default();
        let fixture = <crate::decl::test_file::Fixture as crate::decl::Read>::read(&node, &mut cx).expect("a fixture");
        let parts = Parts::of(&[fixture], &mut found);
        let stubs = CaseStubs::new(&parts, BTreeSet::new());
        let ask = |kind: QuestionKind, action: &str| {
            let question = Question { action: action.to_owned(), kind, ..Question::ask("?".to_owned(), json!({})) };
            stubs.answer(&question)
        };
        assert_eq!(ask(QuestionKind::Ask, "S.ask"), Some(json!({"a": 1})));
        assert_eq!(ask(QuestionKind::Ask, "ask"), Some(json!({"a": 2})));
        assert_eq!(ask(QuestionKind::Ask, "ask"), None);
        let tool = QuestionKind::ConfirmTool { tool: "send".to_owned(), arguments: json!({}) };
        assert_eq!(ask(tool, "act"), Some(json!({"confirm": false})));
        assert_eq!(
            stubs.finish().1.iter().map(|(what, name, _)| (*what, name.as_str())).collect::<Vec<_>>(),
            [("answer", "never")]
        );
        assert!(found.is_empty());
    }
}
