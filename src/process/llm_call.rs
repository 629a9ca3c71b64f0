//! One question to a model, until a reply is right (runtime.md 4): the system message, the output schema, retries,
//! fallbacks, and what is wrong with a reply told to the model.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::action::context::{CallSettings, ModelChoice, PromptCall};
use crate::action::{Failure, FailureKind};
use crate::llm::{
    Delta, DeltaSink, Finish, Llm, LlmError, LlmErrorKind, Message, NoSink, Reply, Request, RetryPolicy,
    call_with_retries, structured,
};
use crate::prompt::Truth;

use super::context::CallLog;
use super::core::Core;
use super::document::LlmNote;
use super::event::What;
use super::ledger::Next;
use super::scope::Scope;
use super::steps::Path;

/// How much of the last reply a failure shows, in characters.
const REPLY_CHARS: usize = 400;

/// What a model is called that a script plays where none is chosen.
const SCRIPT_MODEL: &str = "scripted/script";

/// Takes a reply's value, or says what is wrong with it.
pub(super) type Accept<'a> = &'a (dyn Fn(Value) -> Result<Value, Vec<String>> + Send + Sync);

/// Where in the process a call is made.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    /// The place of its steps.
    pub(super) path: &'a Path,
    /// Where it leaves its notes.
    pub(super) log: &'a Mutex<CallLog>,
}

/// Asks until a reply is accepted; models are tried in order when one cannot be asked.
pub(super) async fn ask(
    core: &Core,
    scope: &Scope,
    call: &PromptCall,
    accept: Accept<'_>,
    at: At<'_>,
) -> Result<Value, Failure> {
    let mut unreachable = no_model();
    for choice in &call.settings.models {
        let (llm, request) = match request(core, scope, call, choice) {
            // A provider without a key cannot be asked, as one that does not answer; a fallback may.
            Err(failure) if failure.kind == FailureKind::Llm => {
                unreachable = failure;
                continue;
            }
            asked => asked?,
        };
        match ask_one(core, &*llm, request, call, choice, accept, at).await {
            Err(Trouble::Unreachable(failure)) => unreachable = failure,
            Err(Trouble::Failure(failure)) => return Err(failure),
            Ok(value) => return Ok(value),
        }
    }
    Err(unreachable)
}

fn no_model() -> Failure {
    Failure::new(
        FailureKind::Llm,
        "no model is chosen; set `models: {default: provider/id}` or give `--llm default=provider/id`",
    )
}

fn llm_failure(error: &LlmError) -> Failure {
    let kind = if error.kind == LlmErrorKind::Timeout { FailureKind::Timeout } else { FailureKind::Llm };
    Failure::new(kind, error.message.clone())
}

/// Why a call did not end with a value.
enum Trouble {
    /// The model could not be asked; another one may.
    Unreachable(Failure),
    /// It answered, and not well; or a limit was reached.
    Failure(Failure),
}

/// The model that a choice means in this run.
pub fn model_of(core: &Core, choice: &ModelChoice) -> String {
    let chosen = choice.roles.iter().find_map(|role| core.run.models.get(role)).unwrap_or(&choice.model);
    if chosen.is_empty() && core.run.script.is_some() { SCRIPT_MODEL.to_owned() } else { chosen.clone() }
}

/// The request of a call as its first turn sends it, and who is asked.
///
/// # Errors
/// A failure of kind `llm` when there is no such provider, `error` when a template fails.
pub fn request(
    core: &Core,
    scope: &Scope,
    call: &PromptCall,
    choice: &ModelChoice,
) -> Result<(Arc<dyn Llm>, Request), Failure> {
    let full = model_of(core, choice);
    if full.is_empty() {
        return Err(no_model());
    }
    let mut request = draft(core, scope, call, Some((&full, choice)))?;
    let llm = match &core.run.script {
        Some(script) => Arc::clone(script),
        None => core.host.provider(&request.provider).map_err(|why| Failure::new(FailureKind::Llm, why))?,
    };
    let llm = match &core.run.wrap_llm {
        Some(wrap) => wrap(llm),
        None => llm,
    };
    structured::place_output(&*llm, &mut request);
    Ok((llm, request))
}

