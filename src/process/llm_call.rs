//! One question to a model, until a reply is right (runtime.md 4): the system message, the output schema, retries,
//! fallbacks, and what is wrong with a reply told to the model.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::Instrument;

use crate::action::context::{CallSettings, ModelChoice, PromptCall};
use crate::action::{Failure, FailureKind};
use crate::llm::{self, Auto, Feature};
use crate::llm::{
    Delta, DeltaSink, Elements, Finish, Llm, LlmError, LlmErrorKind, Message, NoSink, Part, Reply, Request,
    RetryPolicy, ToolSpec, call_with_retries, structured,
};
use crate::prompt::Truth;
use crate::reference::Reach;
use crate::tool::envelope;

use super::context::{ActionContext, CallLog};
use super::core::Core;
use super::document::LlmNote;
use super::event::What;
use super::guard::{Guard, Place, Turn, WITHHELD};
use super::ledger::Next;
use super::references;
use super::scope::Scope;
use super::steps::Path;
use super::tool_loop::ToolLoop;
use super::trace;
use crate::program::guardrail::GuardrailCheck as Check;

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

/// Asks until a reply is accepted; models are tried in order when one cannot be asked. `cx` calls the tools that are
/// offered.
pub(super) async fn ask(
    core: &Core,
    scope: &Scope,
    call: &PromptCall,
    accept: Accept<'_>,
    at: At<'_>,
    cx: Option<&ActionContext>,
) -> Result<Value, Failure> {
    let guard = Guard::new(core, scope, &call.settings.guardrails, &call.name);
    let passed = guard.prompt(call, at).await?;
    let call = passed.as_ref().unwrap_or(call);
    let mut around = Around::default();
    let tools = match cx {
        Some(cx) => {
            let referred = references::refer(cx, &call.settings, Reach::Outside).await?;
            around = Around { notes: referred.notes, is_foreign: referred.is_foreign, tools: Vec::new() };
            match referred.offer {
                Some(offer) => Some(ToolLoop::begin(cx, offer).await?),
                None => None,
            }
        }
        None => None,
    };
    let mut talk = Talk { tools, added: Vec::new(), turn: 0, wrong: Vec::new(), last: String::new() };
    let mut unreachable = no_model();
    let models = scope.agent.models_of(&call.settings);
    for (number, choice) in models.iter().enumerate() {
        // One that failed a moment ago is passed over while there is another.
        let is_last = number + 1 == models.len();
        if !is_last && core.host.cooldowns().is_cooling(&model_of(core, choice)) {
            continue;
        }
        around.tools = talk.tools.as_mut().map(ToolLoop::specs).unwrap_or_default();
        let (llm, mut request) = match request(core, scope, call, choice, &around) {
            // A provider without a key cannot be asked, as one that does not answer; a fallback may.
            Err(failure) if failure.kind == FailureKind::Llm => {
                unreachable = failure;
                continue;
            }
            asked => asked?,
        };
        // What was said before another model took over stays said; thoughts are the other model's own.
        let said = request.messages.len();
        let sees = llm.capabilities(&request.model).images;
        if !sees && request.messages.iter().any(Message::has_images) {
            let message = format!(
                "`{}` sees no pictures (`supports` of its entry in `models.catalog` lacks `images`); choose a model that does",
                request.full_model()
            );
            unreachable = Failure::new(FailureKind::Llm, message);
            continue;
        }
        if !sees {
            talk.added.iter_mut().for_each(Message::withhold_pictures);
        }
        request.messages.append(&mut talk.added);
        match ask_one(core, &*llm, &mut request, call, choice, accept, at, &mut talk, &guard).await {
            Err(Trouble::Unreachable(failure)) => unreachable = failure,
            Err(Trouble::Failure(failure)) => return Err(failure),
            Ok(value) => return Ok(value),
        }
        talk.added = request.messages.split_off(said);
        drop_thoughts(&mut talk.added);
    }
    Err(unreachable)
}

