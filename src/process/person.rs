//! People: a question is answered now, or the process waits for the answer.

use std::sync::Mutex;

use serde_json::Value;
use tokio::time::Instant;

use crate::action::context::{Question, QuestionKind};
use crate::action::{Failure, FailureKind, lasting};

use crate::value::form_violations;

use super::context::CallLog;
use super::core::Core;

/// Asks a person as a step. Without an answer the question is taken down, and this is a failure of kind `waiting`.
pub(super) async fn ask(core: &Core, step: String, question: Question, log: &Mutex<CallLog>) -> Result<Value, Failure> {
    core.step(&step, log, |_| async {
        // One that was asked before is waited for until then, however often it is asked.
        let left = core.steps.time_left(&step, core.host.world().now()).or(question.timeout);
        let ends = left.and_then(|left| Instant::now().checked_add(left));
        let asked = Question { timeout: left, ..question.clone() };
        let answer = core.host.answer(&asked, &core.run);
        let answer = match ends {
            Some(ends) => match tokio::time::timeout_at(ends, answer).await {
                Ok(answer) => answer,
                Err(_) => return Err(no_answer(&question)),
            },
            None => answer.await,
        };
        if answer.is_none() && ends.is_some_and(|ends| ends <= Instant::now()) {
            return Err(no_answer(&question));
        }
        let Some(answer) = answer else {
            core.steps.ask(step.clone(), question.clone(), core.host.world().now());
            return Err(Failure::new(FailureKind::Waiting, "a person has to answer first"));
        };
        let answer = kept(core, &question, answer);
        match complaints(&question.form, &answer) {
            None => Ok(answer),
            Some(wrong) => {
                let message = format!("the answer to `{}` does not fit: {wrong}", question.action);
                Err(Failure::new(FailureKind::Validation, message))
            }
        }
    })
    .await
}

/// An answer as it may be kept and told: a message of a chat without what guardrails redact by pattern.
pub(super) fn kept(core: &Core, question: &Question, answer: Value) -> Value {
    match question.kind {
        QuestionKind::Message => super::guard::without_patterns(&core.agent, answer),
        _ => answer,
    }
}

/// The failure of a question that no one answered in time.
pub(super) fn no_answer(question: &Question) -> Failure {
    let within = question.timeout.map(|timeout| format!(" within {}", lasting(timeout))).unwrap_or_default();
    Failure::new(FailureKind::Timeout, format!("no one has answered `{}`{within}", question.action))
}

/// What is wrong with an answer to a form; `None`: it fits.
pub(super) fn complaints(form: &Value, answer: &Value) -> Option<String> {
    let violations = form_violations(form, answer);
    let listed: Vec<String> = violations.iter().map(ToString::to_string).collect();
    (!listed.is_empty()).then(|| listed.join("; "))
}
