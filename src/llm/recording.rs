//! Recordings: what models were asked and what they answered, written down as a script that plays it again (cli.md 6).
//!
//! A recording holds no header and no key: it is made of requests in no provider's words, and secrets of the configuration
//! that show up in a text are masked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::error::{LlmError, LlmErrorKind};
use super::provider::{Capabilities, Llm};
use super::reply::{DeltaSink, Finish, Reply};
use super::request::{Message, OutputMode, Part, Request, Role};
use super::script::Rule;
use super::structured;
use super::transcript::{request_text, sorted};
use crate::diag::diff;

/// What stands for a secret.
const MASK: &str = "***";
/// Shorter values are no secrets; masking them would spoil texts.
const SECRET_CHARS_MIN: usize = 6;

/// Writes down what models are asked and answer.
pub struct Recorder {
    secrets: Vec<String>,
    /// Rules by the digest of their request, in the order in which they were first asked.
    recorded: Mutex<indexmap::IndexMap<String, (Value, Vec<Value>)>>,
}

impl Recorder {
    /// A recorder that masks these secrets.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Arc<Recorder> {
        let secrets = secrets.into_iter().filter(|secret| secret.chars().count() >= SECRET_CHARS_MIN).collect();
        Arc::new(Recorder { secrets, recorded: Mutex::default() })
    }

    /// The same model, whose calls are written down.
    pub fn wrap(self: &Arc<Recorder>, llm: Arc<dyn Llm>) -> Arc<dyn Llm> {
        Arc::new(Recorded { llm, recorder: Arc::clone(self) })
    }

    /// How many calls were written down.
    pub fn len(&self) -> usize {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.values().map(|(_, steps)| steps.len()).sum()
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The recording as a script.
    pub fn script(&self) -> Value {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = recorded.iter().map(|(hash, (about, steps))| {
            let mut rule = Map::new();
            rule.insert("when".to_owned(), about["when"].clone());
            rule.insert("hash".to_owned(), json!(hash));
            match steps.as_slice() {
                [Value::Object(only)] => rule.extend(only.clone()),
                several => drop(rule.insert("turns".to_owned(), json!(several))),
            }
            rule.insert("request".to_owned(), about["request"].clone());
            Value::Object(rule)
        });
        json!({"replies": rules.collect::<Vec<_>>()})
    }

    fn note(&self, request: &Request, reply: &Result<Reply, LlmError>) {
        let about = json!({
            "when": {"action": request.name, "model": request.full_model(), "turn": request.turn},
            "request": self.masked(&request_text(request)),
        });
        let step = match reply {
            Ok(reply) => step(request, reply),
            Err(error) => failed(error),
        };
        let step = self.masked_value(step);
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.entry(request.digest()).or_insert_with(|| (about, Vec::new())).1.push(step);
    }

    fn masked(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK))
    }

    fn masked_value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.masked(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.masked_value(item)).collect(),
            Value::Object(map) => map.into_iter().map(|(key, value)| (key, self.masked_value(value))).collect(),
            other => other,
        }
    }
}

/// What a reply is in a script.
fn step(request: &Request, reply: &Reply) -> Value {
    let mut step = Map::new();
    let calls: Vec<Value> =
        reply.tool_calls().map(|(_, name, arguments)| json!({"tool": name, "with": arguments})).collect();
    let text = reply.text();
    match &reply.finish {
        Finish::Refusal(words) => drop(step.insert("refuse".to_owned(), json!(words))),
        Finish::ContentFilter => drop(step.insert("refuse".to_owned(), json!("withheld by the provider"))),
        _ if !calls.is_empty() => drop(step.insert("call".to_owned(), json!(calls))),
        Finish::Length => {
            step.insert("raw".to_owned(), json!(text));
            step.insert("truncate".to_owned(), json!(true));
        }
        Finish::Stop | Finish::ToolCalls => {
            let data = request.output.as_ref().and_then(|output| structured::decode(output, reply).ok());
            match data {
                // A string is sent as text, and the envelope of a list or scalar is put on again.
                Some(data) if !data.is_string() => drop(step.insert("reply".to_owned(), data)),
                _ => drop(step.insert("raw".to_owned(), json!(text))),
            }
        }
    }
    let thinking = reply.parts.iter().find_map(|part| match part {
        Part::Thinking { text, .. } if !text.is_empty() => Some(text.clone()),
        _ => None,
    });
    if let Some(thinking) = thinking {
        step.insert("thinking".to_owned(), json!(thinking));
    }
    let mut usage = json!(reply.usage);
    if let Value::Object(usage) = &mut usage {
        usage.retain(|_, count| count.as_u64() != Some(0));
    }
    step.insert("usage".to_owned(), usage);
    Value::Object(step)
}

