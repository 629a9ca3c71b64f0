//! The provider `scripted`: answers from a [`Script`], for demonstrations, tests and replays (cli.md 6).

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::catalog::Catalog;
use super::error::{LlmError, LlmErrorKind};
use super::provider::{Capabilities, Llm, Past, ProviderConfig, ProviderKind};
use super::reply::{DeltaSink, Finish, Reply, Usage, replay};
use super::request::{Part, Request, Role};
use super::script::{Outcome, Rule, Script, Step, When};
use super::structured;

/// The line of [`PROVIDERS`](super::PROVIDERS).
pub(crate) const KIND: ProviderKind =
    ProviderKind { name: "scripted", summary: "Answers from a script file, without a model", environment: None, build };

fn build(name: &str, config: &ProviderConfig, _: Arc<Catalog>) -> Result<Arc<dyn Llm>, String> {
    match &config.script {
        Some(script) => Ok(Arc::new(Scripted::new(script.clone()))),
        None => Err(format!("the scripted provider `{name}` needs a `file`")),
    }
}

/// A model that follows a script. One value serves any number of models and calls; rules are used up across all of them.
#[derive(Debug)]
pub struct Scripted {
    rules: Vec<Rule>,
    /// For each rule, how many steps it has answered.
    used: Mutex<Vec<u64>>,
}

impl Scripted {
    /// A model that follows `script` from its start.
    pub fn new(script: Script) -> Scripted {
        let used = Mutex::new(vec![0; script.rules.len()]);
        Scripted { rules: script.rules, used }
    }

    /// For each rule of the script how many of its steps have answered.
    pub fn used(&self) -> Vec<u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the next step of the first rule that matches and is not used up.
    fn next_step(&self, request: &Request) -> Result<&Step, LlmError> {
        let digest = self.rules.iter().any(|rule| rule.hash.is_some()).then(|| request.digest());
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for (rule, used) in self.rules.iter().zip(used.iter_mut()) {
            if steps_left(rule, *used) && mismatches(rule, request, digest.as_deref()).is_empty() {
                let index = usize::try_from(*used).unwrap_or(usize::MAX) % rule.steps.len();
                *used += 1;
                return Ok(&rule.steps[index]);
            }
        }
        Err(LlmError::new(LlmErrorKind::NoRule, no_rule(&self.rules, &used, request, digest.as_deref())))
    }
}

/// Uses up the step that a call was answered with before: of the rules for such a request the first that says the same.
/// Where the words were withheld, the first; where no rule says the same, it was another script.
fn use_up(rules: &[Rule], used: &mut [u64], past: &Past) {
    let steps = rules.iter().zip(used.iter()).enumerate().filter_map(|(at, (rule, used))| {
        let When { action, model, .. } = &rule.when;
        let is_for = action.as_ref().is_none_or(|action| is_named(&past.name, action))
            && model.as_ref().is_none_or(|model| past.model.is_empty() || is_model(&past.model, model));
        // Errors that ended a call left nothing that could be recalled.
        let failed = |step: &&Step| matches!(step.outcome, Outcome::Error { .. });
        let left = rule.steps.iter().cycle().skip(usize::try_from(*used).unwrap_or(0) % rule.steps.len());
        let passed = match past.text {
            Some(_) => left.clone().take(rule.steps.len()).take_while(failed).count() as u64,
            None => 0,
        };
        let step = left.clone().nth(usize::try_from(passed).unwrap_or(0))?;
        (is_for && steps_left(rule, used + passed)).then_some((at, step, passed + 1))
    });
    let steps: Vec<(usize, &Step, u64)> = steps.collect();
    let is_withheld = past.text.as_ref().is_some_and(|text| WITHHELD.iter().any(|mark| text.contains(mark)));
    let same = steps.iter().find(|(_, step, _)| says(step, past));
    if let Some((at, _, count)) = same.or(steps.first().filter(|_| is_withheld)) {
        used[*at] += count;
    }
}