/// The request before it is known how its model takes the form of the output; without a model, that of none.
///
/// # Errors
/// When a template of the system message cannot be rendered.
pub fn draft(
    core: &Core,
    scope: &Scope,
    call: &PromptCall,
    model: Option<(&str, &ModelChoice)>,
) -> Result<Request, Failure> {
    let full = model.map_or("", |(full, _)| full);
    let (provider, id) = Request::split_model(full);
    let mut options = model.map(|(_, choice)| choice.options.clone()).unwrap_or_default();
    if let Some(first) = &core.run.llm_options {
        options.prefer(first);
    }
    options.stream = core.run.stream;
    Ok(Request {
        name: call.name.clone(),
        provider: provider.unwrap_or_default().to_owned(),
        model: id.to_owned(),
        system: system(core, scope, call, full)?,
        messages: call.messages.clone(),
        tools: Vec::new(),
        output: call.output.clone(),
        options,
        turn: 1,
    })
}

/// The system message: persona, references, contributors, guardrails, the day, then the author's own text.
fn system(core: &Core, scope: &Scope, call: &PromptCall, model: &str) -> Result<Option<String>, Failure> {
    let settings: &CallSettings = &call.settings;
    let templates = &scope.agent.templates;
    let render = |ids: &[crate::prompt::TemplateId]| -> Result<Vec<String>, Failure> {
        ids.iter().map(|id| Ok(templates.render(*id, scope)?)).collect()
    };
    let mut parts = vec![render(&settings.persona)?.join("\n")];
    parts.extend(render(&settings.references)?);
    for (when, text) in &settings.contributors {
        if when.is_none_or(|when| templates.truth(when, scope) == Truth::True) {
            parts.push(templates.render(*text, scope)?);
        }
    }
    parts.extend(render(&settings.guardrail_text)?);
    if core.run.date_line {
        parts.push(date_line(core, model));
    }
    parts.extend(call.system.clone());
    parts.retain(|part| !part.trim().is_empty());
    Ok((!parts.is_empty()).then(|| parts.join("\n\n")))
}

/// The day, and up to when the model's knowledge reaches where that is known.
fn date_line(core: &Core, model: &str) -> String {
    let now = core.host.world().now().to_string();
    let day = now.split('T').next().unwrap_or_default();
    match core.host.catalog().get(model).and_then(|entry| entry.knowledge_cutoff.as_deref()) {
        Some(cutoff) => format!("Current date: {day}. Knowledge cutoff: {cutoff}."),
        None => format!("Current date: {day}."),
    }
}

/// Asks one model until a reply is accepted, telling it each time what was wrong.
async fn ask_one(
    core: &Core,
    llm: &dyn Llm,
    mut request: Request,
    call: &PromptCall,
    choice: &ModelChoice,
    accept: Accept<'_>,
    at: At<'_>,
) -> Result<Value, Trouble> {
    let mut wrong: Vec<String> = Vec::new();
    let mut last = String::new();
    for attempt in 1..=call.attempts.max(1) {
        core.ledger.check(Next::LlmCall).map_err(Trouble::Failure)?;
        request.turn = attempt as usize;
        let reply = exchange(core, llm, &request, choice, at).await?;
        refuse_bad_end(&reply, &request).map_err(Trouble::Failure)?;
        last = reply.text();
        match value_of(&request, &reply).and_then(accept) {
            Ok(value) => return Ok(value),
            Err(errors) if attempt < call.attempts => {
                let message = errors.join("; ");
                core.emit(|| What::Retrying {
                    action: call.name.clone(),
                    what: "reply".into(),
                    message: message.clone(),
                    wait_ms: 0,
                });
                request.messages.push(reply.to_message());
                request.messages.push(Message::user(correction(&errors)));
                wrong.push(message);
            }
            Err(errors) => wrong.push(errors.join("; ")),
        }
    }
    let tries = if wrong.len() == 1 { "1 reply".to_owned() } else { format!("{} replies", wrong.len()) };
    let listed: Vec<String> = wrong.iter().enumerate().map(|(at, error)| format!("({}) {error}", at + 1)).collect();
    let shown: String = last.chars().take(REPLY_CHARS).collect();
    let message = format!("no valid reply in {tries}: {}; the last reply was {shown:?}", listed.join(" "));
    Err(Trouble::Failure(Failure::new(FailureKind::Validation, message)))
}

/// What a model is told of a reply that does not fit.
fn correction(errors: &[String]) -> String {
    let listed: Vec<String> = errors.iter().map(|error| format!("- {error}")).collect();
    format!(
        "This reply cannot be used:\n{}\nAnswer again, with the whole corrected reply and nothing else.",
        listed.join("\n")
    )
}

/// The value that a reply holds: its text, or the JSON in it.
fn value_of(request: &Request, reply: &Reply) -> Result<Value, Vec<String>> {
    match &request.output {
        Some(output) => structured::decode(output, reply).map_err(|error| vec![error.to_string()]),
        None => match reply.text().trim() {
            "" => Err(vec!["the reply is empty".to_owned()]),
            text => Ok(Value::from(text)),
        },
    }
}

