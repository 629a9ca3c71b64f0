//! Which model is asked, what is asked only once, and lists that stream.

use serde_json::{Value, json};

use super::{Case, failure, output};
use crate::engine::Engine;
use crate::llm::test_support::{Answer, MockLlm};
use crate::process::What;
use crate::world::MemoryWorld;

/// An agent that asks one question, by the `llm` that is given, with the providers `a` and `b` at these addresses.
fn case(llm: &str, a: &str, b: &str) -> Case {
    let workflow = format!(
        "agent: ask
types: {{Answer: {{text: string}}}}
inputs: UserInput
actions: {{ask: {{inputs: UserInput, output: Answer, llm: {llm}, prompt: 'Say {{{{ user_input.content }}}}'}}}}
goals: {{done: {{output: Answer}}}}
"
    );
    let catalog = "{a/dear: {input_usd_per_mtok: 9, output_usd_per_mtok: 9, supports: [tools]}, \
                   b/cheap: {input_usd_per_mtok: 1, output_usd_per_mtok: 1, supports: []}, \
                   c/free: {input_usd_per_mtok: 0, output_usd_per_mtok: 0, supports: [tools, images]}}";
    let project = format!(
        "models: {{catalog: {catalog}}}
providers:
  a: {{kind: openai, base_url: '{a}'}}
  b: {{kind: openai, base_url: '{b}'}}
  c: {{kind: openai, base_url: 'http://127.0.0.1:9', api_key: '${{env:NO_SUCH_KEY}}'}}
"
    );
    Case::new(&workflow).file("agent-run.yaml", &project)
}

fn text(text: &str) -> Answer {
    Answer::openai_text(&json!({ "text": text }).to_string())
}

#[tokio::test]
async fn auto_takes_the_cheapest_or_the_best_that_can_and_may_be_asked() {
    let (a, b) = (MockLlm::answering(vec![text("a")]).await, MockLlm::answering(vec![text("b")]).await);
    for (auto, model) in [("cheapest", "b/cheap"), ("fastest", "b/cheap"), ("best", "a/dear")] {
        let document = case(&format!("{{auto: {auto}}}"), &a.url(), &b.url()).run().await;
        assert_eq!(document.history[0].llm[0].model, model, "{auto}");
    }
    let document = case("{auto: best, thinking: high}", &a.url(), &b.url()).run().await;
    let (kind, message) = failure(&document);
    assert!(kind == "llm" && message.contains("no model that has thinking"), "{message}");
}

#[tokio::test]
async fn a_model_that_failed_is_passed_over_while_it_cools_down() {
    let a = MockLlm::answering(vec![Answer::json(503, &json!({"error": {"message": "down"}}))]).await;
    let b = MockLlm::answering(vec![text("b")]).await;
    let (engine, name) = case("{model: a/dear, retries: 0, fallback: [b/cheap]}", &a.url(), &b.url()).engine();
    for _ in 0..3 {
        let options = crate::engine::RunOptions { no_date_line: true, ..Default::default() };
        let mut process = engine.start(&name, vec![crate::engine::Input::Text("hi".into())], options).unwrap();
        process.run().await;
        assert_eq!(output(&process.document()), json!({"text": "b"}));
    }
    assert_eq!((a.received().len(), b.received().len()), (1, 3));
}

#[tokio::test]
async fn a_reply_that_may_be_cached_is_paid_once() {
    let a = MockLlm::answering(vec![text("a")]).await;
    let (engine, name) = case("{model: a/dear, cache: true}", &a.url(), &a.url()).engine();
    let mut costs = Vec::new();
    for _ in 0..2 {
        let options = crate::engine::RunOptions { no_date_line: true, ..Default::default() };
        let mut process = engine.start(&name, vec![crate::engine::Input::Text("hi".into())], options).unwrap();
        process.run().await;
        assert_eq!(output(&process.document()), json!({"text": "a"}));
        costs.push(process.document().usage.cost_usd > 0.0);
    }
    assert_eq!((a.received().len(), costs), (1, vec![true, false]));
}

#[tokio::test]
async fn a_variable_that_is_not_set_is_refused_when_its_provider_is_used() {
    let document = case("c/free", "http://127.0.0.1:9", "http://127.0.0.1:9").run().await;
    let (kind, message) = failure(&document);
    assert!(kind == "llm" && message.contains("NO_SUCH_KEY") && message.contains("agent-run.yaml:5:"), "{message}");
}

#[tokio::test]
async fn elements_of_a_list_are_events_when_they_are_complete() {
    let workflow = "agent: list
types: {Star: {name: {type: string, minLength: 2}}}
inputs: UserInput
actions: {list: {inputs: UserInput, output: list<Star>, prompt: 'List {{ user_input.content }}'}}
goals: {done: {output: Star}}
";
    let (_, events) = Case::new(workflow)
        .script(json!([{"reply": [{"name": "Vega"}, {"name": "Deneb"}]}]))
        .options(|options| options.stream = true)
        .observed()
        .await;
    let elements: Vec<(usize, &Value)> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::LlmElement { index, value, .. } => Some((*index, value)),
            _ => None,
        })
        .collect();
    assert_eq!(elements, [(0, &json!({"name": "Vega"})), (1, &json!({"name": "Deneb"}))]);
    let place = |what: fn(&What) -> bool| events.iter().position(|event| what(&event.what));
    let reply = place(|what| matches!(what, What::LlmReply { .. }));
    assert!(place(|what| matches!(what, What::LlmElement { .. })) < reply);
}

#[test]
fn settings_that_are_not_written_come_from_the_environment_of_the_kind() {
    let project =
        "providers: {work: {kind: openai, concurrency: 2}, local: {kind: openai, base_url: 'http://127.0.0.1:9'}}\n";
    let mut world = MemoryWorld::with_files([
        ("agent-run.yaml", project),
        (
            "workflows/test.yaml",
            "agent: x\nactions: {a: {output: A, set: {a: 1}}}\ntypes: {A: {a: integer}}\ngoals: {g: {output: A}}\n",
        ),
    ]);
    world.set_env("OPENAI_API_KEY", "sk-of-the-environment");
    let program = crate::compile::compile(&world, crate::compile::Entry::Project).program.expect("it compiles");
    let key = |name: &str| program.providers[name].api_key.as_ref().map(|key| key.expose().to_owned());
    assert_eq!(key("work").as_deref(), Some("sk-of-the-environment"));
    assert_eq!(key("local"), None, "a key is sent only where it belongs");
    let _ = Engine::new(program, std::sync::Arc::new(world));
}
