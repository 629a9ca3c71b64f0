//! The promise of the README: a key or a base URL is all that a shipped workflow needs to ask a real model.

use serde_json::json;

use crate::support::mock_llm::{Answer, MockLlm};
use crate::support::project::Project;

/// What the model says, in the order in which star-news asks.
fn answers(number: usize) -> String {
    match number {
        0 => json!({"name": "Lynda", "sign": "scorpio"}),
        1 => json!({"items": [{"title": "T", "url": "https://example.com/t", "summary": "S"}]}),
        _ => json!({"title": "Digest", "text": "All is well."}),
    }
    .to_string()
}

/// Runs star-news against a server that plays a provider, with this model, key and base URL.
fn run(model: &str, key: &str, base_url: &str, path: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(MockLlm::start(|received| Answer::text_for(received, &answers(received.number))));
    let project = Project::of_the_repository().env(key, "sk-test").env(base_url, &format!("{}{path}", server.url()));
    let choice = format!("default={model}");
    let output = project.run(&["run", "workflows/star-news.yaml", "--json", "--llm", &choice, "Lynda"]).exits(0);
    let document = output.json();
    assert_eq!(document["output"]["value"]["title"], "Digest");
    assert_eq!(document["history"][0]["llm"][0]["model"], model);
    let received = server.received();
    assert_eq!(received.len(), 3);
    assert!(received[0].text.contains("Extract the person's name"), "{}", received[0].text);
    assert!(!format!("{output}").contains("sk-test"), "{output}");
}

#[test]
fn openai_and_what_speaks_like_it() {
    run("openai/gpt-4.1-mini", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1");
}

#[test]
fn anthropic() {
    run("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "");
}

#[test]
fn a_key_that_is_missing_is_named() {
    let output = Project::of_the_repository().run(&[
        "run",
        "workflows/star-news.yaml",
        "--llm",
        "default=openai/gpt-4.1-mini",
        "Lynda",
    ]);
    assert!(output.code() != Some(0) && output.stderr.contains("OPENAI_API_KEY"), "{output}");
}

const CACHED: &str = "agent: answerer
actions:
  answer:
    inputs: UserInput
    output: AssistantMessage
    llm: {cache: true}
    prompt: '{{ user_input.content }}'
    achieves: Answered
";

#[test]
fn a_reply_is_kept_from_one_run_to_the_next_and_not_without_a_store() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(MockLlm::start(|received| Answer::text_for(received, r#"{"content": "Hello"}"#)));
    let project = Project::new()
        .file("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}")
        .file("workflows/answerer.yaml", CACHED)
        .env("OPENAI_API_KEY", "sk-test")
        .env("OPENAI_BASE_URL", &format!("{}/v1", server.url()));
    let ask = |more: &[&str]| {
        let words = ["run", "answerer", "Hi", "--json", "--events", "events.jsonl"];
        let document = project.run(&[&words, more].concat()).exits(0).json();
        assert_eq!(document["output"]["value"]["content"], "Hello");
        let events = project.read("events.jsonl");
        let events = events.lines().map(|line| serde_json::from_str(line).expect("an event"));
        let replies: Vec<serde_json::Value> =
            events.filter(|event: &serde_json::Value| event["event"] == "llm_reply").collect();
        assert_eq!(replies.len(), 1);
        (document["usage"]["input_tokens"].as_u64(), replies[0]["from_cache"] == true, replies[0]["cost_usd"] == 0.0)
    };
    assert_eq!(ask(&[]), (Some(10), false, false));
    assert_eq!(ask(&[]), (Some(0), true, true));
    assert_eq!(server.received().len(), 1);
    assert_eq!(ask(&["--no-store"]), (Some(10), false, false));
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_model_of_vectors_is_listed_and_pinged() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let answer = json!({"data": [{"index": 0, "embedding": [0.25, 0.5, 1.0]}], "usage": {"prompt_tokens": 1}});
    let server = runtime.block_on(MockLlm::start(move |_| Answer::json(200, &answer)));
    let project = Project::new()
        .file("agent-run.yaml", "models: {embedding: openai/text-embedding-3-small}")
        .file(
            "workflows/still.yaml",
            "agent: still\ntypes: {A: string}\nactions: {a: {inputs: UserInput, output: A, set: x, achieves: A}}\n",
        )
        .env("OPENAI_API_KEY", "sk-test")
        .env("OPENAI_BASE_URL", &format!("{}/v1", server.url()));
    let document = project.run(&["models", "--ping", "--json"]).exits(0).json();
    let entry = &document["models"][0];
    assert_eq!((&entry["model"], &entry["embedding"]), (&json!("openai/text-embedding-3-small"), &json!(true)));
    assert_eq!((&entry["answers"], &entry["dimensions"]), (&json!(true), &json!(3)), "{document:#}");
    assert!(server.received()[0].path.ends_with("/embeddings"));
    let output = project.run(&["models", "--ping"]).exits(0);
    assert!(output.stdout.contains("3 numbers"), "{output}");
}

const MANY: &str = r#"
agent: many
inputs: UserInput
types: {A: string, B: string, C: string}
conditions: {good: {inputs: B, prompt: "Is it good? {{ b }}", llm: near/judge}}
actions:
  still: {inputs: UserInput, output: A, set: x, llm: near/unasked}
  each: {inputs: A, output: B, scatter_gather: {over: "[1, 2]", as: n, do: {prompt: Go, llm: near/inner}, gather: {set: "{{ results | first }}"}}}
  last: {inputs: B, output: C, pre: good, prompt: Go, llm: cheap}
goals: {done: {output: C}}
"#;

#[test]
fn every_model_that_is_asked_is_listed_with_its_role_and_what_auto_means_here() {
    let project = |catalog: &str| {
        let config = format!(
            "providers: {{near: {{kind: openai, base_url: 'http://127.0.0.1:9'}}}}\n\
             models: {{default: near/plain, roles: {{cheap: {{auto: cheapest, fallback: [near/other]}}}}, catalog: {{{catalog}}}}}\n"
        );
        Project::new().file("agent-run.yaml", config).file("workflows/many.yaml", MANY)
    };
    let price = |price: &str| format!("{{input_usd_per_mtok: {price}, output_usd_per_mtok: {price}}}");
    let priced = project(&format!("near/dear: {}, near/tiny: {}", price("9"), price("0.1")));
    let text = priced.run(&["models"]).exits(0).stdout;
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for model in ["near/judge", "near/inner", "near/tiny", "near/other"] {
        assert!(names.contains(&model), "{model}: {text}");
    }
    assert!(!names.contains(&"near/unasked") && !names.contains(&"near/dear"), "{text}");
    assert!(
        text.contains("near/tiny  cheap, auto: cheapest; $0.1 in, $0.1 out per million tokens; used by many"),
        "{text}"
    );
    let listed = priced.run(&["models", "--json"]).exits(0).json();
    let tiny = listed["models"].as_array().into_iter().flatten().find(|entry| entry["model"] == "near/tiny");
    assert_eq!(tiny.map(|entry| entry["auto"].clone()), Some(json!(["cheapest"])), "{listed:#}");
    let none = project("").run(&["models"]).exits(0).stdout;
    assert!(none.contains("auto: cheapest  no model with a known price among the providers that have a key"), "{none}");
}
