//! What a supervisor is told passes guardrails; first test files answer for people.

use serde_json::json;

use crate::support::project::Project;

/// A supervisor over an action that gives a number of a card.
fn desk(guardrail: &str) -> Project {
    Project::new()
        .file("agent-run.yaml", "models: {default: demo/any}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n")
        .file(
            "script.yaml",
            "replies:\n  - when: {action: supervisor}\n    turns:\n      - call: [{tool: look, with: {}}]\n      - call: [{tool: end, with: {}}]\n",
        )
        .file(
            "workflows/desk.yaml",
            format!(
                "agent: desk\nplanner: supervisor\ninputs: UserInput\ntypes: {{Card: {{number: string}}, Done: string}}\n\
                 guardrails:\n  cards: {guardrail}\nactions:\n  \
                 look: {{inputs: UserInput, output: Card, set: {{number: '1234123412341234'}}}}\n  \
                 end: {{inputs: Card, output: Done, set: '{{{{ card.number }}}}', achieves: It is done}}\n"
            ),
        )
}

#[test]
fn what_actions_give_a_supervisor_is_redacted_and_the_blackboard_keeps_it() {
    let project = desk("{check: tool_result, pattern: '\\d{16}', action: redact}");
    let ran = project.run(&["run", "desk", "-p", "--no-store", "hello"]).exits(0);
    assert_eq!(ran.stdout.trim(), "1234123412341234", "{ran}");
    let prompt = ran.stderr.split("── prompt of supervisor, call ").last().unwrap_or_default();
    assert!(prompt.contains("[redacted]") && !ran.stderr.contains("1234123412341234"), "{ran}");
}

#[test]
fn what_actions_give_a_supervisor_is_blocked_or_waits_for_a_persons_word() {
    let blocked =
        desk("{check: tool_result, pattern: '\\d{16}'}").run(&["run", "desk", "--json", "hello"]).exits(1).json();
    assert_eq!(
        (&blocked["failure"]["kind"], &blocked["failure"]["action"]),
        (&json!("guardrail"), &json!("supervisor"))
    );
    let project = desk("{check: tool_result, expr: \"'1234' not in text and value is mapping\", action: ask}");
    let waits = project.run(&["run", "desk", "--json", "hello"]).exits(3).json();
    let prompt = waits["waiting"]["prompt"].as_str().unwrap_or_default();
    assert!(prompt.contains("objects to the result of `look`"), "{prompt}");
    let id = waits["process"].as_str().unwrap_or_default();
    let ended = project.run(&["resume", id, "--form", "{\"confirm\": true}", "--json"]).exits(0).json();
    assert_eq!(ended["output"]["value"], "1234123412341234");
    let ran: Vec<_> = ended["history"].as_array().into_iter().flatten().map(|entry| entry["action"].clone()).collect();
    assert_eq!(ran, ["look", "end"]);
}

#[test]
fn a_first_test_file_of_an_agent_that_asks_people_passes_at_once() {
    let workflow = "agent: survey\ninputs: UserInput\ntypes:\n  Draft: {text: string}\n  Wish: {sum: {type: integer, minimum: 5}, reason?: string}\n  \
        Reply: {text: string}\n  Note: string\nactions:\n  \
        draft: {inputs: UserInput, output: Draft, prompt: '{{ user_input.content }}'}\n  \
        wish: {inputs: Draft, output: Wish, ask: How much?}\n  \
        agree: {inputs: Draft, output: Draft?, can_rerun: true, ask: {prompt: 'Send this?', confirm: true}, post: agreed}\n  \
        note: {inputs: [Draft, Wish], pre: agreed, output: Note, ask: What is to be noted?}\n  \
        send: {inputs: [Draft, Wish, Note], output: Reply, set: {text: '{{ draft.text }}{{ wish.sum }}{{ note }}'}, achieves: It was sent}\n\
        conditions: {agreed: false}\n";
    let project = Project::new().file("agent-run.yaml", "project: {name: t}\n").file("workflows/survey.yaml", workflow);
    project.run(&["test", "--init", "workflows/survey.yaml"]).exits(0);
    let text = project.read("tests/survey.yaml");
    for part in ["answers:", "agree: true", "sum: 5"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let tested = project.run(&["test", "--update"]).exits(0);
    assert!(tested.stdout.contains("1 passed"), "{tested}\n{text}");
}
