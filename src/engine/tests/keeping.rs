//! Processes in a store: rebuilt as they were, at any line of their journal, repeating nothing.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::waiting::{ALONE, DraftAskFinish, script, with_body};
use super::{Case, output, ran};
use crate::engine::{Engine, ResumeError};
use crate::process::{Document, Process, Status};
use crate::program::Program;
use crate::store::{Line, MemoryStore, SqliteStore, Store, StoreError};

fn engine(case: &Case, program: &Arc<Program>, store: &Arc<dyn Store>) -> Engine {
    Engine::new(program.clone(), Arc::new(case.world())).with_store(store.clone())
}

/// A document without what depends on the clock.
fn timeless(document: &Document) -> Value {
    let mut document = serde_json::to_value(document).unwrap();
    for entry in document["history"].as_array_mut().unwrap() {
        entry["ms"] = json!(0);
        entry["started_at"] = json!("");
    }
    for object in document["blackboard"].as_array_mut().unwrap() {
        if object["type"] == "UserInput" {
            object["value"]["timestamp"] = json!("");
        }
    }
    document
}

/// A store with the first batches of another: as it is when the program was killed there.
async fn cut(store: &MemoryStore, batches: usize) -> Arc<dyn Store> {
    let copy: Arc<dyn Store> = Arc::new(MemoryStore::default());
    for batch in store.batches().into_iter().take(batches) {
        copy.append(batch).await.unwrap();
    }
    copy
}

const WAYS: &str = "agent: ways
types: {Topic: {text: string}, Story: {text: string}, Song: {text: string}, End: string}
inputs: UserInput
actions:
  topic: {inputs: UserInput, output: Topic, retry: {attempts: 2, backoff: 1ms}, prompt: a topic}
  story: {inputs: Topic, output: Story?, cost: 0.1, prompt: a story, post: [told]}
  check: {inputs: Story, output: End, pre: [merry], cost: 0.1, on_error: {output: x}, prompt: an end}
  song: {inputs: Topic, output: Song, cost: 0.6, hide: [topic], prompt: a song}
  sung: {inputs: Song, output: End, cost: 0.6, set: 'sung {{ song.text }}'}
conditions:
  told: false
  merry: {inputs: Story, prompt: 'Is this merry? {{ story.text }}'}
goals: {done: {output: End}}
";

/// The models of one run, by what goes wrong in it.
fn replies(topic_fails: bool, no_story: bool, merry: bool, end_fails: bool) -> Value {
    let mut topic = vec![json!({"reply": {"text": "sea"}})];
    if topic_fails {
        topic.insert(0, json!({"error": {"status": 400}}));
    }
    let end = if end_fails { json!({"refuse": "no"}) } else { json!({"reply": "the end"}) };
    json!([
        {"when": {"action": "topic"}, "turns": topic},
        {"when": {"action": "story"}, "reply": if no_story { Value::Null } else { json!({"text": "waves"}) }},
        {"when": {"action": "merry"}, "reply": {"holds": merry, "confidence": 1.0, "why": "x"}},
        {"when": {"action": "check"}, "turns": [end]},
        {"when": {"action": "song"}, "reply": {"text": "la"}},
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever happens in a process, and wherever its journal ends: it is rebuilt, goes on, and comes to the same end
    /// with the same blackboard and history, without asking again for what it had.
    #[test]
    fn a_process_comes_to_the_same_end_from_every_line_of_its_journal(
        (topic_fails, no_story, merry, end_fails) in any::<(bool, bool, bool, bool)>()
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let case = || Case::new(WAYS).script(replies(topic_fails, no_story, merry, end_fails));
            let program = case().program();
            let memory = Arc::new(MemoryStore::default());
            let store: Arc<dyn Store> = memory.clone();
            let one = case();
            let mut process = engine(&one, &program, &store).start("ways", one.inputs, one.options).unwrap();
            process.run().await;
            let (id, whole) = (process.core().id.clone(), process.document());
            let batches = memory.batches();
            let is_step = |line: &&Line| line.body.contains("\"record\":\"step\"") && line.body.contains("/llm");
            let steps = |most: usize| batches[..most].iter().flat_map(|batch| &batch.lines).filter(is_step).count();
            for most in 1..batches.len() {
                let left = cut(&memory, most).await;
                let mut one = case();
                // The script goes on where it was: what was answered is not asked again.
                let mut lines = batches[..most].iter().flat_map(|batch| &batch.lines);
                let first_topic = lines.any(|line| line.body.contains("\"topic#1/llm1\""));
                if topic_fails && first_topic {
                    one = one.script(replies(false, no_story, merry, end_fails));
                }
                let heard: Arc<std::sync::Mutex<usize>> = Arc::default();
                let counts = heard.clone();
                one.options.observer = Some(Arc::new(move |event: &crate::process::Event| {
                    *counts.lock().unwrap() += usize::from(matches!(event.what, crate::process::What::LlmRequest { .. }));
                }));
                let mut restored = engine(&one, &program, &left).resume(&id, one.options).await.unwrap();
                restored.run().await;
                assert_eq!(timeless(&restored.document()), timeless(&whole), "cut after {most}");
                assert_eq!(*heard.lock().unwrap(), steps(batches.len()) - steps(most), "cut after {most}");
            }
        });
    }
}

