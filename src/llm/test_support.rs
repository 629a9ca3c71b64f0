//! What the tests of all wires share: the server on loopback, a sink that remembers, failures that every provider meets.

#[path = "../../tests/support/mock_llm.rs"]
mod mock_llm;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use self::mock_llm::{Answer, MockLlm, event_frame};
use super::{
    Delta, DeltaSink, ImageSource, Llm, LlmErrorKind, Message, NoSink, Part, ProviderConfig, Request, Role, Secret,
    ToolSpec, build,
};

/// The key that no message may show.
const KEY: &str = "sk-secret-0123456789";

/// A provider of `kind` at `url`, with a key and a header.
pub(crate) fn provider(kind: &str, url: &str) -> Arc<dyn Llm> {
    provider_with(kind, url, ProviderConfig::default())
}

fn provider_with(kind: &str, url: &str, config: ProviderConfig) -> Arc<dyn Llm> {
    let config = ProviderConfig {
        kind: kind.into(),
        base_url: Some(url.into()),
        api_key: Some(Secret::new(KEY)),
        headers: [("x-team".to_string(), Secret::new("blue-team-header"))].into_iter().collect(),
        ..config
    };
    build(kind, &config, Arc::default()).unwrap()
}

/// A sink that keeps what comes, in a short form.
#[derive(Default)]
pub(crate) struct Collected(Mutex<Vec<String>>);

impl Collected {
    /// Text as it is, thinking in parentheses, calls as `[n name]`, arguments as `n:fragment`.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl DeltaSink for Collected {
    fn delta(&self, delta: Delta) {
        self.0.lock().unwrap().push(match delta {
            Delta::Text(text) => text,
            Delta::Thinking(text) => format!("({text})"),
            Delta::ToolCall { index, name } => format!("[{index} {name}]"),
            Delta::ToolArguments { index, fragment } => format!("{index}:{fragment}"),
            Delta::Restart => "<restart>".to_string(),
        });
    }
}

/// A conversation with an image, two calls and their results.
pub(crate) fn tool_conversation() -> Request {
    let image = Part::Image { mime: "image/png".into(), source: ImageSource::Data("AAAA".into()) };
    let call = |id: &str, name: &str, arguments: Value| Part::ToolCall { id: id.into(), name: name.into(), arguments };
    let result = |id: &str, name: &str, content: &str, is_error| Part::ToolResult {
        id: id.into(),
        name: name.into(),
        content: content.into(),
        is_error,
        pictures: Vec::new(),
    };
    let thought = Part::Thinking { text: "hm".into(), signature: Some("sig".into()) };
    let calls = vec![thought, call("c1", "get_forecast", json!({"city": "Bern"})), call("c2", "now", json!({}))];
    Request {
        name: "ask".into(),
        model: "m".into(),
        system: Some("Be brief.".into()),
        messages: vec![
            Message { role: Role::User, parts: vec![Part::text("Weather?"), image] },
            Message { role: Role::Assistant, parts: calls },
            Message::tool_results(vec![
                result("c1", "get_forecast", "sunny", false),
                result("c2", "now", "no clock", true),
            ]),
            Message::user("Go on"),
        ],
        tools: vec![ToolSpec {
            name: "get_forecast".into(),
            description: "Forecast".into(),
            parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
        }],
        ..Request::default()
    }
}

