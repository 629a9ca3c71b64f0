//! `--replay` and `--script` of the verbs other than `run`, and of a process that goes on in another program.

use super::project;
use crate::support::project::{Output, Project};

/// Two calls of a model, a person between them.
const LETTER: &str = "\
agent: letters
description: Writes a letter
inputs: UserInput
types:
  Draft: {text: string}
  Checked: {text: string}
  Letter: {text: string}
actions:
  draft: {inputs: UserInput, output: Draft, prompt: 'Draft: {{ user_input.content }}'}
  check: {inputs: Draft, output: Checked, ask: 'What of {{ draft.text }}?'}
  write: {inputs: [Draft, Checked], output: Letter, prompt: 'Write {{ draft.text }}, {{ checked.text }}', achieves: It is written}
";

/// A script whose one rule answers both.
const TURNS: &str = "replies:\n  - turns: [{error: 429}, {reply: {text: first}}, {reply: {text: second}}]\n";

const FORM: [&str; 4] = ["resume", "@last", "--form", r#"{"text": "good"}"#];

fn letters() -> Project {
    project().file("workflows/letter.yaml", LETTER).file("turns.yaml", TURNS)
}

/// A command with `more` behind it.
fn with<'a>(args: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [args, more].concat()
}

fn text(output: &Output) -> String {
    output.json()["output"]["value"]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_resumed_process_goes_on_at_the_turn_where_its_script_was_left() {
    let project = letters();
    let run = ["run", "workflows/letter.yaml", "Hello", "--script", "turns.yaml"];
    project.run(&run).exits(3);
    let done = project.run(&with(&FORM, &["--script", "turns.yaml", "--json"])).exits(0);
    assert_eq!(text(&done), "second");
    // The script of a provider goes on in the same way.
    project.write("script.yaml", TURNS);
    project.run(&["run", "workflows/letter.yaml", "Hello"]).exits(3);
    assert_eq!(text(&project.run(&with(&FORM, &["--json"])).exits(0)), "second");
    // A process of its own begins at the first turn.
    project.run(&run).exits(3);
    assert_eq!(text(&project.run(&with(&FORM, &["--script", "turns.yaml", "--json"])).exits(0)), "second");
}

#[test]
fn a_recording_is_replayed_by_resume_and_the_nearest_request_is_shown() {
    let project = letters();
    let answers = "replies:\n  - when: {action: draft}\n    reply: {text: first}\n  - when: {action: write}\n    reply: {text: second}\n";
    project.write("script.yaml", answers);
    // A tool's confirmation could be agreed to with `--yes`; a form cannot, so the recording is made in two parts.
    project.run(&["run", "workflows/letter.yaml", "Hello", "--record", "one.yaml"]).exits(3);
    let replay = ["--replay", "one.yaml", "--json"];
    let missing = project.run(&with(&FORM, &replay)).exits(1).json();
    let message = missing["failure"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("no recorded request is the call of `write`"), "{message}");
    assert!(message.contains("nearest is request 1 of the recording, `draft` in turn 1"), "{message}");
    assert!(message.contains("- Draft: Hello") && message.contains("+ Write first, good"), "{message}");
    // The recording is a script: what is missing is written into it by hand.
    let recorded = project.read("one.yaml");
    project.write("one.yaml", format!("{recorded}- when: {{action: write}}\n  reply: {{text: by hand}}\n"));
    project.run(&["run", "workflows/letter.yaml", "Hello", "--replay", "one.yaml"]).exits(3);
    assert_eq!(text(&project.run(&with(&FORM, &replay)).exits(0)), "by hand");
}

#[test]
fn plan_chooses_an_agent_by_a_replay_with_a_fixed_clock() {
    let project = project();
    let ranking = "replies:\n  - when: {action: ranking}\n    hash: '0000000000000000'\n    request: |\n      Ranked: nothing like it\n    reply: {}\n";
    project.write("ranking.yaml", ranking);
    let output = project.run(&["plan", "Please ask a model", "--replay", "ranking.yaml"]);
    assert!(output.stderr.contains("nearest is request 1 of the recording"), "{output}");
    // A plan for a file asks no model, so any recording will do.
    let plan = project.run(&["plan", "workflows/ask.yaml", "--replay", "ranking.yaml", "--json"]).exits(0).json();
    assert_eq!(plan["steps"][0]["action"], "answer");
    let bad = project.run(&["plan", "workflows/ask.yaml", "--replay", "nowhere.yaml"]).exits(2);
    assert!(bad.stderr.contains("the script `nowhere.yaml` cannot be read"), "{bad}");
}

/// A chat that asks a model for each message.
const TALK: &str = "\
agent: talk
chat: {greeting: Hello.}
actions:
  answer: {trigger: UserMessage, inputs: UserMessage, output: AssistantMessage, prompt: 'They say: {{ user_message.content }}'}
";

#[test]
fn a_chat_is_answered_by_a_replay() {
    let project = project().file("workflows/talk.yaml", TALK);
    let hash = |said: &str, replay: &str| {
        project.write("talk.yaml", format!("replies:\n{replay}"));
        let output = project.run_with_stdin(&["chat", "talk", "--replay", "talk.yaml", "--no-store"], said);
        let all = format!("{output}");
        all.split("hash is `").nth(1).and_then(|rest| rest.split('`').next()).map(str::to_owned).ok_or(all)
    };
    let digest = hash("one\n", "- {hash: '0', reply: x}\n").expect("the digest of the first message");
    let recorded =
        |reply: &str| format!("- {{when: {{action: answer}}, hash: '{digest}', reply: {{content: {reply}}}}}\n");
    project.write("talk.yaml", format!("replies:\n{}", recorded("Hi one")));
    let output = project.run_with_stdin(&["chat", "talk", "--replay", "talk.yaml", "--no-store"], "one\n").exits(0);
    assert_eq!(output.stdout, "Hello.\nHi one\n", "{output}");
    let other = hash("two\n", &recorded("Hi one"));
    assert!(other.is_ok_and(|other| other != digest));
}

/// A tool that asks a model.
const CLERK: &str = "\
agent: desk
inputs: UserInput
types: {Answer: {text: string}}
tools:
  clerk: {description: Answers, parameters: {request: string}, prompt: 'The clerk is asked: {{ request }}'}
actions:
  answer: {inputs: UserInput, output: Answer, call: {tool: clerk, with: {request: '{{ user_input.content }}'}}, achieves: It is answered}
";

#[test]
fn a_tool_called_by_hand_is_answered_by_a_replay() {
    let clerk = CLERK.replace(
        "output: Answer, call: {tool: clerk, with: {request: '{{ user_input.content }}'}}",
        "output: Answer, set: {text: x}",
    );
    let project = project().file("workflows/desk.yaml", clerk);
    project.write(
        "clerk.yaml",
        "replies:\n- {when: {action: clerk}, hash: '0', request: 'The clerk is asked nothing', reply: It is B7}\n",
    );
    let call = |request: &str| {
        project.run(&["tools", "call", "workflows/desk.yaml", "clerk", request, "--replay", "clerk.yaml"])
    };
    let missing = call(r#"{"request": "Which?"}"#).exits(1);
    let shown = format!("{missing}");
    assert!(shown.contains("nearest is request 1 of the recording, `clerk`"), "{shown}");
    assert!(shown.contains("- The clerk is asked nothing") && shown.contains("The clerk is asked: Which?"), "{shown}");
    project.write("clerk.yaml", "replies:\n- {when: {action: clerk, contains: 'Which?'}, reply: It is B7}\n");
    let answered = call(r#"{"request": "Which?"}"#).exits(0);
    assert!(answered.stdout.contains("It is B7"), "{answered}");
    call(r#"{"request": "Who?"}"#).exits(1);
}
