//! Conditions that a model decides (language.md 5).

use std::sync::Arc;

use serde_json::{Value, json};

use crate::action::Failure;
use crate::action::context::PromptCall;
use crate::llm::{Message, OutputSchema};
use crate::program::ConditionKind;
use crate::prompt::Truth;
use crate::value::{Output, OutputKind};

use super::blackboard::Bound;
use super::context::ActionContext;
use super::core::Core;
use super::event::What;
use super::llm_call::{self, At};
use super::scope::Scope;
use super::steps::Path;

/// How many replies are tried.
const ATTEMPTS: u32 = 3;

/// Asks a model whether a condition holds. `None` when it is not one to ask, or its objects are missing.
pub(super) async fn condition(
    core: &Arc<Core>,
    scope: &Scope,
    condition: usize,
    path: &Path,
) -> Result<Option<(Vec<Bound>, Truth)>, Failure> {
    let Some(declared) = core.agent.conditions.get(condition) else { return Ok(None) };
    let ConditionKind::Prompt(inputs, template, settings, least) = &declared.kind else { return Ok(None) };
    let Some(bound) = scope.board.bind(inputs) else { return Ok(None) };
    let inside = scope.with_inputs(inputs, &bound);
    let call = PromptCall {
        name: declared.name.clone(),
        system: None,
        messages: vec![Message::user(core.agent.templates.render(*template, &inside)?)],
        output: Some(OutputSchema::native("Answer", schema())),
        settings: settings.clone(),
        attempts: ATTEMPTS,
    };
    let cx =
        ActionContext::at(core.clone(), &declared.name, inside.clone(), Output::new(OutputKind::None), path.clone());
    let at = At { path, log: &cx.log };
    let answer = llm_call::ask(core, &inside, &call, &accept, at, Some(&cx)).await?;
    let (holds, confidence) = (answer["holds"].as_bool(), answer["confidence"].as_f64().unwrap_or(0.0));
    let truth = match holds.filter(|_| confidence >= *least) {
        Some(true) => Truth::True,
        Some(false) => Truth::False,
        None => Truth::Unknown,
    };
    core.emit(|| What::ConditionAnswered {
        condition: declared.name.clone(),
        holds: holds.filter(|_| truth != Truth::Unknown),
        confidence,
        why: answer["why"].as_str().unwrap_or_default().to_owned(),
    });
    Ok(Some((bound, truth)))
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "holds": {"type": "boolean", "description": "Whether it holds"},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1, "description": "How sure this is, from 0 to 1"},
            "why": {"type": "string", "description": "The reason, in one sentence"},
        },
        "required": ["holds", "confidence", "why"],
        "additionalProperties": false,
    })
}

fn accept(answer: Value) -> Result<Value, Vec<String>> {
    let mut wrong = Vec::new();
    if !answer["holds"].is_boolean() {
        wrong.push("`holds`: expected true or false".to_owned());
    }
    if !answer["confidence"].as_f64().is_some_and(|sure| (0.0..=1.0).contains(&sure)) {
        wrong.push("`confidence`: expected a number from 0 to 1".to_owned());
    }
    if wrong.is_empty() { Ok(answer) } else { Err(wrong) }
}