/// What stands for words that are told to no one.
const WITHHELD: [&str; 2] = [super::secret::REDACTED, "[withheld]"];

/// Whether a step gives what a call was answered with.
fn says(step: &Step, past: &Past) -> bool {
    let Some(text) = &past.text else { return matches!(step.outcome, Outcome::Error { .. }) };
    match &step.outcome {
        _ if step.truncate => !text.is_empty(),
        Outcome::Reply(Value::String(said)) | Outcome::Raw(said) => said == text,
        Outcome::Reply(data) => serde_json::from_str::<Value>(text).is_ok_and(|sent| is_inside(data, &sent)),
        Outcome::Call(_) | Outcome::Refuse(_) => text.is_empty(),
        Outcome::Error { .. } => false,
    }
}

/// Whether data is what was sent, with or without its envelope.
fn is_inside(data: &Value, sent: &Value) -> bool {
    let of_members = |(key, value): (&String, &Value)| sent.get(key).is_some_and(|sent| is_inside(value, sent));
    data == sent
        || data.as_object().is_some_and(|members| !members.is_empty() && members.iter().all(of_members))
        || sent.as_object().is_some_and(|envelope| envelope.len() == 1 && envelope.values().any(|inner| inner == data))
}

fn is_named(name: &str, action: &str) -> bool {
    action == name || action == name.rsplit('.').next().unwrap_or_default()
}

fn is_model(full: &str, model: &str) -> bool {
    model == full || full.split_once('/').is_some_and(|(_, id)| id == model)
}

fn steps_left(rule: &Rule, used: u64) -> bool {
    let passes = match (rule.times, rule.turns) {
        (Some(times), _) => times,
        (None, true) => 1,
        (None, false) => return true,
    };
    used < passes.saturating_mul(rule.steps.len() as u64)
}

/// What of a rule's `when` does not hold for `request`, each in words; empty: the rule matches.
fn mismatches(rule: &Rule, request: &Request, digest: Option<&str>) -> Vec<String> {
    let When { action, model, contains, tool_result, turn } = &rule.when;
    let mut wrong = Vec::new();
    if let Some(action) = action
        && !is_named(&request.name, action)
    {
        wrong.push(format!("`action` is `{}`, not `{action}`", request.name));
    }
    if let Some(model) = model
        && *model != request.full_model()
        && *model != request.model
    {
        wrong.push(format!("`model` is `{}`, not `{model}`", request.full_model()));
    }
    if let Some(text) = contains
        && !contains_text(request, text)
    {
        wrong.push(format!("no message contains `{text}`"));
    }
    if let Some(text) = tool_result
        && !has_tool_result(request, text)
    {
        wrong.push(format!("no tool result of the last turn contains or comes from `{text}`"));
    }
    if let Some(turn) = turn
        && *turn != request.turn as u64
    {
        wrong.push(format!("`turn` is {}, not {turn}", request.turn));
    }
    if let Some(hash) = &rule.hash
        && Some(hash.as_str()) != digest
    {
        wrong.push(format!("the request's hash is `{}`, not `{hash}`", digest.unwrap_or_default()));
    }
    wrong
}

fn contains_text(request: &Request, text: &str) -> bool {
    let in_system = request.system.as_deref().is_some_and(|system| system.contains(text));
    let in_part = |part: &Part| match part {
        Part::Text { text: said } => said.contains(text),
        Part::ToolResult { content, .. } => content.contains(text),
        Part::Image { .. } | Part::ToolCall { .. } | Part::Thinking { .. } => false,
    };
    in_system || request.messages.iter().flat_map(|message| &message.parts).any(in_part)
}

/// Whether a result that came after the model's last message contains `text` or comes from the tool `text`.
fn has_tool_result(request: &Request, text: &str) -> bool {
    let last_turn = request.messages.iter().rev().take_while(|message| message.role != Role::Assistant);
    last_turn.flat_map(|message| &message.parts).any(|part| match part {
        Part::ToolResult { name, content, .. } => name == text || content.contains(text),
        _ => false,
    })
}