fn failed(error: &LlmError) -> Value {
    let status = match error.kind {
        LlmErrorKind::Status { code } if (400..600).contains(&code) => Some(code),
        LlmErrorKind::RateLimited => Some(429),
        LlmErrorKind::Auth => Some(401),
        LlmErrorKind::BadRequest => Some(400),
        LlmErrorKind::Timeout => Some(408),
        _ => None,
    };
    let mut inside = Map::new();
    if let Some(status) = status {
        inside.insert("status".to_owned(), json!(status));
    }
    if let Some(wait) = error.retry_after {
        inside.insert("retry_after".to_owned(), json!(wait.as_secs_f64()));
    }
    inside.insert("message".to_owned(), json!(error.message));
    json!({"error": inside})
}

/// A model whose calls are written down.
struct Recorded {
    llm: Arc<dyn Llm>,
    recorder: Arc<Recorder>,
}

#[async_trait]
impl Llm for Recorded {
    fn capabilities(&self, model: &str) -> Capabilities {
        self.llm.capabilities(model)
    }

    async fn call(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        let reply = self.llm.call(request, sink).await;
        self.recorder.note(request, &reply);
        reply
    }

    fn wire(&self, request: &Request) -> Value {
        self.llm.wire(request)
    }

    fn output_mode(&self, model: &str, schema: &Value) -> OutputMode {
        self.llm.output_mode(model, schema)
    }
}

/// What in a text differs from run to run: the day of the system message, times, ids of processes.
fn varying() -> &'static [(Regex, &'static str)] {
    static PATTERNS: OnceLock<Vec<(Regex, &'static str)>> = OnceLock::new();
    PATTERNS.get_or_init(|| {
        let patterns = [
            (r"Current date: \d{4}-\d{2}-\d{2}\.", "Current date: <day>."),
            (r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})", "<time>"),
            (r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b", "<id>"),
        ];
        patterns.into_iter().filter_map(|(pattern, name)| Some((Regex::new(pattern).ok()?, name))).collect()
    })
}

fn steady(text: &str) -> String {
    varying().iter().fold(text.to_owned(), |text, (pattern, name)| pattern.replace_all(&text, *name).into_owned())
}

/// The digest of a request: FNV-1a of 64 bits over its canonical JSON.
pub(super) fn digest(request: &Request) -> String {
    let mut options = json!(request.options);
    if let Value::Object(options) = &mut options {
        options.remove("timeout");
        options.remove("stream");
    }
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let messages: Vec<Value> = request.messages.iter().map(|message| canonical(message, &mut ids)).collect();
    let plain = json!({
        "name": request.name,
        "model": request.full_model(),
        "system": request.system.as_deref().map(steady),
        "messages": messages,
        "tools": request.tools,
        "output": request.output,
        "options": options,
        "turn": request.turn,
    });
    let text = sorted(&plain).to_string();
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// A message without what a replay cannot have: ids of calls, thoughts, the spelling of JSON, words beside tool calls.
fn canonical(message: &Message, ids: &mut BTreeMap<String, usize>) -> Value {
    let calls = message.parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
    let mut number = |id: &String| {
        let next = ids.len();
        *ids.entry(id.clone()).or_insert(next)
    };
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { .. } if calls => None,
        Part::Text { text } if message.role == Role::Assistant => match serde_json::from_str::<Value>(text) {
            Ok(data) => Some(json!({"data": data})),
            Err(_) => Some(json!({"text": steady(text)})),
        },
        Part::Text { text } => Some(json!({"text": steady(text)})),
        Part::Image { mime, source } => Some(json!({"image": mime, "source": source})),
        Part::ToolCall { id, name, arguments } => {
            Some(json!({"call": number(id), "name": name, "arguments": arguments}))
        }
        Part::ToolResult { id, name, content, is_error, pictures } => {
            let mut result =
                json!({"result": number(id), "name": name, "content": steady(content), "is_error": is_error});
            if !pictures.is_empty() {
                result["pictures"] = json!(pictures);
            }
            Some(result)
        }
        Part::Thinking { .. } => None,
    });
    json!({"role": message.role, "parts": parts.collect::<Vec<_>>()})
}

