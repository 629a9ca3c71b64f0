//! A person agrees to a tool that a model calls: the process waits with a form, a "no" is told to the model, and a
//! "yes" performs that very call, once, with nothing before it done again.

use std::sync::{Arc, Mutex};

use agent_run::compile::{Entry, compile};
use agent_run::engine::{Engine, Input, RunOptions};
use agent_run::llm::Script;
use agent_run::process::{Event, Observer, Process, Status, What};
use agent_run::world::MemoryWorld;
use serde_json::{Value, json};

const PROJECT: &str = "providers: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/model}\n";

const WORKFLOW: &str = r#"
agent: desk
inputs: UserInput
types: {Report: string}
tools:
  find: {description: Finds an order, set: B7}
  cancel: {description: Cancels an order, parameters: {id: string}, confirm: "Cancel {{ id }}?", set: "{{ id }} is cancelled"}
  changes: {description: Changes, unfold: {tools: [cancel]}}
actions:
  report: {inputs: UserInput, output: Report, tools: [find, changes], prompt: "{{ user_input.content }}"}
goals: {done: {output: Report}}
"#;

const SCRIPT: &str = r#"
replies:
  - turns:
      - call: [{tool: find}, {tool: changes, with: {cancel: {id: B7}}}]
      - reply: Done
"#;

type Heard = Arc<Mutex<Vec<What>>>;

/// A process of the workflow that waits for a person.
async fn waiting() -> (Process, Heard) {
    let world = MemoryWorld::with_files([
        ("agent-run.yaml", PROJECT),
        ("script.yaml", SCRIPT),
        ("workflows/desk.yaml", WORKFLOW),
    ]);
    let compiled = compile(&world, Entry::File("workflows/desk.yaml".into()));
    let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    let heard: Heard = Arc::default();
    let ear = heard.clone();
    let observer: Observer = Arc::new(move |event: &Event| ear.lock().expect("no panic").push(event.what.clone()));
    let script: Value = serde_yaml::from_str(SCRIPT).expect("YAML");
    let script = Some(Script::from_value(&script).expect("a script is sound"));
    let options = RunOptions { script, observer: Some(observer), ..RunOptions::default() };
    let engine = Engine::new(program, Arc::new(world));
    let mut process = engine.start("desk", vec![Input::Text("Cancel B7".into())], options).expect("it starts");
    assert_eq!(process.run().await, Status::Waiting, "{:?}", process.failure());
    (process, heard)
}

/// The names of the tools whose bodies were performed or that answered by themselves, in order.
fn called(heard: &Heard) -> Vec<String> {
    let heard = heard.lock().expect("no panic");
    heard
        .iter()
        .filter_map(|what| if let What::ToolCalled { tool, .. } = what { Some(tool.clone()) } else { None })
        .collect()
}

/// What the model was told last of a tool.
fn told(heard: &Heard, tool: &str) -> (String, bool) {
    let heard = heard.lock().expect("no panic");
    let mut requests = heard
        .iter()
        .filter_map(|what| if let What::LlmRequest { messages, .. } = what { Some(messages) } else { None });
    let messages: Vec<Value> = requests.next_back().expect("a request").iter().map(|message| json!(message)).collect();
    let parts = messages.iter().flat_map(|message| message["parts"].as_array().cloned().unwrap_or_default());
    let mut results = parts.filter(|part| part["type"] == "tool_result" && part["name"] == tool);
    let result = results.next_back().expect("a result");
    (result["content"].as_str().unwrap_or_default().to_owned(), result["is_error"] == true)
}

fn requests(heard: &Heard) -> usize {
    heard.lock().expect("no panic").iter().filter(|what| matches!(what, What::LlmRequest { .. })).count()
}

#[tokio::test]
async fn a_yes_performs_the_very_call_once() {
    let (mut process, heard) = waiting().await;
    let pending = process.waiting().expect("it waits").clone();
    assert_eq!(pending.question.prompt, "Cancel B7?");
    assert_eq!(
        serde_json::to_value(&pending.question.kind).expect("JSON"),
        json!({"kind": "confirm_tool", "tool": "cancel", "arguments": {"id": "B7"}})
    );
    assert!(!called(&heard).contains(&"cancel".to_owned()), "{:?}", called(&heard));
    process.answer(json!({"confirm": true})).await.expect("the answer fits");
    assert_eq!(process.run().await, Status::Completed, "{:?}", process.failure());
    let (text, is_error) = told(&heard, "changes");
    assert!(text.contains("B7 is cancelled") && !is_error, "{text}");
    let mut called = called(&heard);
    called.sort();
    assert_eq!(called, ["cancel", "changes", "find"], "nothing is done twice");
    assert_eq!(requests(&heard), 2, "no question to the model is asked again");
}

#[tokio::test]
async fn a_no_is_told_to_the_model_and_the_tool_is_not_called() {
    let (mut process, heard) = waiting().await;
    process.answer(json!({"confirm": false})).await.expect("the answer fits");
    assert_eq!(process.run().await, Status::Completed, "{:?}", process.failure());
    let (text, is_error) = told(&heard, "changes");
    assert!(text.ends_with("\n\nrefused by the person") && is_error, "{text}");
    let document = serde_json::to_value(process.document()).expect("JSON");
    assert_eq!(document["output"]["value"], "Done");
}