async fn waiting_in(store: &Arc<dyn Store>) -> (String, Arc<Program>) {
    let case = Case::new(ALONE).script(script());
    let mut program = case.program();
    with_body(&mut program, "tell", DraftAskFinish);
    let mut process = engine(&case, &program, store).start("alone", case.inputs, case.options).unwrap();
    assert_eq!(process.run().await, Status::Waiting);
    (process.core().id.clone(), program)
}

#[tokio::test]
async fn a_wait_is_answered_in_another_program_and_the_draft_is_not_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".agent-run/state.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let (id, program) = waiting_in(&store).await;

    let other: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let case = Case::new(ALONE).script(json!([{"when": {"contains": "finish"}, "turns": [{"reply": "f1"}]}]));
    let held = engine(&case, &program, &other).resume(&id, case.options.clone()).await.err().unwrap();
    assert_eq!(held, ResumeError::Store(StoreError::Held(id.clone())));
    drop(store);
    let row = other.row(&id).await.unwrap().unwrap();
    assert_eq!((row.status.as_str(), row.lines > 5), ("waiting", true));
    let mut process = engine(&case, &program, &other).resume(&id, case.options).await.unwrap();
    assert_eq!(ran(&process.document()), ["tell waiting"]);
    assert_eq!(process.document().usage.llm_calls, 1);
    process.answer(json!({"word": "good"})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed);
    let document = process.document();
    assert!(output(&document).as_str().unwrap().starts_with("d1 good f1 "));
    assert_eq!((document.usage.llm_calls, document.history[0].llm.len()), (2, 2));
    let row = other.row(&id).await.unwrap().unwrap();
    assert_eq!(row.status, "completed");
}

