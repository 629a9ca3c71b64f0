//! Chats: messages in order, marks and limits by message, how they end.

use serde_json::{Value, json};

use super::{Case, failure, ran};
use crate::engine::Input;
use crate::process::{Process, Status, What};

/// A chat that plans: a message is read, then answered; a wish for an end ends it.
const PLANNED: &str = "\
agent: talk
inputs: UserMessage?
types:
  Reading: {text: string}
chat: {greeting: 'Hello.', history: {max_messages: 4}}
conditions: {wants_end: \"user_message.content == 'end'\"}
actions:
  read: {trigger: UserMessage, inputs: UserMessage, output: Reading, set: {text: '{{ user_message.content }}!'}}
  answer: {inputs: Reading, hide: reading, output: AssistantMessage, set: {content: 'you said {{ reading.text }}'}}
  leave: {trigger: UserMessage, inputs: UserMessage, output: AssistantMessage, pre: wants_end, cost: 5, set: {content: bye}, achieves: {description: The end, value: 9}}
";

async fn chat(workflow: &str, first: &[&str]) -> Process {
    let case = Case::new(workflow).inputs(first.iter().map(|text| Input::Text((*text).to_owned())).collect());
    let (engine, name) = case.engine();
    let mut process = engine.start(&name, case.inputs.clone(), case.options.clone()).expect("starts");
    process.run().await;
    process
}

async fn say(process: &mut Process, text: &str) {
    process.answer(json!({"content": text})).await.expect("it waits for a message");
    process.run().await;
}

fn conversation(process: &Process) -> Vec<String> {
    let document = process.document();
    let found = document.blackboard.iter().filter(|entry| entry.r#type == "Conversation").collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "one conversation is visible");
    let messages = found[0].value["messages"].as_array().cloned().unwrap_or_default();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn each_message_is_planned_for_anew_and_the_chat_waits_between() {
    let mut process = chat(PLANNED, &[]).await;
    assert_eq!(process.status(), Status::Waiting);
    let waiting = process.document().waiting.expect("a form");
    assert_eq!((waiting.action.as_str(), &waiting.form["required"]), ("chat", &json!(["content"])));
    assert_eq!(conversation(&process), ["Hello."]);
    say(&mut process, "a").await;
    say(&mut process, "b").await;
    assert_eq!(process.status(), Status::Waiting);
    assert_eq!(ran(&process.document()), ["read", "answer", "read", "answer"]);
    // Four messages are kept of five.
    assert_eq!(conversation(&process), ["a", "you said a!", "b", "you said b!"]);
}

#[tokio::test]
async fn messages_that_are_there_already_are_answered_in_order() {
    let process = chat(PLANNED, &["a", "b"]).await;
    assert_eq!(conversation(&process), ["a", "you said a!", "b", "you said b!"]);
}

#[tokio::test]
async fn a_goal_ends_the_chat_and_an_answer_does_not() {
    let mut process = chat(PLANNED, &["a"]).await;
    say(&mut process, "end").await;
    let document = process.document();
    assert_eq!((document.status, document.goal.as_deref()), (Status::Completed, Some("leave")));
    assert_eq!(document.output.expect("an output").value, json!({"content": "bye"}));
}

#[tokio::test]
async fn a_message_that_is_no_message_is_refused_and_nothing_is_lost() {
    let mut process = chat(PLANNED, &["a"]).await;
    let wrong = process.answer(json!({"text": "b"})).await.expect_err("no message");
    assert!(wrong.to_string().contains("content"), "{wrong}");
    say(&mut process, "b").await;
    assert_eq!(conversation(&process).last().map(String::as_str), Some("you said b!"));
}

#[tokio::test]
async fn limits_count_by_message() {
    let limited = format!("{PLANNED}limits: {{actions: 2}}\n");
    let mut process = chat(&limited, &["a"]).await;
    for text in ["b", "c", "d"] {
        say(&mut process, text).await;
    }
    assert_eq!(process.status(), Status::Waiting, "eight actions in all, two a message");
    let tight = format!("{PLANNED}limits: {{actions: 1}}\n");
    let document = chat(&tight, &["a"]).await.document();
    assert_eq!((document.status, failure(&document).0.as_str()), (Status::Terminated, "limit"));
}

#[tokio::test]
async fn a_message_that_nothing_answers_is_told_and_the_next_one_is_heard() {
    let workflow = "\
agent: talk
chat: {}
conditions: {is_known: \"user_message.content == 'known'\"}
actions:
  answer: {trigger: UserMessage, inputs: UserMessage, output: AssistantMessage, pre: is_known, set: {content: yes}}
  flaky: {trigger: UserMessage, inputs: UserMessage, output: AssistantMessage, pre: \"user_message.content == 'flaky'\", exec: [/nowhere/nothing]}
";
    let case = Case::new(workflow)
        .inputs(["what", "flaky", "known"].map(|text| Input::Text(text.to_owned())).into())
        .options(|options| options.yes = true);
    let (document, events) = case.observed().await;
    let told: Vec<&String> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::NotAnswered { message } => Some(message),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("`flaky`"), "{told:?}");
    let sent = events.iter().filter(|event| matches!(event.what, What::MessageSent { .. })).count();
    assert_eq!((sent, document.status), (1, Status::Waiting));
}

#[tokio::test]
async fn the_end_of_a_chat_is_an_expr_and_prompts_see_the_messages_before() {
    let workflow = "\
agent: talk
planner: utility
chat: {end: 'count(\"UserMessage\") >= 2'}
actions:
  answer:
    trigger: UserMessage
    inputs: UserMessage
    output: AssistantMessage
    value: 1
    prompt: {user: 'Now: {{ user_message.content }}', conversation: true}
";
    let case = Case::new(workflow)
        .script(json!([{"when": {"action": "answer"}, "reply": {"content": "ok"}}]))
        .inputs(["one", "two"].map(|text| Input::Text(text.to_owned())).into());
    let (document, events) = case.observed().await;
    assert_eq!(document.status, Status::Completed);
    let requests = events.iter().filter_map(|event| match &event.what {
        What::LlmRequest { messages, .. } => Some(messages.iter().map(text_of).collect::<Vec<_>>()),
        _ => None,
    });
    let requests: Vec<Vec<String>> = requests.collect();
    assert_eq!(requests, [vec!["Now: one".to_owned()], vec!["one".into(), "ok".into(), "Now: two".into()]]);
}

fn text_of(message: &Value) -> String {
    message["parts"][0]["text"].as_str().unwrap_or_default().to_owned()
}