/// The message for a request that no rule answers: the request, then the nearest rule and what keeps it from matching.
fn no_rule(rules: &[Rule], used: &[u64], request: &Request, digest: Option<&str>) -> String {
    let shown = describe(request);
    let nearest = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| {
            let mut wrong = mismatches(rule, request, digest);
            // A rule for this very action that is used up is nearer than one for another action.
            let about_action = rule.when.action.is_some() && !wrong.iter().any(|reason| reason.starts_with("`action`"));
            if wrong.is_empty() || !steps_left(rule, used[index]) {
                wrong.push(format!(
                    "it is used up, after {} answer{}",
                    used[index],
                    if used[index] == 1 { "" } else { "s" }
                ));
            }
            (index, wrong, about_action)
        })
        .min_by_key(|(_, wrong, about_action)| (!about_action, wrong.len()));
    if let Some(text) = super::recording::nearest(rules, request) {
        return format!("no recorded request is {shown}; {text}");
    }
    match nearest {
        None => format!("the script has no rules; {shown}"),
        Some((index, wrong, _)) => {
            format!("no rule of the script answers {shown}; nearest is rule {}: {}", index + 1, wrong.join(", "))
        }
    }
}

/// The request in a few lines: who asks which model in which turn, and the beginning of the last message.
fn describe(request: &Request) -> String {
    const SHOWN_CHARS: usize = 400;
    let last = request.messages.last().map(|message| {
        let results = message.parts.iter().filter_map(|part| match part {
            Part::ToolResult { name, content, .. } => Some(format!("[{name}] {content}")),
            Part::Text { text } => Some(text.clone()),
            _ => None,
        });
        results.collect::<Vec<_>>().join("\n")
    });
    let last = last.unwrap_or_default();
    let mut text: String = last.chars().take(SHOWN_CHARS).collect();
    if text.len() < last.len() {
        text.push('…');
    }
    format!("the call of `{}` to `{}` in turn {}: {text:?}", request.name, request.full_model(), request.turn)
}

#[async_trait]
impl Llm for Scripted {
    fn capabilities(&self, _: &str) -> Capabilities {
        Capabilities { tools: true, json_schema: true, images: true, thinking: true }
    }

    async fn call(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        let limit = request.options.timeout;
        let step = self.next_step(request)?;
        if let Some(delay) = step.delay {
            match limit.filter(|limit| *limit < delay) {
                Some(limit) => {
                    tokio::time::sleep(limit).await;
                    let message = format!("the script did not answer within {} ms", limit.as_millis());
                    return Err(LlmError::new(LlmErrorKind::Timeout, message));
                }
                None => tokio::time::sleep(delay).await,
            }
        }
        let reply = perform(step, request)?;
        if request.options.stream {
            replay(&reply, sink);
        }
        Ok(reply)
    }

    fn recall(&self, past: &[Past]) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        past.iter().for_each(|past| use_up(&self.rules, &mut used, past));
    }

    fn wire(&self, request: &Request) -> Value {
        json!({
            "model": request.full_model(),
            "system": request.system,
            "messages": request.messages,
            "tools": request.tools,
            "output": request.output.as_ref().map(|output| &output.schema),
        })
    }
}