/// Of a recording: the request that is nearest to one that none matches, and how they differ. `None`: nothing is recorded.
pub(super) fn nearest(rules: &[Rule], request: &Request) -> Option<String> {
    let wanted = steady(&request_text(request));
    let texts = rules.iter().enumerate().filter_map(|(at, rule)| Some((at, rule, steady(rule.request.as_ref()?))));
    let (at, rule, text) = texts.max_by_key(|(at, rule, text)| {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        let shared = lines(text).intersection(&lines(&wanted)).count();
        let same_action = rule.when.action.as_deref() == Some(request.name.as_str());
        (same_action, shared, std::cmp::Reverse(*at))
    })?;
    let about = rule.when.action.as_deref().unwrap_or("?");
    let turn = rule.when.turn.map(|turn| format!(" in turn {turn}")).unwrap_or_default();
    let head = format!("nearest is request {} of the recording, `{about}`{turn}", at + 1);
    Some(match text == wanted {
        true => format!("{head}, which is the same in all but its turn or options, or was used up"),
        false => format!("{head}; `-` was recorded, `+` is asked now:\n{}", diff::plain(&text, &wanted)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Message, NoSink, OutputSchema, Script, Scripted};
    use super::*;

    fn request(text: &str) -> Request {
        Request {
            name: "find".into(),
            provider: "openai".into(),
            model: "m".into(),
            messages: vec![Message::user(text)],
            ..Request::default()
        }
    }

    #[tokio::test]
    async fn what_is_recorded_plays_again_and_holds_no_secret() {
        let script = json!({"replies": [
            {"when": {"turn": 1}, "turns": [{"error": {"status": 429, "message": "key sk-12345678"}}, {"reply": {"a": [1]}, "thinking": "hm"}]},
            {"when": {"turn": 2}, "call": [{"tool": "web", "with": {"q": "x"}}]},
            {"when": {"turn": 3}, "refuse": "no"},
        ]});
        let recorder = Recorder::new(["sk-12345678".to_owned(), "x".to_owned()]);
        let model = recorder.wrap(Arc::new(Scripted::new(Script::from_value(&script).unwrap())));
        let mut first = request("use sk-12345678");
        first.output = Some(OutputSchema::native("A", json!({"type": "object"})));
        let calls = [first.clone(), first.clone(), Request { turn: 2, ..first.clone() }, Request { turn: 3, ..first }];
        let mut live = Vec::new();
        for call in &calls {
            live.push(model.call(call, &NoSink).await.map(|reply| (reply.parts, reply.finish)).map_err(|e| e.kind));
        }
        let written = recorder.script();
        let text = serde_yaml::to_string(&written).unwrap();
        assert!(!text.contains("sk-12345678") && text.contains("use ***"), "{text}");
        assert_eq!((recorder.len(), written["replies"].as_array().map(Vec::len)), (4, Some(3)));
        let again = Scripted::new(Script::from_value(&written).unwrap());
        for (call, live) in calls.iter().zip(live) {
            let reply = again.call(call, &NoSink).await;
            assert_eq!(reply.map(|reply| (reply.parts, reply.finish)).map_err(|e| e.kind), live);
        }
    }

    #[test]
    fn the_digest_sees_meaning_and_nothing_else() {
        let base = request("It is 2025-01-01T00:00:00Z");
        let same = request("It is 2031-12-31T10:20:30.123Z");
        assert_eq!(base.digest(), same.digest());
        let dated = |day: &str| Request {
            system: Some(format!("Current date: {day}. Knowledge cutoff: 2024.")),
            ..base.clone()
        };
        assert_eq!(dated("2025-01-01").digest(), dated("2026-02-03").digest());
        let answered = |text: &str| {
            let mut request = base.clone();
            request.messages.push(Message::assistant(text));
            request
        };
        assert_eq!(answered(r#"{"a":1}"#).digest(), answered("{ \"a\": 1 }").digest());
        assert_ne!(answered(r#"{"a":1}"#).digest(), answered(r#"{"a":2}"#).digest());
        assert_ne!(base.digest(), Request { turn: 2, ..base.clone() }.digest());
    }

    #[tokio::test]
    async fn a_request_that_was_not_recorded_is_shown_beside_the_nearest() {
        let recorder = Recorder::new([]);
        let model =
            recorder.wrap(Arc::new(Scripted::new(Script::from_value(&json!({"replies": [{"reply": "ok"}]})).unwrap())));
        for text in ["Find two stories\nabout cats", "Write it up"] {
            model.call(&request(text), &NoSink).await.unwrap();
        }
        let again = Scripted::new(Script::from_value(&recorder.script()).unwrap());
        let error = again.call(&request("Find three stories\nabout cats"), &NoSink).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::NoRule);
        assert!(error.message.contains("nearest is request 1 of the recording, `find` in turn 1"), "{}", error.message);
        assert!(error.message.contains("- Find two stories") && error.message.contains("+ Find three stories"));
    }
}