#[tokio::test]
async fn a_wait_in_a_sub_process_is_answered_in_another_program() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let parent = "agent: parent\ntypes: {End: string, Story: string}\nactions:\n  run_child:\n    inputs: UserInput\n    \
                  output: Story\n    agent: alone\n  finish:\n    inputs: Story\n    output: End\n    achieves: done\n    set: '{{ story }}!'\n";
    let case = |rules: Value| Case::new(parent).file("workflows/alone.yaml", ALONE).script(rules);
    let one = case(script());
    let mut program = one.program();
    with_body(&mut program, "tell", DraftAskFinish);
    let mut process = engine(&one, &program, &store).start("parent", one.inputs, one.options).unwrap();
    assert_eq!(process.run().await, Status::Waiting);
    let id = process.core().id.clone();
    drop(process);
    let child = store.children(&id).await.unwrap().remove(0);
    assert_eq!((child.agent.as_str(), child.status.as_str()), ("alone", "waiting"));

    let two = case(json!([{"when": {"contains": "finish"}, "turns": [{"reply": "f1"}]}]));
    let refused = engine(&two, &program, &store).resume(&child.process, two.options.clone()).await.err().unwrap();
    assert!(matches!(refused, ResumeError::Belongs { .. }), "{refused}");
    let mut process = engine(&two, &program, &store).resume(&id, two.options).await.unwrap();
    process.answer(json!({"word": "down"})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed);
    assert!(output(&process.document()).as_str().unwrap().starts_with("d1 down f1 "));
    assert_eq!(process.document().usage.llm_calls, 2);
    let children = store.children(&id).await.unwrap();
    assert_eq!((children.len(), children[0].status.as_str()), (1, "completed"));
}

#[tokio::test]
async fn a_workflow_that_has_changed_is_refused_where_the_process_does_not_fit_and_nothing_is_lost() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (id, program) = waiting_in(&store).await;
    let before = store.lines(&id, "record").await.unwrap();
    let resumed = |workflow: String, store: Arc<dyn Store>| {
        let id = id.clone();
        async move {
            let case = Case::new(&workflow);
            engine(&case, &case.program(), &store).resume(&id, case.options).await.err().map(|error| error.to_string())
        }
    };
    let renamed = resumed(ALONE.replace("tell:", "narrate:"), store.clone()).await.unwrap();
    assert_eq!(
        renamed,
        format!(
            "the process {id} cannot go on: the workflow has changed since the process began: the action `tell` is gone"
        )
    );
    let gone = resumed(ALONE.replace("agent: alone", "agent: other"), store.clone()).await.unwrap();
    assert!(gone.contains("there is no agent `alone`"), "{gone}");
    assert_eq!(store.lines(&id, "record").await.unwrap(), before);
    let case = Case::new(ALONE);
    let process = engine(&case, &program, &store).resume(&id, case.options).await.unwrap();
    assert_eq!(process.status(), Status::Waiting);
}

#[tokio::test]
async fn a_process_that_has_ended_or_is_not_there_is_not_resumed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (id, program) = waiting_in(&store).await;
    crate::engine::end_stored(&store, &id).await.unwrap();
    let case = Case::new(ALONE);
    let engine = engine(&case, &program, &store);
    let ended = engine.resume(&id, case.options.clone()).await.err().unwrap();
    assert_eq!(ended.to_string(), format!("the process {id} cannot go on: it is killed"));
    let unknown = engine.resume("P99", case.options.clone()).await.err().unwrap();
    assert_eq!(unknown.to_string(), "there is no process `P99` in the store");
}

#[tokio::test]
async fn a_context_keeps_objects_from_one_run_to_the_next() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let workflow = "agent: rates\ntypes: {Rate: {n: integer}, End: string}\nkeep: [Rate]\ninputs: UserInput\nactions:\n  \
                    rate: {inputs: UserInput, output: Rate, set: {n: 7}}\n  \
                    end: {inputs: Rate, output: End, achieves: done, set: 'rate {{ rate.n }}'}\n";
    let run = async |context: Option<&str>| -> Document {
        let case = Case::new(workflow).options(|options| options.context = context.map(str::to_owned));
        let program = case.program();
        let mut process: Process = engine(&case, &program, &store).start("rates", case.inputs, case.options).unwrap();
        process.run().await;
        process.document()
    };
    assert_eq!(ran(&run(Some("home")).await), ["rate", "end"]);
    assert_eq!(ran(&run(Some("home")).await), ["end"]);
    assert_eq!(ran(&run(Some("other")).await), ["rate", "end"]);
    assert_eq!(ran(&run(None).await), ["rate", "end"]);
    assert_eq!(store.context("home").await.unwrap().len(), 1);
}
