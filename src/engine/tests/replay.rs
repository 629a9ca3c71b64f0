//! Journals, looked at from outside: whatever was kept gives the blackboard as it was then, and whatever has become of a
//! journal since is read or refused, never a crash.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Case;
use crate::engine::{Engine, ResumeError};
use crate::process::journal::Spent;
use crate::process::{Document, Event, Status};
use crate::store::{Batch, Line, MemoryStore, Store};

/// States that clear the blackboard, a loop through them, a person in it, hidden objects.
const STAGES: &str = "agent: stages
inputs: UserInput
types: {Draft: {text: string}, Word: {good: boolean}, End: {n: integer}}
states:
  Stage: {abstract: true}
  Read:
    is: Stage
    fields: {draft: Draft, n: integer}
    actions:
      ask: {output: Word, ask: {prompt: 'Good? {{ draft.text }}'}}
      judge:
        inputs: Word
        output: Stage
        choose:
          - {when: word.good, type: Ready}
          - {type: Rewrite}
  Rewrite:
    is: Stage
    fields: {draft: Draft, n: integer}
    actions:
      rewrite: {output: Draft, prompt: 'Again: {{ draft.text }}'}
      back: {inputs: {new: Draft}, output: Read, set: {draft: '{{ new }}', n: '{{ n + 1 }}'}}
  Ready:
    is: Stage
    fields: {draft: Draft, n: integer}
    actions:
      finish: {output: End, set: {n: '{{ n }}'}, achieves: It is done}
actions:
  draft: {inputs: UserInput, output: Draft, prompt: A draft}
  hand_in: {inputs: Draft, output: Read, hide: draft, set: {draft: '{{ draft }}', n: 1}}
";

/// Parts side by side, actions side by side, several objects of one type, a name that is bound twice.
const PARTS: &str = "agent: parts
inputs: UserInput
concurrency: 2
types: {Topic: {text: string}, Part: {text: string}, Note: {text: string}, End: string}
actions:
  topic: {inputs: UserInput, output: Topic, prompt: a topic}
  note: {inputs: Topic, output: Note, prompt: a note}
  parts:
    inputs: Topic
    output: list<Part>
    scatter_gather: {over: \"['a', 'b', 'c']\", do: {prompt: 'part {{ item }}'}}
  end: {inputs: {parts: list<Part>, note: Note}, output: End, hide: parts, set: '{{ parts | length }} {{ note.text }}'}
goals: {done: {output: End}}
";

/// A chat: messages, answers, what hides them again.
const TALK: &str = "agent: talk
inputs: UserMessage?
types: {Reading: {text: string}}
chat: {greeting: 'Hello.', history: {max_messages: 3}}
actions:
  read: {trigger: UserMessage, inputs: UserMessage, output: Reading, prompt: 'Read {{ user_message.content }}'}
  answer: {inputs: Reading, hide: reading, output: AssistantMessage, set: {content: 'so: {{ reading.text }}'}}
";

fn case(workflow: &str) -> Case {
    Case::new(workflow).script(json!([
        {"when": {"action": "hand_in"}, "reply": {"text": "never"}},
        {"when": {"action": "topic"}, "reply": {"text": "sea"}},
        {"when": {"action": "note"}, "reply": {"text": "salt"}},
        {"when": {"action": "parts"}, "reply": [{"text": "one of them"}]},
        {"reply": {"text": "some"}},
    ]))
}

/// The batches of a whole run, with so many turns of a person; the id of its process.
async fn whole(workflow: &str, turns: usize) -> (String, Vec<Batch>) {
    let memory = Arc::new(MemoryStore::default());
    let one =
        case(workflow).inputs(if workflow == TALK { vec![] } else { vec![crate::engine::Input::Text("hello".into())] });
    let (engine, name) = one.engine();
    let engine = engine.with_store(memory.clone());
    let mut process = engine.start(&name, one.inputs, one.options).unwrap();
    let mut turn = 0;
    while process.run().await == Status::Waiting && turn < turns {
        turn += 1;
        let answer = match workflow {
            TALK => json!({"content": format!("message {turn}")}),
            _ => json!({"good": turn == turns}),
        };
        process.answer(answer).await.unwrap();
    }
    (process.core().id.clone(), memory.batches())
}

/// A store that holds these batches.
async fn store_of(batches: &[Batch]) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    for batch in batches {
        store.append(batch.clone()).await.unwrap();
    }
    store
}

/// What the events say of the process.
fn told(id: &str, status: Status, batches: &[Batch]) -> Document {
    let lines = batches.iter().flat_map(|batch| &batch.lines).filter(|line| line.kind == "event");
    let events: Vec<Event> = lines.map(|line| serde_json::from_str(&line.body).unwrap()).collect();
    Document::told(id, "x", status, &Spent::default(), &events)
}