/// One reply in a conversation that the caller carries on: the models are tried in order. Gives with it whether another
/// model than the first has answered, whose thoughts are no one else's.
///
/// # Errors
/// When no model can be asked, the reply is no whole one, or a guardrail does not let it pass.
pub(super) async fn one_reply(
    core: &Core,
    scope: &Scope,
    call: &PromptCall,
    tools: &[ToolSpec],
    turn: u32,
    at: At<'_>,
) -> Result<(Reply, bool), Failure> {
    let guard = Guard::new(core, scope, &call.settings.guardrails, &call.name);
    let passed = guard.prompt(call, at).await?;
    let call = passed.as_ref().unwrap_or(call);
    let around = Around { tools: tools.to_vec(), ..Around::default() };
    let mut unreachable = no_model();
    let models = scope.agent.models_of(&call.settings);
    for (number, choice) in models.iter().enumerate() {
        let is_last = number + 1 == models.len();
        if !is_last && core.host.cooldowns().is_cooling(&model_of(core, choice)) {
            continue;
        }
        let (llm, mut request) = match request(core, scope, call, choice, &around) {
            Err(failure) if failure.kind == FailureKind::Llm => {
                unreachable = failure;
                continue;
            }
            asked => asked?,
        };
        if number > 0 {
            drop_thoughts(&mut request.messages);
        }
        core.ledger.check(Next::LlmCall)?;
        request.turn = turn as usize;
        let asked = Asked { llm: &*llm, request: &request, choice, guard: &guard, private: call.settings.private };
        let reply = match exchange(core, asked, at).await {
            Err(Trouble::Unreachable(failure)) => {
                unreachable = failure;
                continue;
            }
            Err(Trouble::Failure(failure)) => return Err(failure),
            Ok(reply) => reply,
        };
        refuse_bad_end(&reply, &request)?;
        guard.agree(&request, &reply, at).await?;
        return Ok((reply, number > 0));
    }
    Err(unreachable)
}

/// Takes a model's thoughts out of what another one is to read.
pub(super) fn drop_thoughts(messages: &mut [Message]) {
    for message in messages {
        message.parts.retain(|part| !matches!(part, Part::Thinking { .. }));
    }
}

/// One conversation, whichever model carries it on.
struct Talk<'a> {
    tools: Option<ToolLoop<'a>>,
    /// What was said after the prompt, while no model is asked.
    added: Vec<Message>,
    /// Requests so far.
    turn: u32,
    /// What was wrong with each reply so far.
    wrong: Vec<String>,
    /// The text of the last reply.
    last: String,
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
///
/// Empty when none is chosen, and when it is `auto` that chooses.
pub fn model_of(core: &Core, choice: &ModelChoice) -> String {
    let chosen = choice.roles.iter().find_map(|role| core.run.models.get(role)).unwrap_or(&choice.model);
    if chosen.is_empty() && core.run.script.is_some() { SCRIPT_MODEL.to_owned() } else { chosen.clone() }
}

/// What stands around the messages of a call: the notes of its references, and its tools.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// What the system message says of references.
    pub notes: Vec<String>,
    /// Whether others' words stand in the notes.
    pub is_foreign: bool,
    /// The tools that are offered.
    pub tools: Vec<ToolSpec>,
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
    around: &Around,
) -> Result<(Arc<dyn Llm>, Request), Failure> {
    let mut full = model_of(core, choice);
    if let Some(auto) = choice.auto.filter(|_| full.is_empty()) {
        let mut wanted = draft(core, scope, call, Some(("", choice)), around)?;
        // The form of the output is no need: a model without native structured output is told it in words.
        wanted.output = None;
        full = automatic(core, auto, &wanted)?;
    }
    if full.is_empty() {
        return Err(no_model());
    }
    let mut request = draft(core, scope, call, Some((&full, choice)), around)?;
    let llm = match &core.run.script {
        Some(script) => Arc::clone(script),
        None => core.host.provider(&request.provider).map_err(|why| Failure::new(FailureKind::Llm, why))?,
    };
    let llm = match &core.run.wrap_llm {
        Some(wrap) => wrap(llm),
        None => llm,
    };
    if !request.tools.is_empty() && !llm.capabilities(&request.model).tools {
        let message = format!(
            "the model `{full}` takes no tools; name another one, or say `supports: [tools]` in `models.catalog` if it does"
        );
        return Err(Failure::new(FailureKind::Llm, message));
    }
    structured::place_output(&*llm, &mut request);
    Ok((llm, request))
}

