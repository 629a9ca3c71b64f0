//! `run --record`, `--replay`, and `render` of what a test comes to.

use serde_json::json;

use super::{ASK, project};
use crate::support::mock_llm::{Answer, MockLlm};
use crate::support::project::Project;

#[test]
fn a_recording_plays_again_without_the_model_and_differs_with_the_nearest() {
    let project = project();
    let live = project.run(&["run", "workflows/ask.yaml", "--json", "--record", "made.yaml", "What?"]).exits(0);
    project.write("script.yaml", "replies: []\n");
    let again = project.run(&["run", "workflows/ask.yaml", "--json", "--replay", "made.yaml", "What?"]).exits(0);
    assert_eq!(live.json()["output"], again.json()["output"]);
    assert_eq!(again.json()["process"], "P1");
    assert_eq!(again.json()["history"][0]["started_at"], "2025-01-01T00:00:00Z");
    assert_eq!(again.json()["usage"], live.json()["usage"]);
    let other = project.run(&["run", "workflows/ask.yaml", "--json", "--replay", "made.yaml", "Why?"]).exits(1);
    let message = other.json()["failure"]["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("nearest is request 1 of the recording, `answer` in turn 1"), "{message}");
    assert!(message.contains("- Answer this: What?") && message.contains("+ Answer this: Why?"), "{message}");
    project.run(&["run", "workflows/ask.yaml", "--record", "no/such/dir.yaml", "x"]).exits(2);
}

#[test]
fn a_recording_of_a_real_wire_holds_no_key_and_no_header() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server =
        runtime.block_on(MockLlm::start(|_| Answer::openai_text("{\"text\": \"Forty-two, sk-echo-1234567\"}")));
    let project = Project::new()
        .file(
            "agent-run.yaml",
            format!(
                "models: {{default: shop/gpt}}\nproviders:\n  shop: {{kind: openai, base_url: '{}', api_key: '${{env:SHOP_KEY}}', headers: {{X-Team: '${{env:TEAM}}'}}}}\n",
                server.url()
            ),
        )
        .file("workflows/ask.yaml", ASK)
        .env("SHOP_KEY", "sk-echo-1234567")
        .env("TEAM", "team-rocket-9");
    project
        .run(&["run", "workflows/ask.yaml", "--json", "--record", "made.yaml", "My key is sk-echo-1234567"])
        .exits(0);
    let recording = project.read("made.yaml");
    for secret in ["sk-echo-1234567", "team-rocket-9", "X-Team", "Authorization", "Bearer"] {
        assert!(!recording.to_lowercase().contains(&secret.to_lowercase()), "{secret}: {recording}");
    }
    assert!(recording.contains("My key is ***") && recording.contains("Forty-two, ***"), "{recording}");
}

#[test]
fn a_script_with_a_mistake_is_told_with_its_place() {
    let project = project().file("bad.yaml", "replies:\n  - when: {action: answer}\n    reply: x\n    raw: y\n");
    let output = project.run(&["run", "workflows/ask.yaml", "--script", "bad.yaml", "x"]).exits(2);
    assert!(output.stderr.contains("bad.yaml:2:5") && output.stderr.contains("expected exactly one of"), "{output}");
}

#[test]
fn a_request_is_rendered_as_a_test_comes_to_it_and_in_every_wire() {
    let project = project().file(
        "tests/ask.yaml",
        "workflow: ../workflows/ask.yaml\ncases:\n  a: {input: From a test, replies: sampled}\n",
    );
    let document = project
        .run(&["render", "workflows/ask.yaml", "answer", "--case", "tests/ask.yaml::a", "--json"])
        .exits(0)
        .json();
    assert_eq!(document["messages"][0]["content"], "Answer this: From a test");
    assert_eq!(document["messages"][0]["tokens_estimate"], 6);
    let wire = |kind: &str| {
        project
            .run(&["render", "workflows/ask.yaml", "answer", "--case", "tests/ask.yaml::a", "--wire", kind])
            .exits(0)
            .json()
    };
    assert_eq!(wire("openai")["messages"][0], json!({"role": "user", "content": "Answer this: From a test"}));
    assert_eq!(wire("openai")["response_format"]["type"], "json_schema");
    assert_eq!(wire("anthropic")["messages"][0]["role"], "user");
    let wrong = |args: &[&str], words: &str| {
        let output = project.run(args).exits(2);
        assert!(output.stderr.contains(words), "{output}");
    };
    wrong(&["render", "workflows/ask.yaml", "answer", "--sample", "--wire", "opnai"], "did you mean `openai`");
    wrong(&["render", "workflows/ask.yaml", "answer", "--case", "tests/ask.yaml::b"], "there is no case `b`");
    wrong(
        &["render", "workflows/ask.yaml", "anser", "--case", "tests/ask.yaml::a"],
        "does not come to a call of `anser`",
    );
}

