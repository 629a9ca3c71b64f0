//! People: processes that wait and go on, in sub-processes and tool calls too, and repeat nothing.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Case, failure, output, ran};
use crate::action::context::{CallSettings, PromptCall, Question};
use crate::action::{Body, Context, Failure};
use crate::engine::{Engine, Person};
use crate::llm::Message;
use crate::process::{AnswerError, Event, Process, Status, What};
use crate::program::{Agent, Program};
use crate::tool::Confirm;

/// A body for these tests: a model is asked for a draft, a person for a word, a model again for the end.
#[derive(Debug)]
pub(super) struct DraftAskFinish;

#[async_trait::async_trait]
impl Body for DraftAskFinish {
    fn kind(&self) -> &'static str {
        "draft_ask_finish"
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let draft = cx.ask_model(call(cx, "draft"), &Ok).await?;
        let question = Question::ask(format!("What of {draft}?"), form());
        let word = cx.ask_person(question).await?;
        let end = cx.ask_model(call(cx, &format!("finish {}", word["word"])), &Ok).await?;
        let now = cx.vars().now();
        Ok(json!(format!(
            "{} {} {} {now}",
            draft.as_str().unwrap(),
            word["word"].as_str().unwrap(),
            end.as_str().unwrap()
        )))
    }
}

fn form() -> Value {
    json!({"type": "object", "properties": {"word": {"type": "string", "minLength": 1}}, "required": ["word"]})
}

fn call(cx: &dyn Context, text: &str) -> PromptCall {
    PromptCall {
        name: cx.action().to_owned(),
        system: None,
        messages: vec![Message::user(text)],
        output: None,
        settings: Arc::new(CallSettings::default()),
        attempts: 1,
    }
}

/// Calls the tool of the agent.
#[derive(Debug)]
struct CallsPay;

#[async_trait::async_trait]
impl Body for CallsPay {
    fn kind(&self) -> &'static str {
        "calls_pay"
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let sum = json!({"sum": 5}).as_object().cloned().unwrap();
        let first = cx.call_tool("pay", sum.clone()).await?;
        let second = cx.call_tool("pay", sum).await;
        let second = second.map_or_else(
            |failure| if failure.is_waiting() { Err(failure) } else { Ok(failure.message) },
            |paid| Ok(paid.to_string()),
        )?;
        Ok(json!(format!("{first} then {second}")))
    }
}

/// Puts a body in the place of an action's.
pub(super) fn with_body(program: &mut Arc<Program>, action: &str, body: impl Body + 'static) {
    let action = agent(program, action).actions.iter_mut().find(|of| of.name == action).expect("the action");
    action.body = Arc::new(body);
}

/// The agent that has an action.
fn agent<'a>(program: &'a mut Arc<Program>, action: &str) -> &'a mut Agent {
    let program = Arc::get_mut(program).expect("the only one");
    let agent = program.agents.iter_mut().find(|agent| agent.actions.iter().any(|of| of.name == action));
    Arc::get_mut(agent.expect("the agent")).expect("the only one")
}

pub(super) const ALONE: &str = "agent: alone\ntypes: {Story: string}\nactions:\n  tell:\n    inputs: UserInput\n    output: Story\n    \
                     achieves: told\n    set: x\n";

pub(super) fn script() -> Value {
    json!([
        {"when": {"contains": "draft"}, "turns": [{"reply": "d1", "usage": {"input_tokens": 10}}]},
        {"when": {"contains": "finish"}, "turns": [{"reply": "f1"}]},
    ])
}

fn start(case: Case, program: Arc<Program>) -> (Process, Arc<Mutex<Vec<Event>>>) {
    start_with(case, program, None)
}

fn start_with(
    mut case: Case,
    program: Arc<Program>,
    person: Option<Arc<dyn Person>>,
) -> (Process, Arc<Mutex<Vec<Event>>>) {
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let heard = events.clone();
    case.options.observer = Some(Arc::new(move |event: &Event| heard.lock().unwrap().push(event.clone())));
    let name = program.agents[0].name.clone();
    let world = Arc::new(case.world());
    let engine = match person {
        Some(person) => Engine::with_person(program, world, person),
        None => Engine::new(program, world),
    };
    (engine.start(&name, case.inputs, case.options).expect("it begins"), events)
}

