//! One suite for all providers, by what they can do: what they answer (`tests/cassettes/<wire>/<case>.json`, in the form in
//! which they answer) becomes the same reply, whole or streamed, however the bytes are cut; and when they fail, they fail in
//! the same way. `published.rs` shows that what they are sent, and these answers, fit what they publish.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_run::llm::{
    Delta, DeltaSink, Finish, Llm, LlmErrorKind, Message, NoSink, Part, ProviderConfig, Reply, Request, RetryPolicy,
    Secret, build, call_with_retries,
};
use serde_json::{Value, json};

use crate::support::mock_llm::{Answer, MockLlm, event_frame};
use crate::support::wires::stream_of;

/// A wire: where its cassettes are, the kind of provider that speaks it, and what it can do.
pub(crate) struct Wire {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    /// The path that a streamed call of the model `m` goes to.
    path: &'static str,
    /// It tells what came from the cache, and what was thinking.
    cached: bool,
    thinking: bool,
    /// It can decline.
    pub(crate) refuses: bool,
    /// It sends thinking back with a proof of its origin.
    pub(crate) signs: bool,
}

pub(crate) const WIRES: &[Wire] = &[
    Wire {
        name: "anthropic",
        kind: "anthropic",
        path: "/v1/messages",
        cached: true,
        thinking: false,
        refuses: true,
        signs: true,
    },
    Wire {
        name: "bedrock",
        kind: "bedrock",
        path: "/model/m/converse-stream",
        cached: true,
        thinking: false,
        refuses: true,
        signs: true,
    },
    Wire {
        name: "gemini",
        kind: "gemini",
        path: "/v1beta/models/m:streamGenerateContent?alt=sse",
        cached: true,
        thinking: true,
        refuses: true,
        signs: false,
    },
    Wire {
        name: "ollama",
        kind: "ollama",
        path: "/api/chat",
        cached: false,
        thinking: false,
        refuses: false,
        signs: false,
    },
    Wire {
        name: "openai",
        kind: "openai",
        path: "/chat/completions",
        cached: true,
        thinking: true,
        refuses: true,
        signs: false,
    },
    Wire {
        name: "responses",
        kind: "openai",
        path: "/responses",
        cached: true,
        thinking: true,
        refuses: true,
        signs: true,
    },
];

impl Wire {
    pub(crate) fn provider(&self, url: &str, read_timeout: Option<Duration>) -> Arc<dyn Llm> {
        let config = ProviderConfig {
            kind: self.kind.into(),
            base_url: Some(url.into()),
            api_key: Some(Secret::new("sk-0123456789")),
            api: (self.name == "responses").then(|| "responses".to_owned()),
            region: Some("eu-central-1".into()),
            read_timeout,
            ..ProviderConfig::default()
        };
        build(self.kind, &config, Arc::default()).expect("a provider")
    }

