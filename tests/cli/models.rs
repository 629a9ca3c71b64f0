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