fn count(events: &Arc<Mutex<Vec<Event>>>, of: fn(&What) -> bool) -> usize {
    events.lock().unwrap().iter().filter(|event| of(&event.what)).count()
}

#[tokio::test]
async fn a_question_without_anyone_to_answer_waits_and_the_answer_repeats_nothing() {
    let case = Case::new(ALONE).script(script());
    let mut program = case.program();
    with_body(&mut program, "tell", DraftAskFinish);
    let (mut process, events) = start(case, program);
    assert_eq!(process.run().await, Status::Waiting);
    let document = process.document();
    assert_eq!(ran(&document), ["tell waiting"]);
    let waiting = document.waiting.as_ref().expect("it waits");
    assert_eq!((waiting.prompt.as_str(), waiting.action.as_str()), ("What of \"d1\"?", "tell"));
    assert_eq!(waiting.form, form());
    assert_eq!((document.usage.llm_calls, document.usage.input_tokens), (1, 10));

    let refused = process.answer(json!({"word": ""})).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the answer does not fit the form of `tell`: `word`: expected at least 1 character, found 0"
    );
    assert_eq!(process.status(), Status::Waiting);
    process.answer(json!({"word": "good"})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed);
    let document = process.document();
    assert!(output(&document).as_str().unwrap().starts_with("d1 good f1 20"), "{}", output(&document));
    assert_eq!((document.usage.llm_calls, document.usage.input_tokens), (2, 14));
    assert_eq!((document.history.len(), document.history[0].llm.len()), (1, 2));
    assert!(document.waiting.is_none());
    assert_eq!(count(&events, |what| matches!(what, What::LlmReply { .. })), 2);
    assert_eq!(count(&events, |what| matches!(what, What::ActionStarted { .. })), 1);
    assert_eq!(count(&events, |what| matches!(what, What::Waiting { .. } | What::Resumed { .. })), 2);
    let refused = process.answer(json!({"word": "late"})).await.unwrap_err();
    assert!(matches!(refused, AnswerError::NotWaiting { status: "completed", .. }), "{refused}");
}

/// Someone who answers at once.
struct Ready(Value);

impl Person for Ready {
    fn confirm(&self, _: &str) -> bool {
        self.0 == true
    }
    fn answer(&self, _: &Question) -> Option<Value> {
        Some(self.0.clone())
    }
}