/// The model that `auto` means for a call: the first by price or ability among those that can do what it needs.
fn automatic(core: &Core, auto: Auto, wanted: &Request) -> Result<String, Failure> {
    let needs = llm::needs(wanted);
    let found = llm::choose(core.host.catalog(), auto, &needs, |provider| core.host.can_ask(provider));
    found.ok_or_else(|| {
        let needed: Vec<&str> =
            Feature::ALL.iter().filter(|(_, feature)| needs.contains(feature)).map(|(word, _)| *word).collect();
        let needed = if needed.is_empty() { String::new() } else { format!(" that has {}", needed.join(", ")) };
        Failure::new(
            FailureKind::Llm,
            format!("`auto` finds no model{needed} with a known price among the providers that have a key; name a model, or set a key"),
        )
    })
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
    around: &Around,
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
        system: system(core, scope, call, full, around)?,
        messages: call.messages.clone(),
        tools: around.tools.clone(),
        output: call.output.clone(),
        options,
        turn: 1,
    })
}

/// The system message: persona, references, contributors, guardrails, the day, what others' words are, then the author's
/// own text.
fn system(
    core: &Core,
    scope: &Scope,
    call: &PromptCall,
    model: &str,
    around: &Around,
) -> Result<Option<String>, Failure> {
    let settings: &CallSettings = &call.settings;
    let templates = &scope.agent.templates;
    let render = |ids: &[crate::prompt::TemplateId]| -> Result<Vec<String>, Failure> {
        ids.iter().map(|id| Ok(templates.render(*id, scope)?)).collect()
    };
    let mut parts = vec![render(&settings.persona)?.join("\n")];
    parts.extend(around.notes.iter().cloned());
    for (when, text) in &settings.contributors {
        if when.is_none_or(|when| templates.truth(when, scope) == Truth::True) {
            parts.push(templates.render(*text, scope)?);
        }
    }
    parts.extend(render(&settings.guardrail_text)?);
    if core.run.date_line {
        parts.push(date_line(core, model));
    }
    if !around.tools.is_empty() || around.is_foreign {
        parts.push(envelope::RULE.to_owned());
    }
    parts.extend(call.system.clone());
    // What stands there already is not said again, as when defaults and a persona have the same text.
    let mut said = std::collections::HashSet::new();
    parts.retain(|part| !part.trim().is_empty() && said.insert(part.clone()));
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

/// Asks one model until a reply is accepted: its calls of tools are answered, and it is told what is wrong with a reply.
#[allow(clippy::too_many_arguments, reason = "the parts of one conversation, taken apart at the only call")]
async fn ask_one(
    core: &Core,
    llm: &dyn Llm,
    request: &mut Request,
    call: &PromptCall,
    choice: &ModelChoice,
    accept: Accept<'_>,
    at: At<'_>,
    talk: &mut Talk<'_>,
    guard: &Guard<'_>,
) -> Result<Value, Trouble> {
    while (talk.wrong.len() as u32) < call.attempts.max(1) {
        if talk.tools.is_some() && talk.turn >= call.settings.max_turns {
            let most = call.settings.max_turns;
            let message = format!(
                "no reply in {most} turn{} (`max_turns`); the last one called {}",
                if most == 1 { "" } else { "s" },
                talk.tools.as_ref().map(ToolLoop::last_called).unwrap_or_default()
            );
            return Err(Trouble::Failure(Failure::new(FailureKind::Llm, message)));
        }
        core.ledger.check(Next::LlmCall).map_err(Trouble::Failure)?;
        talk.turn += 1;
        request.turn = talk.turn as usize;
        let asked = Asked { llm, request, choice, guard, private: call.settings.private };
        let reply = exchange(core, asked, at).await?;
        refuse_bad_end(&reply, request).map_err(Trouble::Failure)?;
        guard.agree(request, &reply, at).await.map_err(Trouble::Failure)?;
        if let Some(tools) = talk.tools.as_mut().filter(|_| reply.tool_calls().next().is_some()) {
            request.messages.push(reply.to_message());
            let turn = tools.answer(&reply).await.map_err(Trouble::Failure)?;
            let mut results = turn.results;
            if !llm.capabilities(&request.model).images {
                results.withhold_pictures();
            }
            request.messages.push(results);
            tools.update(&mut request.tools);
            let Some(value) = turn.direct else { continue };
            let place = Place { check: Check::Reply, tool: "", step: at.path.text(), log: at.log };
            let value = guard.pass_value(direct(request, value), place, Turn::Both).await.map_err(Trouble::Failure)?;
            match accept(value) {
                Ok(value) => return Ok(value),
                Err(errors) => refuse(core, call, request, &mut talk.wrong, &errors),
            }
            continue;
        }
        talk.last = reply.text();
        match value_of(request, &reply).and_then(accept) {
            Ok(value) => return Ok(value),
            Err(errors) => {
                if !talk.last.is_empty() {
                    request.messages.push(reply.to_message());
                }
                refuse(core, call, request, &mut talk.wrong, &errors);
            }
        }
    }
    let wrong = &talk.wrong;
    let tries = if wrong.len() == 1 { "1 reply".to_owned() } else { format!("{} replies", wrong.len()) };
    let listed: Vec<String> = wrong.iter().enumerate().map(|(at, error)| format!("({}) {error}", at + 1)).collect();
    let shown: String = talk.last.chars().take(REPLY_CHARS).collect();
    let message = format!("no valid reply in {tries}: {}; the last reply was {shown:?}", listed.join(" "));
    Err(Trouble::Failure(Failure::new(FailureKind::Validation, message)))
}

/// Takes note of what is wrong with a reply, and tells the model while it may try again.
fn refuse(core: &Core, call: &PromptCall, request: &mut Request, wrong: &mut Vec<String>, errors: &[String]) {
    let message = errors.join("; ");
    if (wrong.len() as u32) + 1 < call.attempts {
        core.emit(|| What::Retrying {
            action: call.name.clone(),
            what: "reply".into(),
            message: message.clone(),
            wait_ms: 0,
        });
        request.messages.push(Message::user(correction(errors)));
    }
    wrong.push(message);
}

/// The result of a tool as the value of a reply: data where a form is asked for, else text.
fn direct(request: &Request, value: Value) -> Value {
    match (&request.output, value) {
        (Some(_), Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        (None, Value::String(text)) => Value::String(text),
        (None, value) => Value::String(value.to_string()),
        (Some(_), value) => value,
    }
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

/// One call to one model.
#[derive(Clone, Copy)]
struct Asked<'a> {
    llm: &'a dyn Llm,
    request: &'a Request,
    choice: &'a ModelChoice,
    /// What its reply has to pass.
    guard: &'a Guard<'a>,
    /// Whether what is said is told to no one.
    private: bool,
}

/// One call as a step of the action: a reply that came before is not asked for again.
async fn exchange(core: &Core, asked: Asked<'_>, at: At<'_>) -> Result<Reply, Trouble> {
    let step = at.path.next("llm");
    let place = step.as_str();
    let reply = core.step(place, at.log, |log| async move {
        let reply = called(core, asked, place, &log).await?;
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
async fn called(core: &Core, asked: Asked<'_>, step: &str, log: &Mutex<CallLog>) -> Result<Reply, Failure> {
    let Asked { llm, request, choice, guard, private } = asked;
    let policy = match choice.retries {
        Some(retries) => RetryPolicy::default().with_retries(retries),
        None => RetryPolicy::default(),
    };
    core.tell(|| What::LlmRequest {
        action: request.name.clone(),
        model: request.full_model(),
        call: u32::try_from(request.turn).unwrap_or(u32::MAX),
        system: request.system.clone(),
        messages: match private {
            true => vec![json!(Message::user(WITHHELD))],
            false => request.messages.iter().map(|message| json!(message)).collect(),
        },
        tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
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
    let deltas = Deltas::new(core, request, guard);
    let sink: &dyn DeltaSink = if request.options.stream && !private { &deltas } else { &NoSink };
    let told = !private && !guard.holds_back(Check::Reply);
    let span = trace::chat(core, request, !private);
    let asked = call_with_retries(llm, request, &policy, sink, &on_retry).instrument(span.clone()).await;
    let mut reply = asked.map_err(|error| {
        core.host.cooldowns().failed(&request.full_model(), &error);
        let failure = llm_failure(&error);
        trace::failed(&span, &failure);
        failure
    })?;
    let ms = millis(started.elapsed());
    let cost_usd = core.host.catalog().cost(&request.full_model(), &reply.usage).unwrap_or(0.0);
    trace::replied(&span, core, &reply, cost_usd, told);
    drop(span);
    core.ledger.charge_llm(&reply.usage, cost_usd);
    let note = LlmNote {
        model: request.full_model(),
        input_tokens: reply.usage.input_tokens,
        output_tokens: reply.usage.output_tokens,
        cost_usd,
    };
    log.lock().unwrap_or_else(PoisonError::into_inner).llm.push(note.clone());
    let passed = guard.reply(request, &mut reply, step, log).await;
    if let Ok(is_other) = &passed {
        deltas.release(is_other.then(|| reply.text()));
    }
    core.emit(|| What::LlmReply {
        action: request.name.clone(),
        model: note.model.clone(),
        text: if private || passed.is_err() { WITHHELD.to_owned() } else { reply.text() },
        input_tokens: note.input_tokens,
        output_tokens: note.output_tokens,
        cost_usd,
        from_cache: reply.from_cache,
        ms,
    });
    passed.map(|_| reply)
}

/// Whole milliseconds.
pub(super) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Pieces of a reply as events.
struct Deltas<'a> {
    core: &'a Core,
    action: &'a str,
    /// For a list: what finds its elements.
    elements: Option<Mutex<Elements>>,
    /// Text that may only be told once the reply has passed its guardrails; `None` where nothing holds it back.
    held: Option<Mutex<String>>,
    /// Whether the arguments of tools may be told before they have passed theirs.
    tells_arguments: bool,
}

impl<'a> Deltas<'a> {
    fn new(core: &'a Core, request: &'a Request, guard: &Guard<'_>) -> Deltas<'a> {
        let elements = request.output.as_ref().filter(|_| request.options.stream).and_then(Elements::of);
        Deltas {
            core,
            action: &request.name,
            elements: elements.map(Mutex::new),
            held: guard.holds_back(Check::Reply).then(Mutex::default),
            tells_arguments: !guard.holds_back(Check::ToolArguments),
        }
    }

    /// Tells what was held back, or the text that has taken its place.
    fn release(&self, other: Option<String>) {
        let Some(held) = &self.held else { return };
        let came = std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner));
        if !came.is_empty() {
            self.tell(Delta::Text(other.unwrap_or(came)));
        }
    }

    /// Keeps back what may not be told yet; gives back what may.
    fn keep_back(&self, delta: Delta) -> Option<Delta> {
        if matches!(delta, Delta::ToolArguments { .. }) && !self.tells_arguments {
            return None;
        }
        let Some(held) = &self.held else { return Some(delta) };
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        match delta {
            Delta::Text(text) => held.push_str(&text),
            Delta::Restart => held.clear(),
            // Thoughts are about what may not be known; they are not told at all.
            Delta::Thinking(_) => {}
            Delta::ToolCall { .. } | Delta::ToolArguments { .. } => return Some(delta),
        }
        None
    }

    /// Tells the elements that `text` completes.
    fn elements(&self, text: &str) {
        let Some(elements) = &self.elements else { return };
        let found = elements.lock().unwrap_or_else(PoisonError::into_inner).feed(text);
        for (index, value) in found {
            self.core.tell(|| What::LlmElement { action: self.action.to_owned(), index, value });
        }
    }

    fn restart(&self) {
        if let Some(elements) = &self.elements {
            elements.lock().unwrap_or_else(PoisonError::into_inner).restart();
        }
    }
}

impl DeltaSink for Deltas<'_> {
    fn delta(&self, delta: Delta) {
        if let Some(delta) = self.keep_back(delta) {
            self.tell(delta);
        }
    }
}

impl Deltas<'_> {
    fn tell(&self, delta: Delta) {
        let action = self.action.to_owned();
        let what = match &delta {
            Delta::Text(text) => What::LlmDelta { action, text: text.clone(), thinking: false },
            Delta::Thinking(text) => What::LlmDelta { action, text: text.clone(), thinking: true },
            Delta::Restart => What::LlmDelta { action, text: String::new(), thinking: false },
            Delta::ToolCall { index, name } => {
                What::LlmToolDelta { action, call: *index, tool: name.clone(), arguments: String::new() }
            }
            Delta::ToolArguments { index, fragment } => {
                What::LlmToolDelta { action, call: *index, tool: String::new(), arguments: fragment.clone() }
            }
        };
        self.core.tell(|| what);
        match delta {
            Delta::Text(text) => self.elements(&text),
            Delta::Restart => self.restart(),
            Delta::Thinking(_) | Delta::ToolCall { .. } | Delta::ToolArguments { .. } => {}
        }
    }
}