fn perform(step: &Step, request: &Request) -> Result<Reply, LlmError> {
    let (mut answer, finish) = match &step.outcome {
        Outcome::Reply(Value::String(text)) => (vec![Part::text(text)], Finish::Stop),
        Outcome::Reply(data) => {
            let sent = match &request.output {
                Some(output) => structured::wrap(&output.schema, data.clone()),
                None => data.clone(),
            };
            (vec![Part::text(sent.to_string())], Finish::Stop)
        }
        Outcome::Raw(text) => (vec![Part::text(text)], Finish::Stop),
        Outcome::Call(calls) => (tool_calls(calls, request), Finish::ToolCalls),
        Outcome::Refuse(words) => (Vec::new(), Finish::Refusal(words.clone())),
        Outcome::Error { status, retry_after, message } => {
            let kind = status.map_or(LlmErrorKind::Transport, LlmError::kind_of_status);
            let what = status.map_or("broke the connection".to_string(), |code| format!("answered with status {code}"));
            let words = message.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
            let message = format!("`{}` {what}{words} (scripted)", request.full_model());
            return Err(LlmError { kind, message, retry_after: *retry_after });
        }
    };
    let finish = if step.truncate {
        answer.iter_mut().for_each(cut_in_half);
        Finish::Length
    } else {
        finish
    };
    let usage = step.usage.unwrap_or_else(|| estimate(request, &answer, step.thinking.as_deref()));
    let thinking = step.thinking.iter().map(|text| Part::Thinking { text: text.clone(), signature: None });
    Ok(Reply {
        parts: thinking.chain(answer).collect(),
        finish,
        usage,
        model: request.model.clone(),
        from_cache: false,
    })
}

/// Calls get the ids `call_<turn>_<n>`, which no other turn of the interaction has.
fn tool_calls(calls: &[(String, Value)], request: &Request) -> Vec<Part> {
    let call = |(index, (name, arguments)): (usize, &(String, Value))| Part::ToolCall {
        id: format!("call_{}_{}", request.turn, index + 1),
        name: name.clone(),
        arguments: arguments.clone(),
    };
    calls.iter().enumerate().map(call).collect()
}

fn cut_in_half(part: &mut Part) {
    if let Part::Text { text } = part {
        *text = text.chars().take(text.chars().count() / 2).collect();
    }
}