    pub(crate) fn cassette(&self, case: &str) -> Value {
        let path = crate::support::root().join("tests/cassettes").join(self.name).join(format!("{case}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The cassette as it comes over the network.
    pub(crate) fn answer(&self, case: &str, streamed: bool) -> Answer {
        let cassette = self.cassette(case);
        if !streamed {
            return Answer::json(200, &cassette["whole"]);
        }
        stream_of(self.name, cassette["stream"].as_array().expect("a list of events"))
    }
}

/// Keeps the pieces of a reply as they come.
#[derive(Default)]
struct Heard(Mutex<Pieces>);

/// Text, thinking, and calls with their arguments.
type Pieces = (String, String, Vec<(String, String)>);

impl DeltaSink for Heard {
    fn delta(&self, delta: Delta) {
        let mut heard = self.0.lock().expect("no panic elsewhere");
        match delta {
            Delta::Text(text) => heard.0.push_str(&text),
            Delta::Thinking(text) => heard.1.push_str(&text),
            Delta::ToolCall { name, .. } => heard.2.push((name, String::new())),
            Delta::ToolArguments { index, fragment } => heard.2[index].1.push_str(&fragment),
            Delta::Restart => *heard = Default::default(),
        }
    }
}

/// What a case says, in nobody's words: thinking, text, calls.
fn said(case: &str) -> (&'static str, &'static str, Vec<(&'static str, Value)>) {
    match case {
        "text" => ("", "Hello there.", vec![]),
        "tools" => ("", "Let me look.", vec![("get_forecast", json!({"city": "Bern"})), ("now", json!({}))]),
        "thinking" => ("Two and two is simple.", "4", vec![]),
        "length" => ("", "Once upon a", vec![]),
        "refusal" | "empty" => ("", "", vec![]),
        other => panic!("no case {other}"),
    }
}

fn check(wire: &Wire, case: &str, reply: &Reply, how: &str) {
    let at = format!("{} {case} {how}: {reply:?}", wire.name);
    let (thinking, text, calls) = said(case);
    let thought: String = reply
        .parts
        .iter()
        .filter_map(|part| if let Part::Thinking { text, .. } = part { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!((thought.as_str(), reply.text().as_str()), (thinking, text), "{at}");
    let made: Vec<(&str, Value)> = reply.tool_calls().map(|(_, name, arguments)| (name, arguments.clone())).collect();
    assert_eq!(made, calls, "{at}");
    let mut ids: Vec<&str> = reply.tool_calls().map(|(id, ..)| id).collect();
    ids.dedup();
    assert!(ids.len() == calls.len() && ids.iter().all(|id| !id.is_empty()), "{at}");
    match case {
        "tools" => assert_eq!(reply.finish, Finish::ToolCalls, "{at}"),
        "length" => assert_eq!(reply.finish, Finish::Length, "{at}"),
        "refusal" => assert!(matches!(reply.finish, Finish::Refusal(_) | Finish::ContentFilter), "{at}"),
        _ => assert_eq!(reply.finish, Finish::Stop, "{at}"),
    }
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (12, 5), "{at}");
    assert_eq!(reply.usage.cached_input_tokens, if wire.cached { 4 } else { 0 }, "{at}");
    let written = if case == "text" && ["openai", "responses"].contains(&wire.name) { 2 } else { 0 };
    assert_eq!(reply.usage.cache_write_tokens, written, "{at}");
    assert_eq!(reply.usage.thinking_tokens, if wire.thinking && case == "thinking" { 3 } else { 0 }, "{at}");
    assert_eq!(reply.model, if wire.name == "bedrock" { "m" } else { "mock-1-2026" }, "{at}");
}

pub(crate) fn ask(stream: bool) -> Request {
    let mut request = Request { model: "m".into(), messages: vec![Message::user("Hello")], ..Request::default() };
    request.options.stream = stream;
    request
}

#[tokio::test]
async fn every_wire_gives_the_same_reply_whole_streamed_and_in_pieces() {
    for wire in WIRES {
        for case in ["text", "tools", "thinking", "length", "refusal", "empty"] {
            if case == "refusal" && !wire.refuses {
                continue;
            }
            let streamed = wire.answer(case, true);
            let answers =
                vec![wire.answer(case, false), streamed.clone(), streamed.clone().in_pieces(1), streamed.in_pieces(37)];
            let server = MockLlm::answering(answers).await;
            let llm = wire.provider(&server.url(), None);
            for how in ["whole", "streamed", "byte by byte", "in pieces"] {
                let heard = Heard::default();
                let reply = llm
                    .call(&ask(how != "whole"), &heard)
                    .await
                    .unwrap_or_else(|error| panic!("{case} {how}: {error}"));
                check(wire, case, &reply, how);
                if how == "whole" {
                    continue;
                }
                let (thinking, text, calls) = said(case);
                let heard = heard.0.lock().expect("no panic elsewhere");
                assert_eq!((heard.1.as_str(), heard.0.as_str()), (thinking, text), "{} {case} {how}", wire.name);
                let arguments = |text: &str| {
                    if text.is_empty() { json!({}) } else { serde_json::from_str(text).unwrap_or_default() }
                };
                let made: Vec<(&str, Value)> =
                    heard.2.iter().map(|(name, text)| (name.as_str(), arguments(text))).collect();
                assert_eq!(made, calls, "{} {case} {how}", wire.name);
            }
            let received = server.received();
            assert_eq!(received[1].path, wire.path);
            assert!(
                received.iter().all(|request| request.headers.iter().any(|(_, value)| value.contains("sk-0123456789")))
            );
        }
    }
}

#[tokio::test]
async fn every_wire_fails_in_the_same_way() {
    for wire in WIRES {
        let good = wire.answer("tools", true);
        let half = 400;
        let broken = match wire.name {
            "bedrock" => Answer::bytes(
                200,
                "application/vnd.amazon.eventstream",
                event_frame(&[(":message-type", "event")], b"{nonsense"),
            ),
            "ollama" => Answer::bytes(200, "application/x-ndjson", "{nonsense\n"),
            _ => Answer::bytes(200, "text/event-stream", "data: {nonsense\n\n"),
        };
        let limited = Answer::json(429, &json!({"error": {"message": "slow down"}, "message": "slow down"}));
        let failures = vec![
            (limited.clone().header("retry-after", "7"), LlmErrorKind::RateLimited, true),
            (Answer::bytes(500, "text/html", "<h1>oops</h1>"), LlmErrorKind::Status { code: 500 }, true),
            (Answer::bytes(529, "text/plain", "overloaded"), LlmErrorKind::Status { code: 529 }, true),
            (Answer::reset(), LlmErrorKind::Transport, true),
            (good.clone().cut_after(half), LlmErrorKind::Transport, true),
            (broken, LlmErrorKind::Protocol, false),
            (Answer::bytes(200, "application/json", "{\"half\": "), LlmErrorKind::Protocol, false),
            (Answer::json(200, &json!({"other": 1})), LlmErrorKind::Protocol, false),
            (Answer::json(400, &json!({"error": {"message": "no"}})), LlmErrorKind::BadRequest, false),
            (Answer::json(403, &json!({"message": "no"})), LlmErrorKind::Auth, false),
            (good.clone().stall_after(half), LlmErrorKind::Timeout, true),
        ];
        let server = MockLlm::answering(failures.iter().map(|(answer, ..)| answer.clone()).collect()).await;
        let llm = wire.provider(&server.url(), Some(Duration::from_millis(150)));
        for (number, (_, kind, retryable)) in failures.iter().enumerate() {
            let error = llm.call(&ask(true), &NoSink).await.expect_err("it fails");
            assert_eq!((error.kind, error.is_retryable()), (*kind, *retryable), "{} {number}: {error}", wire.name);
            assert!(error.message.starts_with("provider `") && !error.message.contains("sk-0123456789"), "{error}");
            assert_eq!(error.retry_after, (number == 0).then_some(Duration::from_secs(7)), "{}", wire.name);
        }
        recovers(wire, limited.header("retry-after", "0"), good.cut_after(half)).await;
    }
}

/// What may pass is tried again, and what came before is taken back.
async fn recovers(wire: &Wire, limited: Answer, cut: Answer) {
    let server = MockLlm::answering(vec![limited, cut, wire.answer("text", true)]).await;
    let llm = wire.provider(&server.url(), None);
    let policy = RetryPolicy { backoff: Duration::ZERO, ..RetryPolicy::default() };
    let heard = Heard::default();
    let reply = call_with_retries(&*llm, &ask(true), &policy, &heard, &|_, _| {}).await;
    check(wire, "text", &reply.expect("the third try succeeds"), "after failures");
    assert_eq!(heard.0.lock().expect("no panic elsewhere").0, "Hello there.", "{}", wire.name);
    assert_eq!(server.received().len(), 3);
}

/// No cassette may hold a key.
#[test]
fn cassettes_hold_no_secrets() {
    for file in crate::support::files(&crate::support::root().join("tests/cassettes"), &[".json"]) {
        let text = std::fs::read_to_string(&file).expect("a cassette");
        for mark in ["sk-", "AKIA", "AIza", "Bearer ", "authorization", "x-api-key"] {
            assert!(!text.contains(mark), "{}: {mark}", file.display());
        }
    }
}