/// Truncated and refused replies are failures of their own: asking the same again does not help.
fn refuse_bad_end(reply: &Reply, request: &Request) -> Result<(), Failure> {
    let model = request.full_model();
    match &reply.finish {
        Finish::Stop | Finish::ToolCalls => Ok(()),
        Finish::Length => {
            let limit = request.options.max_tokens.map(|most| format!(" of {most} tokens")).unwrap_or_default();
            let message =
                format!("the reply of `{model}` was cut off at its limit{limit}; raise `llm: {{max_tokens: …}}`");
            Err(Failure::new(FailureKind::Llm, message))
        }
        Finish::ContentFilter => {
            let message = format!("the provider of `{model}` withheld the reply");
            Err(Failure::new(FailureKind::Refusal, message))
        }
        Finish::Refusal(words) => {
            let words = if words.trim().is_empty() { String::new() } else { format!(": {}", words.trim()) };
            Err(Failure::new(FailureKind::Refusal, format!("`{model}` refused{words}")))
        }
    }
}

/// One call as a step of the action: a reply that came before is not asked for again.
async fn exchange(
    core: &Core,
    llm: &dyn Llm,
    request: &Request,
    choice: &ModelChoice,
    at: At<'_>,
) -> Result<Reply, Trouble> {
    let step = at.path.next("llm");
    let reply = core.step(&step, at.log, |log| async move {
        let reply = called(core, llm, request, choice, &log).await.map_err(|error| llm_failure(&error))?;
        serde_json::to_value(reply).map_err(unreadable)
    });
    let reply = reply.await.map_err(|failure| match failure.kind {
        FailureKind::Llm | FailureKind::Timeout => Trouble::Unreachable(failure),
        _ => Trouble::Failure(failure),
    })?;
    serde_json::from_value(reply).map_err(|error| Trouble::Failure(unreadable(error)))
}

fn unreadable(error: serde_json::Error) -> Failure {
    Failure::new(FailureKind::Error, format!("the record of a reply cannot be read: {error}"))
}

/// One call, repeated where it failed for a passing reason; counted, priced and told.
async fn called(
    core: &Core,
    llm: &dyn Llm,
    request: &Request,
    choice: &ModelChoice,
    log: &Mutex<CallLog>,
) -> Result<Reply, LlmError> {
    let policy = match choice.retries {
        Some(retries) => RetryPolicy::default().with_retries(retries),
        None => RetryPolicy::default(),
    };
    core.emit(|| What::LlmRequest {
        action: request.name.clone(),
        model: request.full_model(),
        call: u32::try_from(request.turn).unwrap_or(u32::MAX),
        system: request.system.clone(),
        messages: request.messages.iter().map(|message| json!(message)).collect(),
    });
    let on_retry = |error: &LlmError, wait: std::time::Duration| {
        core.emit(|| What::Retrying {
            action: request.name.clone(),
            what: "llm".into(),
            message: error.message.clone(),
            wait_ms: millis(wait),
        });
    };
    let started = Instant::now();
    let deltas = Deltas { core, action: &request.name };
    let sink: &dyn DeltaSink = if request.options.stream { &deltas } else { &NoSink };
    let reply = call_with_retries(llm, request, &policy, sink, &on_retry).await?;
    let cost_usd = core.host.catalog().cost(&request.full_model(), &reply.usage).unwrap_or(0.0);
    core.ledger.charge_llm(&reply.usage, cost_usd);
    let note = LlmNote {
        model: request.full_model(),
        input_tokens: reply.usage.input_tokens,
        output_tokens: reply.usage.output_tokens,
        cost_usd,
    };
    core.emit(|| What::LlmReply {
        action: request.name.clone(),
        model: note.model.clone(),
        text: reply.text(),
        input_tokens: note.input_tokens,
        output_tokens: note.output_tokens,
        cost_usd,
        ms: millis(started.elapsed()),
    });
    log.lock().unwrap_or_else(PoisonError::into_inner).llm.push(note);
    Ok(reply)
}

/// Whole milliseconds.
pub(super) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Pieces of a reply as events.
struct Deltas<'a> {
    core: &'a Core,
    action: &'a str,
}

impl DeltaSink for Deltas<'_> {
    fn delta(&self, delta: Delta) {
        let (text, thinking) = match delta {
            Delta::Text(text) => (text, false),
            Delta::Thinking(text) => (text, true),
            Delta::Restart => (String::new(), false),
            Delta::ToolCall { .. } | Delta::ToolArguments { .. } => return,
        };
        self.core.emit(|| What::LlmDelta { action: self.action.to_owned(), text, thinking });
    }
}