#[tokio::test]
async fn someone_who_can_answer_now_is_asked_now() {
    let case = || Case::new(ALONE).script(script());
    let program = || {
        let mut program = case().program();
        with_body(&mut program, "tell", DraftAskFinish);
        program
    };
    let (mut process, _) = start_with(case(), program(), Some(Arc::new(Ready(json!({"word": "now"})))));
    assert_eq!(process.run().await, Status::Completed);
    assert!(output(&process.document()).as_str().unwrap().starts_with("d1 now f1 "));
    let (mut process, _) = start_with(case(), program(), Some(Arc::new(Ready(json!({"word": 3})))));
    assert_eq!(process.run().await, Status::Failed);
    let document = process.document();
    assert_eq!(
        failure(&document),
        (
            "validation".to_owned(),
            "the answer to `tell` does not fit: `word`: expected a string, found the number 3".to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_not_tried_again_nor_recovered_and_failed_attempts_are_not_repeated() {
    let retrying = ALONE.replace(
        "    set: x\n",
        "    set: x\n    retry: {attempts: 3, backoff: 10s}\n    on_error: {output: recovered}\n",
    );
    let mut rules = script();
    let first = json!({"when": {"contains": "draft"}, "times": 1, "error": {"status": 400}});
    rules.as_array_mut().unwrap().insert(0, first);
    let case = Case::new(&retrying).script(rules);
    let mut program = case.program();
    with_body(&mut program, "tell", DraftAskFinish);
    let (mut process, events) = start(case, program);
    assert_eq!(process.run().await, Status::Waiting);
    assert_eq!(process.waiting().unwrap().path, "tell#1.2/ask1");
    let before = tokio::time::Instant::now();
    process.answer(json!({"word": "w"})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed);
    assert_eq!(before.elapsed().as_secs(), 0, "the pause between the attempts is over already");
    assert_eq!(process.document().history[0].attempts, 2);
    assert_eq!(count(&events, |what| matches!(what, What::Retrying { .. })), 1);
}

#[tokio::test]
async fn a_wait_in_a_sub_process_is_its_parents_and_the_answer_goes_down() {
    let parent = "agent: parent\ntypes: {End: string, Story: string}\nactions:\n  run_child:\n    inputs: UserInput\n    \
                  output: Story\n    agent: alone\n  finish:\n    inputs: Story\n    output: End\n    achieves: done\n    set: '{{ story }}!'\n";
    let case = Case::new(parent).file("workflows/alone.yaml", ALONE).script(script());
    let mut program = case.program();
    with_body(&mut program, "tell", DraftAskFinish);
    let (mut process, events) = start(case, program);
    assert_eq!(process.run().await, Status::Waiting);
    let document = process.document();
    assert_eq!(ran(&document), ["run_child waiting"]);
    assert_eq!(document.waiting.as_ref().unwrap().form, form());
    process.answer(json!({"word": "down"})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed);
    let document = process.document();
    let text = output(&document).as_str().unwrap().to_owned();
    assert!(text.starts_with("d1 down f1 ") && text.ends_with('!'), "{text}");
    assert_eq!(document.usage.llm_calls, 2);
    assert_eq!(count(&events, |what| matches!(what, What::ProcessCreated { .. })), 2);
}

const PAYING: &str = "agent: paying\ntypes: {Story: string}\ntools:\n  pay:\n    description: Pays\n    parameters: {sum: integer}\n    \
                      set: 'paid {{ sum }}'\nactions:\n  tell:\n    inputs: UserInput\n    output: Story\n    achieves: told\n    set: x\n";

#[tokio::test]
async fn a_call_that_needs_agreement_waits_and_a_no_is_handed_to_the_caller() {
    let case = Case::new(PAYING);
    let mut program = case.program();
    with_body(&mut program, "tell", CallsPay);
    let tool = agent(&mut program, "tell").tools.get_mut("pay").expect("the tool");
    Arc::make_mut(tool).confirm = Some(Confirm::default());
    let (mut process, events) = start(case, program);
    assert_eq!(process.run().await, Status::Waiting);
    let pending = process.waiting().unwrap().clone();
    assert_eq!(pending.question.prompt, "Call the tool `pay`?");
    let kind = serde_json::to_value(&pending.question.kind).unwrap();
    assert_eq!(kind, json!({"kind": "confirm_tool", "tool": "pay", "arguments": {"sum": 5}}));
    process.answer(json!({"confirm": true})).await.unwrap();
    assert_eq!(process.run().await, Status::Waiting, "the second call asks too");
    process.answer(json!({"confirm": false})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed);
    let document = process.document();
    assert_eq!(output(&document), json!("\"paid 5\" then refused by the person"));
    assert_eq!(document.history[0].tools.len(), 2);
    assert_eq!(document.usage.tool_calls, 2);
    assert_eq!(count(&events, |what| matches!(what, What::ToolResult { .. })), 2);
    assert_eq!(count(&events, |what| matches!(what, What::ToolCalled { .. })), 2);
}

#[tokio::test]
async fn what_runs_beside_a_wait_ends_first_and_is_not_repeated() {
    let two = "agent: two\nconcurrency: 2\ntypes: {Story: string, Song: string, End: string}\nactions:\n  tell:\n    inputs: UserInput\n    \
               output: Story\n    set: x\n  sing:\n    inputs: UserInput\n    output: Song\n    prompt: sing\n  finish:\n    \
               inputs: [Story, Song]\n    output: End\n    achieves: done\n    set: '{{ story }}, {{ song }}'\n";
    let mut rules = script();
    rules.as_array_mut().unwrap().push(json!({"when": {"action": "sing"}, "turns": [{"reply": "la"}]}));
    let case = Case::new(two).script(rules);
    let mut program = case.program();
    with_body(&mut program, "tell", DraftAskFinish);
    let (mut process, events) = start(case, program);
    assert_eq!(process.run().await, Status::Waiting);
    assert_eq!(count(&events, |what| matches!(what, What::LlmReply { .. })), 2);
    process.answer(json!({"word": "w"})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed);
    let document = process.document();
    assert_eq!(ran(&document), ["tell", "sing", "finish"]);
    assert!(output(&document).as_str().unwrap().ends_with(", la"));
    assert_eq!(document.usage.llm_calls, 3);
}