#[test]
fn a_first_test_is_written_and_passes_once_its_prompts_are_accepted() {
    let project = project();
    project.run(&["test", "--init", "workflows/ask.yaml"]).exits(0);
    project.run(&["test", "--update"]).exits(0);
    project.run(&["test", "--ci"]).exits(0);
    project.run(&["test", "--init", "workflows/ask.yaml"]).exits(2);
}

#[test]
fn a_report_in_junit_names_files_cases_and_failures() {
    let project = project().file(
        "tests/ask.yaml",
        "workflow: ../workflows/ask.yaml\ncases:\n  good: {input: x, replies: sampled}\n  bad: {input: x}\n  off: {input: x, skip: later <soon>}\n",
    );
    project.run(&["test", "--junit", "report.xml"]).exits(1);
    let xml = project.read("report.xml");
    for part in [
        "tests=\"3\" skipped=\"1\" failures=\"1\"",
        "<testcase name=\"good\" classname=\"tests/ask.yaml\"",
        "there is no reply: add `answer:",
        "later &lt;soon&gt;",
    ] {
        assert!(xml.contains(part), "no {part}: {xml}");
    }
}

#[test]
fn coverage_names_the_actions_and_goals_that_no_case_reaches() {
    let workflow = ASK.to_owned()
        + "  other:\n    description: Never\n    inputs: Answer\n    output: {type: Answer, name: second}\n    can_rerun: true\n    prompt: Again\n";
    let project = project()
        .file("workflows/ask.yaml", workflow)
        .file("tests/ask.yaml", "workflow: ../workflows/ask.yaml\ncases:\n  a: {input: x, replies: sampled}\n");
    let document = project.run(&["test", "--json", "--coverage"]).exits(0).json();
    let covered = &document["coverage"]["workflows"][0];
    let expected = json!({"workflow": "workflows/ask.yaml", "actions": 2, "actions_missed": ["other"], "goals": 1, "goals_missed": []});
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&covered[key], value, "{key}");
    }
    let output = project.run(&["test", "--coverage"]).exits(0);
    assert!(output.stdout.contains("workflows/ask.yaml: 1 of 2 actions (not other), 1 of 1 goals"), "{output}");
}

#[test]
fn tools_are_stubbed_in_a_case() {
    let project = Project::new()
        .file(
            "workflows/desk.yaml",
            "agent: desk\ninputs: UserInput\ntypes:\n  Note: {text: string}\n\
             tools:\n  send:\n    description: Send a note\n    parameters: {text: string}\n    set: \"{{ text }}\"\n\
             actions:\n  note:\n    inputs: UserInput\n    output: Note\n    call: {tool: send, with: {text: '{{ user_input.content }}'}}\n    achieves: It is sent\n",
        )
        .file(
            "tests/desk.yaml",
            "workflow: ../workflows/desk.yaml\ncases:\n  stubbed: {input: hi, tools: {send: {text: sent}}, expect: {output: {value: {text: sent}}, tool_calls: {send: 1}}}\n  \
             failing: {input: hi, tools: {send: {error: the line is dead}}, expect: {failure: {kind: tool, message: the line is dead}}}\n  \
             bare: {input: hi}\n  \
             unused: {input: hi, tools: {send: {turns: [{text: a}, {text: b}]}}}\n",
        );
    let document = project.run(&["test", "--json"]).exits(1).json();
    let of = |name: &str| {
        document["cases"].as_array().expect("cases").iter().find(|case| case["name"] == name).expect("the case").clone()
    };
    for name in ["stubbed", "failing"] {
        assert_eq!(of(name)["status"], "passed", "{document:#}");
    }
    let message = of("unused")["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("the stub of the tool `send`, or a turn of it, was never used"), "{message}");
    let message = of("bare")["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("the tool `send` was called and has no stub: add `tools: {send: …}`"), "{message}");
}