async fn resumed(workflow: &str, store: Arc<dyn Store>, id: &str) -> Result<crate::process::Process, ResumeError> {
    let one = case(workflow);
    let engine = Engine::new(one.program(), Arc::new(one.world())).with_store(store);
    engine.resume(id, one.options).await
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A line as something has made it since.
fn damaged(line: &Line, how: u8, at: usize) -> Vec<Line> {
    let with = |body: String| Line { kind: line.kind, body };
    let cut = |at: usize| (0..=at.min(line.body.len())).rev().find(|at| line.body.is_char_boundary(*at)).unwrap_or(0);
    match how {
        0 => vec![with(line.body[..cut(at)].to_owned())],
        1 => vec![],
        2 => vec![line.clone(), line.clone()],
        3 => {
            let at = cut(at);
            let rest = line.body[at..].chars().skip(1).collect::<String>();
            vec![with(format!("{}7{rest}", &line.body[..at]))]
        }
        4 => {
            // Another number where the line has some.
            let mut value: Value = serde_json::from_str(&line.body).unwrap();
            let mut left = at % 7;
            renumber(&mut value, &mut left);
            vec![with(value.to_string())]
        }
        _ => vec![with(line.body.replace("null", "9"))],
    }
}

fn renumber(value: &mut Value, left: &mut usize) {
    match value {
        Value::Number(_) if *left == 0 => *value = json!(9_999),
        Value::Number(_) => *left -= 1,
        Value::Array(values) => values.iter_mut().for_each(|value| renumber(value, left)),
        Value::Object(values) => values.values_mut().for_each(|value| renumber(value, left)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// A journal that ends anywhere gives the blackboard, the history and the goal as its events had told them by then.
    #[test]
    fn every_prefix_gives_the_blackboard_as_it_was_then(which in 0_usize..3, turns in 0_usize..4) {
        let workflow = [STAGES, PARTS, TALK][which];
        block_on(async {
            let (id, batches) = whole(workflow, turns).await;
            for most in 1..=batches.len() {
                let prefix = &batches[..most];
                let row = prefix[most - 1].row.clone();
                if row.has_ended() {
                    continue;
                }
                let process = resumed(workflow, store_of(prefix).await, &id).await.unwrap();
                let (document, told) = (process.document(), told(&id, process.status(), prefix));
                assert_eq!(document.blackboard, told.blackboard, "after {most} of {}", batches.len());
                let done = |document: &Document| -> Vec<_> {
                    document.history.iter().map(|entry| (entry.action.clone(), entry.status)).collect()
                };
                assert_eq!(done(&document), done(&told), "after {most} of {}", batches.len());
                assert_eq!(document.plans, told.plans, "after {most} of {}", batches.len());
            }
        });
    }

    /// A journal with a line that was cut, lost, doubled or overwritten is refused with its place, or read: the process goes
    /// on then, or ends, and what was not touched is as it was.
    #[test]
    fn a_damaged_journal_is_refused_or_read_and_never_a_crash(
        which in 0_usize..3, line in any::<prop::sample::Index>(), how in 0_u8..6, at in 0_usize..400,
    ) {
        let workflow = [STAGES, PARTS, TALK][which];
        block_on(async {
            let (id, mut batches) = whole(workflow, 1).await;
            batches.pop_if(|batch| batch.row.has_ended());
            let mut lines: Vec<Line> = batches.iter().flat_map(|batch| batch.lines.clone()).collect();
            let records: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].kind == "record").collect();
            let victim = records[line.index(records.len())];
            let new = damaged(&lines[victim], how, at);
            lines.splice(victim..=victim, new);
            let mut row = batches.last().unwrap().row.clone();
            row.lines = 0;
            let store = store_of(&[Batch { row, lines: lines.clone(), context: None }]).await;
            match resumed(workflow, store.clone(), &id).await {
                Err(error) => {
                    let told = error.to_string();
                    assert!(told.contains(&id), "{told}");
                    let kept = store.lines(&id, "record").await.unwrap();
                    let before: Vec<String> =
                        lines.iter().filter(|line| line.kind == "record").map(|line| line.body.clone()).collect();
                    assert_eq!(kept, before);
                }
                Ok(mut process) => {
                    process.run().await;
                    process.document();
                }
            }
        });
    }
}

#[tokio::test]
async fn a_line_that_breaks_off_is_named() {
    let (id, batches) = whole(STAGES, 0).await;
    let mut lines: Vec<Line> = batches.iter().flat_map(|batch| batch.lines.clone()).collect();
    let second = lines.iter().position(|line| line.body.contains("\"started\"") && line.kind == "record").unwrap();
    lines[second].body.truncate(40);
    let mut row = batches.last().unwrap().row.clone();
    row.lines = 0;
    let store = store_of(&[Batch { row, lines, context: None }]).await;
    let refused = resumed(STAGES, store, &id).await.err().unwrap().to_string();
    assert!(refused.starts_with(&format!("the journal of {id} is damaged in record 2 of ")), "{refused}");
    assert!(refused.contains(", which breaks off: ") && refused.contains(&format!("agent-run kill {id}")), "{refused}");
}