/// Tokens of a step that gives none: a quarter of the bytes, so that figures are never nought and always the same.
fn estimate(request: &Request, answer: &[Part], thinking: Option<&str>) -> Usage {
    let tokens = |bytes: usize| bytes.div_ceil(4) as u64;
    let part_bytes = |part: &Part| match part {
        Part::Text { text } | Part::Thinking { text, .. } => text.len(),
        Part::ToolCall { name, arguments, .. } => name.len() + arguments.to_string().len(),
        Part::ToolResult { content, .. } => content.len(),
        Part::Image { .. } => 4_000,
    };
    let sent: usize = request.messages.iter().flat_map(|message| &message.parts).map(part_bytes).sum();
    let system = request.system.as_ref().map_or(0, String::len);
    let thinking_tokens = thinking.map_or(0, |text| tokens(text.len()));
    let received: usize = answer.iter().map(part_bytes).sum();
    Usage {
        input_tokens: tokens(sent + system),
        output_tokens: tokens(received) + thinking_tokens,
        thinking_tokens,
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::llm::{Message, NoSink, OutputSchema};

    fn model(rules: Value) -> Scripted {
        Scripted::new(Script::from_value(&json!({ "replies": rules })).unwrap())
    }

    fn ask(name: &str, text: &str) -> Request {
        Request {
            name: name.into(),
            provider: "openai".into(),
            model: "m".into(),
            messages: vec![Message::user(text)],
            ..Request::default()
        }
    }

    #[tokio::test]
    async fn the_first_rule_that_matches_and_is_not_used_up_answers() {
        let model = model(json!([
            {"when": {"action": "a"}, "reply": "once", "times": 1},
            {"when": {"action": "a", "contains": "special"}, "reply": "special"},
            {"when": {"model": "openai/m"}, "turns": [{"reply": "t1"}, {"reply": "t2"}]},
            {"reply": "rest"},
        ]));
        let mut said = Vec::new();
        for request in
            [ask("a", "x"), ask("a", "special"), ask("S.a", "special"), ask("a", "x"), ask("a", "x"), ask("a", "x")]
        {
            said.push(model.call(&request, &NoSink).await.unwrap().text());
        }
        assert_eq!(said, ["once", "special", "special", "t1", "t2", "rest"]);
    }

    #[tokio::test]
    async fn data_goes_out_wrapped_where_the_wire_wants_it() {
        let rules = json!([{"when": {"contains": "list"}, "reply": [1, 2]}, {"when": {"contains": "none"}, "reply": null}, {"reply": {"a": 1}}]);
        let model = model(rules);
        let mut list = ask("a", "list");
        list.output = Some(OutputSchema::native("L", json!({"type": "array"})));
        assert_eq!(model.call(&list, &NoSink).await.unwrap().text(), r#"{"value":[1,2]}"#);
        let mut none = ask("a", "none");
        none.output = Some(OutputSchema::native("L", json!({"anyOf": [{"type": "object"}, {"type": "null"}]})));
        assert_eq!(model.call(&none, &NoSink).await.unwrap().text(), r#"{"value":null}"#);
        let mut object = ask("a", "object");
        object.output = Some(OutputSchema::native("L", json!({"type": "object"})));
        assert_eq!(model.call(&object, &NoSink).await.unwrap().text(), r#"{"a":1}"#);
    }

    #[tokio::test]
    async fn no_match_shows_the_request_and_the_nearest_rule() {
        let model = model(json!([
            {"when": {"action": "b"}, "reply": "x"},
            {"when": {"action": "a", "contains": "Lynda", "turn": 2}, "reply": "x"},
        ]));
        let error = model.call(&ask("a", "find news"), &NoSink).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::NoRule);
        assert_eq!(
            error.message,
            "no rule of the script answers the call of `a` to `openai/m` in turn 1: \"find news\"; \
             nearest is rule 2: no message contains `Lynda`, `turn` is 1, not 2"
        );
    }

    #[tokio::test]
    async fn a_used_up_rule_of_the_same_action_is_the_nearest() {
        let model = model(
            json!([{"when": {"action": "b"}, "reply": "x"}, {"when": {"action": "a"}, "reply": "x", "times": 1}]),
        );
        model.call(&ask("a", "x"), &NoSink).await.unwrap();
        let error = model.call(&ask("a", "x"), &NoSink).await.unwrap_err();
        assert!(error.message.ends_with("nearest is rule 2: it is used up, after 1 answer"), "{}", error.message);
    }

    #[tokio::test]
    async fn errors_refusals_truncation_thinking_and_usage_come_as_scripted() {
        let model = model(json!([
            {"when": {"contains": "error"}, "error": {"status": 429, "retry_after": 2}},
            {"when": {"contains": "reset"}, "error": {}},
            {"when": {"contains": "refuse"}, "refuse": "no"},
            {"when": {"contains": "cut"}, "reply": {"abc": 1}, "truncate": true},
            {"reply": "ok", "thinking": "hm", "usage": {"input_tokens": 100, "output_tokens": 20}},
        ]));
        let error = model.call(&ask("a", "error"), &NoSink).await.unwrap_err();
        assert_eq!((error.kind, error.retry_after), (LlmErrorKind::RateLimited, Some(Duration::from_secs(2))));
        assert_eq!(model.call(&ask("a", "reset"), &NoSink).await.unwrap_err().kind, LlmErrorKind::Transport);
        assert_eq!(model.call(&ask("a", "refuse"), &NoSink).await.unwrap().finish, Finish::Refusal("no".into()));
        let cut = model.call(&ask("a", "cut"), &NoSink).await.unwrap();
        assert_eq!((cut.text().as_str(), cut.finish), (r#"{"ab"#, Finish::Length));
        let ok = model.call(&ask("a", "x"), &NoSink).await.unwrap();
        assert_eq!((ok.usage.input_tokens, ok.usage.output_tokens, ok.text().as_str()), (100, 20, "ok"));
        assert_eq!(ok.parts[0], Part::Thinking { text: "hm".into(), signature: None });
    }

    #[tokio::test(start_paused = true)]
    async fn delay_runs_on_tokios_clock_and_under_the_time_limit() {
        let model = model(json!([{"reply": "ok", "delay": "10s"}]));
        let start = tokio::time::Instant::now();
        model.call(&ask("a", "x"), &NoSink).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        let mut hasty = ask("a", "x");
        hasty.options.timeout = Some(Duration::from_secs(1));
        assert_eq!(model.call(&hasty, &NoSink).await.unwrap_err().kind, LlmErrorKind::Timeout);
        assert_eq!(start.elapsed(), Duration::from_secs(11));
    }

    #[tokio::test]
    async fn tool_calls_get_ids_and_results_match_in_their_turn() {
        let model = model(json!([
            {"when": {"tool_result": "web"}, "reply": "found"},
            {"when": {"tool_result": "42"}, "reply": "number"},
            {"call": [{"tool": "web", "with": {"q": "x"}}, {"tool": "now"}]},
        ]));
        let mut request = ask("a", "x");
        let reply = model.call(&request, &NoSink).await.unwrap();
        assert_eq!(reply.finish, Finish::ToolCalls);
        let calls: Vec<_> = reply
            .tool_calls()
            .map(|(id, name, arguments)| (id.to_string(), name.to_string(), arguments.clone()))
            .collect();
        assert_eq!(
            calls,
            [("call_1_1".into(), "web".into(), json!({"q": "x"})), ("call_1_2".into(), "now".into(), json!({}))]
        );
        let result = |name: &str, content: &str| Part::ToolResult {
            id: "call_1_1".into(),
            name: name.into(),
            content: content.into(),
            is_error: false,
            pictures: Vec::new(),
        };
        request.messages.push(reply.to_message());
        request.messages.push(Message::tool_results(vec![result("web", "3 results")]));
        assert_eq!(model.call(&request, &NoSink).await.unwrap().text(), "found");
        request.messages.push(Message::assistant("more"));
        request.messages.push(Message::tool_results(vec![result("calc", "= 42")]));
        assert_eq!(model.call(&request, &NoSink).await.unwrap().text(), "number");
    }

    #[tokio::test]
    async fn a_script_goes_on_where_another_program_left_it() {
        let rules = json!([
            {"when": {"action": "a", "contains": "special"}, "turns": [{"reply": "s1"}, {"reply": "s2"}]},
            {"when": {"action": "a"}, "turns": [
                {"error": 429}, {"call": {"tool": "web"}}, {"reply": {"n": 1}}, {"error": 500}, {"reply": [1]},
                {"reply": "last"},
            ]},
            {"when": {"action": "b", "model": "openai/m"}, "reply": "always"},
        ]);
        let past = |name: &str, text: Option<&str>| Past {
            name: name.into(),
            model: "openai/m".into(),
            text: text.map(str::to_owned),
        };
        let all = [
            past("a", None),
            past("S.a", Some("")),
            past("b", Some("always")),
            past("a", Some("s1")),
            past("a", Some(r#"{"n":1}"#)),
            // The 500 ended a call for good: nothing is known of it.
            past("a", Some(r#"{"value":[1]}"#)),
            past("other", Some("x")),
            // Nothing here says so: it was another script.
            past("a", Some("first")),
        ];
        let used = |count: usize| {
            let model = model(rules.clone());
            model.recall(&all[..count]);
            model.used()
        };
        let counts: Vec<Vec<u64>> = (0..=all.len()).map(used).collect();
        let expected =
            [[0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 2, 1], [1, 2, 1], [1, 3, 1], [1, 5, 1], [1, 5, 1], [1, 5, 1]]
                .map(Vec::from);
        assert_eq!(counts, expected);
        let model = model(rules);
        model.recall(&all);
        assert_eq!(model.call(&ask("a", "x"), &NoSink).await.unwrap().text(), "last");
        assert_eq!(model.call(&ask("a", "special"), &NoSink).await.unwrap().text(), "s2");
    }

    #[tokio::test]
    async fn a_recording_answers_by_hash() {
        let request = ask("a", "x");
        let model =
            model(json!([{"hash": "0000000000000000", "reply": "no"}, {"hash": request.digest(), "reply": "yes"}]));
        assert_eq!(model.call(&request, &NoSink).await.unwrap().text(), "yes");
    }
}