/// Lets a server fail in every way, and checks kind, words and silence about the key. `stream` is a good stream.
pub(crate) async fn failing(kind: &str, stream: Answer) {
    let echo = json!({"error": {"message": format!("Incorrect API key provided: {KEY} (blue-team-header)")}});
    let answers = vec![
        (
            Answer::json(401, &echo),
            LlmErrorKind::Auth,
            "answered 401 Unauthorized (is the key right?): Incorrect API key provided: [redacted] ([redacted])",
        ),
        (
            Answer::json(429, &json!({"error": {"message": "slow down"}})).header("retry-after", "7"),
            LlmErrorKind::RateLimited,
            "answered 429 Too Many Requests: slow down",
        ),
        (
            Answer::bytes(500, "text/html", "<h1>oops</h1>"),
            LlmErrorKind::Status { code: 500 },
            "answered 500 Internal Server Error: <h1>oops</h1>",
        ),
        (
            Answer::bytes(307, "text/plain", "").header("location", "https://elsewhere.example/v1"),
            LlmErrorKind::Status { code: 307 },
            "moved to https://elsewhere.example/v1; set `base_url` to it",
        ),
        (
            Answer::json(400, &json!({"error": "no such option"})),
            LlmErrorKind::BadRequest,
            "answered 400 Bad Request: no such option",
        ),
        (
            Answer::bytes(200, "application/json", "{\"broken\": "),
            LlmErrorKind::Protocol,
            "answered with a body that is not JSON",
        ),
        (Answer::json(200, &json!({"hello": 1})), LlmErrorKind::Protocol, "answered without"),
        (Answer::json(200, &json!([])), LlmErrorKind::Protocol, "answered without"),
        (Answer::reset(), LlmErrorKind::Transport, "broke the connection at http://127.0.0.1"),
        (stream.clone().cut_after(300), LlmErrorKind::Transport, "broke the connection at http://127.0.0.1"),
        (
            Answer::bytes(200, "text/event-stream", "data: {}\n\n"),
            LlmErrorKind::Transport,
            "ended its stream in the middle of the reply",
        ),
        (
            Answer::bytes(200, "text/event-stream", "data: {nonsense\n\n"),
            LlmErrorKind::Protocol,
            "sent an event that is not JSON",
        ),
        (
            Answer::bytes(200, "application/json", vec![b' '; 16 * 1024 * 1024 + 1]),
            LlmErrorKind::TooLarge,
            "sent a reply over 16 MiB",
        ),
        (
            Answer::bytes(200, "text/event-stream", vec![b'x'; 16 * 1024 * 1024 + 1]),
            LlmErrorKind::TooLarge,
            "sent a reply over 16 MiB",
        ),
    ];
    let server = {
        let answers: Vec<Answer> = answers.iter().map(|(answer, ..)| answer.clone()).collect();
        MockLlm::answering(answers).await
    };
    let llm = provider(kind, &server.url());
    let mut request = Request { model: "m".into(), messages: vec![Message::user("Hello")], ..Request::default() };
    request.options.stream = true;
    for (_, expected, words) in &answers {
        let error = llm.call(&request, &NoSink).await.unwrap_err();
        assert_eq!(error.kind, *expected, "{}", error.message);
        assert!(
            error.message.starts_with(&format!("provider `{kind}` ")) && error.message.contains(words),
            "{}",
            error.message
        );
        assert!(!format!("{error:?}").contains(KEY), "{}", error.message);
        let wait = (error.kind == LlmErrorKind::RateLimited).then(|| Duration::from_secs(7));
        assert_eq!(error.retry_after, wait);
    }
    slow(kind, &stream, &mut request).await;
    unreachable_server(kind, &request).await;
}

/// A body that stalls meets the limit on silence, or the limit on the whole call, whichever is shorter.
async fn slow(kind: &str, stream: &Answer, request: &mut Request) {
    let server = MockLlm::answering(vec![stream.clone().stall_after(200)]).await;
    let config = ProviderConfig { read_timeout: Some(Duration::from_millis(50)), ..ProviderConfig::default() };
    let error = provider_with(kind, &server.url(), config).call(request, &NoSink).await.unwrap_err();
    assert_eq!(
        (error.kind, error.message),
        (LlmErrorKind::Timeout, format!("provider `{kind}` sent nothing for 50 ms"))
    );
    request.options.timeout = Some(Duration::from_millis(50));
    let error = provider(kind, &server.url()).call(request, &NoSink).await.unwrap_err();
    assert_eq!(
        (error.kind, error.message),
        (LlmErrorKind::Timeout, format!("provider `{kind}` did not finish its answer within 50 ms"))
    );
    request.options.timeout = None;
}

async fn unreachable_server(kind: &str, request: &Request) {
    let gone = MockLlm::answering(vec![Answer::reset()]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop((gone, listener));
    let error = provider(kind, &format!("http://user:hunter22@{address}/v1")).call(request, &NoSink).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Transport);
    assert!(error.message.contains(&format!("cannot be reached at http://{address}/")), "{}", error.message);
    assert!(error.message.contains("refused") && !error.message.contains("hunter22"), "{}", error.message);
}

/// Plays many answers that are almost right, and wants each to end as a reply or an error. `good` is a whole answer's
/// events or body; every place in it is replaced by a value of another type, once.
pub(crate) async fn survives(kind: &str, good: Vec<Value>, answer: fn(&[Value]) -> Answer) {
    let whole = Value::Array(good);
    let mut mutants = Vec::new();
    let mut places = Vec::new();
    pointers(&whole, String::new(), &mut places);
    for place in &places {
        for strange in [Value::Null, json!(-1), json!(9e99), json!("x"), json!([[]]), json!({"type": {}})] {
            let mut mutant = whole.clone();
            if let Some(target) = mutant.pointer_mut(place) {
                *target = strange;
            }
            mutants.push(mutant);
        }
    }
    let answers = mutants.iter().filter_map(Value::as_array).map(|events| answer(events)).collect::<Vec<_>>();
    let calls = answers.len();
    assert!(calls > 100);
    let server = MockLlm::answering(answers).await;
    let llm = provider(kind, &server.url());
    let mut request = Request { model: "m".into(), messages: vec![Message::user("Hello")], ..Request::default() };
    request.options.stream = true;
    for _ in 0..calls {
        if let Err(error) = llm.call(&request, &NoSink).await {
            assert!(error.message.starts_with("provider `"), "{}", error.message);
        }
    }
    assert_eq!(server.received().len(), calls);
}

fn pointers(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, inner)| pointers(inner, format!("{at}/{key}"), places)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, inner)| pointers(inner, format!("{at}/{index}"), places))
        }
        _ => {}
    }
    if !at.is_empty() {
        places.push(at);
    }
}
