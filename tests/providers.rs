//! One suite for all providers, by what they can do: what they answer (`tests/cassettes/<wire>/<case>.json`, in the form in
//! which they answer) becomes the same reply, whole or streamed, however the bytes are cut; what they are sent fits their
//! published schemas (`request.schema.json`); and when they fail, they fail in the same way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_run::llm::{
    Delta, DeltaSink, Finish, ImageSource, Llm, LlmErrorKind, Message, NoSink, OutputSchema, Part, ProviderConfig,
    Reply, Request, RetryPolicy, Role, Secret, Thinking, ToolChoice, ToolSpec, build, call_with_retries, structured,
};
use serde_json::{Value, json};

use crate::support::mock_llm::{Answer, MockLlm, event_frame};

/// A wire: where its cassettes are, the kind of provider that speaks it, and what it can do.
struct Wire {
    name: &'static str,
    kind: &'static str,
    /// The path that a streamed call of the model `m` goes to.
    path: &'static str,
    /// It tells what came from the cache, and what was thinking.
    cached: bool,
    thinking: bool,
    /// It can decline.
    refuses: bool,
    /// It sends thinking back with a proof of its origin.
    signs: bool,
}

const WIRES: &[Wire] = &[
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
    fn provider(&self, url: &str, read_timeout: Option<Duration>) -> Arc<dyn Llm> {
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

    fn cassette(&self, case: &str) -> Value {
        let path = crate::support::root().join("tests/cassettes").join(self.name).join(format!("{case}.json"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The cassette as it comes over the network.
    fn answer(&self, case: &str, streamed: bool) -> Answer {
        let cassette = self.cassette(case);
        if !streamed {
            return Answer::json(200, &cassette["whole"]);
        }
        let events = cassette["stream"].as_array().expect("a list of events");
        let lines = |end: &str| events.iter().map(|event| format!("data: {event}{end}")).collect::<String>();
        match self.name {
            "openai" => Answer::openai_stream(events),
            "anthropic" | "responses" => Answer::anthropic_stream(events),
            "gemini" => Answer::bytes(200, "text/event-stream", lines("\r\n\r\n")),
            "ollama" => {
                let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
                Answer::bytes(200, "application/x-ndjson", lines)
            }
            "bedrock" => {
                let frame = |event: &Value| {
                    let kind = event[":event-type"].as_str().expect("a kind of event");
                    let headers =
                        [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")];
                    event_frame(&headers, event["payload"].to_string().as_bytes())
                };
                Answer::bytes(
                    200,
                    "application/vnd.amazon.eventstream",
                    events.iter().flat_map(frame).collect::<Vec<u8>>(),
                )
            }
            other => panic!("no form of a stream is known for {other}"),
        }
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
    assert_eq!(reply.usage.thinking_tokens, if wire.thinking && case == "thinking" { 3 } else { 0 }, "{at}");
    assert_eq!(reply.model, if wire.name == "bedrock" { "m" } else { "mock-1-2026" }, "{at}");
}

fn ask(stream: bool) -> Request {
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

/// Requests that use all that a request can say: pictures, tools, structured output, settings, and what came back.
fn requests(replies: &[Reply]) -> Vec<Request> {
    let image = Part::Image { mime: "image/png".into(), source: ImageSource::Data("iVBORw0KGgo=".into()) };
    let asked = Message { role: Role::User, parts: vec![Part::text("What is this?"), image] };
    let number = json!({"type": "integer", "minimum": 1, "maximum": 9, "description": "How many"});
    let schema = json!({
        "type": "object", "required": ["items"], "additionalProperties": false,
        "properties": {
            "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "minItems": 1},
            "note": {"type": "string"}, "sign": {"enum": ["leo", "virgo"]}, "level": {"anyOf": [number, {"type": "null"}]}
        },
        "$defs": {"Item": {"type": "object", "required": ["name"], "additionalProperties": false,
            "properties": {"name": {"type": "string", "maxLength": 20}, "at": {"type": "string", "format": "date-time"}}}}
    });
    let map = json!({"type": "object", "properties": {"tags": {"type": "object", "additionalProperties": {"type": "string"}}}});
    let tool =
        |name: &str, parameters: Value| ToolSpec { name: name.into(), description: "Does it".into(), parameters };
    let tools = vec![
        tool("get_forecast", schema.clone()),
        tool("now", json!({"type": "object", "properties": {}})),
        tool("tag", map),
    ];
    let mut plain =
        Request { model: "m".into(), system: Some("Be brief.".into()), messages: vec![asked], ..Request::default() };
    plain.output = Some(OutputSchema::native("Things", schema));
    let mut all = Vec::new();
    for (stream, thinking) in
        [(false, None), (true, Some(Thinking::Effort("high".into()))), (true, Some(Thinking::Off))]
    {
        let mut request = plain.clone();
        request.options.stream = stream;
        request.options.thinking = thinking;
        request.options.max_tokens = Some(2_000);
        request.options.stop = vec!["END".into()];
        request.options.cache = Some(stream);
        if !stream {
            request.options.temperature = Some(0.5);
            request.options.top_p = Some(0.9);
            request.options.seed = Some(7);
        }
        all.push(request);
    }
    for choice in [
        None,
        Some(ToolChoice::Auto),
        Some(ToolChoice::Required),
        Some(ToolChoice::None),
        Some(ToolChoice::Tool("now".into())),
    ] {
        let mut request = plain.clone();
        request.tools = tools.clone();
        request.options.tool_choice = choice;
        request.options.parallel_tool_calls = Some(false);
        for reply in replies {
            request.messages.push(reply.to_message());
            let result = |(id, name, _): (&str, &str, &Value)| Part::ToolResult {
                id: id.into(),
                name: name.into(),
                content: if name == "now" { String::new() } else { "sunny".into() },
                is_error: name == "now",
                pictures: Vec::new(),
            };
            let results: Vec<Part> = reply.tool_calls().map(result).collect();
            request.messages.push(if results.is_empty() {
                Message::user("Go on")
            } else {
                Message::tool_results(results)
            });
        }
        all.push(request);
    }
    all
}

/// The replies of a wire to these cases.
async fn replies(wire: &Wire, cases: &[&str]) -> Vec<Reply> {
    let server = MockLlm::answering(cases.iter().map(|case| wire.answer(case, true)).collect()).await;
    let llm = wire.provider(&server.url(), None);
    let mut replies = Vec::new();
    for case in cases {
        replies.push(llm.call(&ask(true), &NoSink).await.unwrap_or_else(|error| panic!("{case}: {error}")));
    }
    replies
}

#[tokio::test]
async fn every_request_fits_the_published_schema_of_its_provider() {
    // What another provider thought is sent to none.
    let mut all = Vec::new();
    for wire in WIRES {
        all.extend(replies(wire, &["thinking", "tools"]).await);
    }
    for wire in WIRES {
        let schema = wire.cassette("request.schema");
        assert!(
            schema["$comment"].as_str().is_some_and(|text| text.len() > 20),
            "{}: say where it comes from",
            wire.name
        );
        let validator = jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{}: {error}", wire.name));
        let own = replies(wire, &["thinking", "tools"]).await;
        let llm = wire.provider("http://127.0.0.1:9", None);
        // The address of OpenAI's own, too: it is spoken to strictly.
        let config = ProviderConfig {
            kind: wire.kind.into(),
            api: (wire.name == "responses").then(|| "responses".into()),
            ..ProviderConfig::default()
        };
        let at_home = build(wire.kind, &config, Arc::default()).expect("a provider");
        for (llm, replies) in [(&llm, &own), (&llm, &all), (&at_home, &own)] {
            for mut request in requests(replies) {
                for model in
                    ["m", "gemini-2.5-flash", "claude-opus-4-6", "anthropic.claude-sonnet-4-5-20250929-v1:0", "gpt-5.1"]
                {
                    request.model = model.into();
                    let mut placed = request.clone();
                    structured::place_output(&**llm, &mut placed);
                    let sent = llm.wire(&placed);
                    let errors: Vec<String> = validator
                        .iter_errors(&sent)
                        .map(|error| format!("{error} at {}", error.instance_path()))
                        .collect();
                    assert_eq!(errors, [""; 0], "{} {model}: {sent}", wire.name);
                }
            }
        }
        let thought = llm.wire(&requests(&own)[3]).to_string();
        let proofs = thought.matches("EqQB").count() + thought.matches("gAAAA==").count();
        assert_eq!(proofs, usize::from(wire.signs), "{}: {thought}", wire.name);
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
