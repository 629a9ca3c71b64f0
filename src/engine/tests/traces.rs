//! What a run is as spans: their names, what they stand in, their attributes; what is said only when it is wanted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::{Case, output};
use crate::engine::Engine;
use crate::process::trace::{CAPTURE, TARGET};

/// A span that was heard of.
#[derive(Clone, Debug, Default)]
struct Heard {
    id: u64,
    parent: Option<u64>,
    fields: BTreeMap<String, String>,
}

impl Visit for Heard {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Heard {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// What is heard on one thread.
#[derive(Clone, Default)]
struct Listener {
    spans: Arc<Mutex<Vec<Heard>>>,
    inside: Arc<Mutex<Vec<u64>>>,
    last: Arc<AtomicU64>,
}

thread_local! {
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

fn with<T>(does: impl FnOnce(&Listener) -> T) -> Option<T> {
    LISTENER.with_borrow(|listener| listener.as_ref().map(does))
}

/// Hears every thread of the tests, and keeps what those with a listener say. A subscriber of one thread would miss the
/// spans that another thread is the first to come to: whether a place is of interest is asked there, once.
struct Everywhere;

impl Subscriber for Everywhere {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == TARGET { Interest::sometimes() } else { Interest::never() }
    }
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET && with(|_| ()).is_some()
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = with(|listener| {
            let id = listener.last.fetch_add(1, Ordering::Relaxed) + 1;
            let mut heard = Heard { id, parent: listener.inside.lock().unwrap().last().copied(), ..Heard::default() };
            attributes.record(&mut heard);
            heard.fields.entry("otel.name".to_owned()).or_insert_with(|| attributes.metadata().name().to_owned());
            listener.spans.lock().unwrap().push(heard);
            id
        });
        Id::from_u64(id.expect("a span of a thread that listens"))
    }
    fn record(&self, span: &Id, values: &Record<'_>) {
        with(|listener| {
            let mut spans = listener.spans.lock().unwrap();
            values.record(spans.iter_mut().find(|heard| heard.id == span.into_u64()).expect("a known span"));
        });
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, span: &Id) {
        with(|listener| listener.inside.lock().unwrap().push(span.into_u64()));
    }
    fn exit(&self, span: &Id) {
        with(|listener| {
            let mut inside = listener.inside.lock().unwrap();
            if let Some(at) = inside.iter().rposition(|id| *id == span.into_u64()) {
                inside.remove(at);
            }
        });
    }
}

/// Listens on this thread from now on.
fn listen() -> Listener {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Everywhere).expect("the only subscriber of the tests"));
    tracing::callsite::rebuild_interest_cache();
    let listener = Listener::default();
    LISTENER.set(Some(listener.clone()));
    listener
}

impl Listener {
    fn spans(&self) -> Vec<Heard> {
        self.spans.lock().unwrap().clone()
    }

    /// The name of a span's parent.
    fn parent(&self, heard: &Heard) -> String {
        let spans = self.spans();
        let parent = heard.parent.and_then(|id| spans.iter().find(|other| other.id == id).cloned());
        parent.map(|parent| parent.field("otel.name").to_owned()).unwrap_or_default()
    }
}

const WORKFLOW: &str = "agent: weather
description: Tells the weather
types: {Report: {text: string}}
inputs: UserInput
tools:
  look: {description: Looks outside, parameters: {city: string}, set: {sky: 'grey over {{ city }}'}}
actions:
  tell: {inputs: UserInput, output: Report, tools: look, llm: {temperature: 0.5, stop: [END]}, prompt: 'Weather for {{ user_input.content }}'}
goals: {told: {output: Report}}
";

fn case() -> Case {
    Case::new(WORKFLOW).script(json!([{"when": {"action": "tell"}, "turns": [
        {"call": [{"tool": "look", "with": {"city": "Oslo"}}]},
        {"reply": {"text": "Grey"}, "usage": {"input_tokens": 30, "output_tokens": 7}},
    ]}]))
}

#[tokio::test]
async fn a_run_is_spans_in_spans_and_nothing_that_was_said_is_in_them() {
    let listener = listen();
    let document = case().run().await;
    assert_eq!(output(&document), json!({"text": "Grey"}));
    let spans = listener.spans();
    let shown: Vec<String> =
        spans.iter().map(|span| format!("{} < {}", span.field("otel.name"), listener.parent(span))).collect();
    let expected = [
        "invoke_agent weather < ",
        "plan < invoke_agent weather",
        "action tell < invoke_agent weather",
        "chat gpt-4.1-mini < action tell",
        "execute_tool look < action tell",
        "chat gpt-4.1-mini < action tell",
    ];
    assert_eq!(shown[..6], expected, "{shown:#?}");
    let chat = &spans[5];
    for (field, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-4.1-mini"),
        ("gen_ai.request.temperature", "0.5"),
        ("gen_ai.output.type", "json"),
        ("gen_ai.usage.input_tokens", "30"),
        ("gen_ai.usage.output_tokens", "7"),
        ("otel.kind", "client"),
        ("agent_run.turn", "2"),
    ] {
        assert_eq!(chat.field(field), value, "{field}: {chat:#?}");
    }
    assert_eq!(spans[0].field("agent_run.status"), "completed");
    assert_eq!(spans[0].field("agent_run.goal"), "told");
    assert_eq!(spans[1].field("agent_run.plan.steps"), "tell");
    assert_eq!(spans[4].field("gen_ai.tool.name"), "look");
    let all = format!("{spans:?}");
    for said in ["hello", "Oslo", "grey over"] {
        assert!(!all.contains(said), "`{said}` was said: {spans:#?}");
    }
}

#[tokio::test]
async fn what_is_said_is_in_spans_when_it_is_wanted() {
    let listener = listen();
    let case = case();
    let mut world = case.world();
    world.set_env(CAPTURE, "SPAN_ONLY");
    let program = case.program();
    let name = program.agents[0].name.clone();
    let engine = Engine::new(program, Arc::new(world));
    engine.start(&name, case.inputs, case.options).expect("it starts").run().await;
    let spans = listener.spans();
    let messages: serde_json::Value =
        serde_json::from_str(spans[5].field("gen_ai.input.messages")).expect("messages as JSON");
    assert_eq!(messages[0], json!({"role": "user", "parts": [{"type": "text", "content": "Weather for hello"}]}));
    assert_eq!(messages[1]["parts"][0]["type"], "tool_call");
    assert_eq!(
        (&messages[2]["role"], &messages[2]["parts"][0]["type"]),
        (&json!("tool"), &json!("tool_call_response"))
    );
    assert!(spans[5].field("gen_ai.output.messages").contains("Grey"));
    assert!(spans[4].field("gen_ai.tool.call.arguments").contains("Oslo"));
}

#[tokio::test]
async fn a_failure_is_told_by_its_kind() {
    let listener = listen();
    let case = Case::new(WORKFLOW).script(json!([{"when": {"action": "tell"}, "refuse": "I will not say that"}]));
    case.run().await;
    let spans = listener.spans();
    let failed: Vec<(&str, &str)> = spans
        .iter()
        .filter(|span| span.field("otel.status_code") == "ERROR")
        .map(|span| (span.field("otel.name"), span.field("error.type")))
        .collect();
    assert_eq!(failed, [("invoke_agent weather", "refusal"), ("action tell", "refusal")], "{spans:#?}");
    assert!(!format!("{spans:?}").contains("I will not"), "{spans:#?}");
}
