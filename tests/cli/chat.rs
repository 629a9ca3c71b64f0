//! `chat`: lines in, replies out; what is left goes on in another program.

use super::{Project, project};

const TALK: &str = "\
agent: talk
chat: {greeting: Hello., end: said_bye}
conditions: {said_bye: false, says_bye: \"user_message.content == 'bye'\"}
planner: utility
actions:
  answer: {trigger: UserMessage, inputs: UserMessage, output: AssistantMessage, value: 1, set: {content: '{{ count(\"UserMessage\") }}: {{ user_message.content }}'}}
  leave: {trigger: UserMessage, inputs: UserMessage, output: AssistantMessage, value: 2, pre: says_bye, post: said_bye, set: {content: Bye.}}
";

fn talk() -> Project {
    project().file("workflows/talk.yaml", TALK)
}

#[test]
fn lines_are_messages_and_replies_are_the_result() {
    let output = talk().run_with_stdin(&["chat", "--no-store"], "one\n\ntwo\nbye\nunread\n").exits(0);
    assert_eq!(output.stdout, "Hello.\n1: one\n2: two\nBye.\n", "{output}");
}

#[test]
fn a_chat_that_was_left_goes_on_in_another_program() {
    let project = talk();
    let output = project.run_with_stdin(&["chat", "talk"], "one\n").exits(0);
    assert!(output.stderr.contains("agent-run resume"), "{output}");
    let output = project.run(&["resume", "@last", "--form", "{\"content\": \"two\"}"]).exits(3);
    assert!(output.stdout.contains("2: two") && !output.stdout.contains("Hello."), "{output}");
    project.run(&["resume", "@last", "--form", "{\"text\": \"two\"}"]).exits(2);
    let output = project.run(&["resume", "@last", "--form", "{\"content\": \"bye\"}", "--json"]).exits(0);
    let messages = output.json()["blackboard"].to_string();
    for said in ["Hello.", "1: one", "2: two", "Bye."] {
        assert!(messages.contains(said), "{said}: {messages}");
    }
}

#[test]
fn an_agent_that_is_no_chat_is_told() {
    let output = talk().run(&["chat", "echo"]).exits(2);
    assert!(output.stderr.contains("the agent `echo` is no chat"), "{output}");
}
