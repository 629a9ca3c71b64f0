//! Bodies in bodies: tools, people and sub-processes inside parts, and what becomes of the other parts.

use std::sync::{Arc, Mutex, mpsc};

use serde_json::{Value, json};

use super::{Case, failure, output, ran};
use crate::action::context::Question;
use crate::engine::{Engine, Person};
use crate::process::{Event, Status, What};
use crate::store::{MemoryStore, Store};

const MAP: &str = "agent: map
types: {Wish: {items: list<string>}, Line: {text: string}, Note: {text: string}}
inputs: Wish
tools:
  ask_clerk: {description: Ask the clerk, parameters: {item: string}, agent: {name: clerk, with: {Note: {text: '{{ item }}'}}}}
actions:
  look:
    inputs: Wish
    output: list<Line>
    scatter_gather: {over: wish.items, as: item, concurrency: 3, do: {prompt: 'look up {{ item }}', tools: ask_clerk}}
goals: {done: {output: list<Line>}}
";

const CLERK: &str = "agent: clerk
types: {Note: {text: string}, Word: {text: string}, Line: {text: string}}
inputs: Note
actions:
  ask: {inputs: Note, output: Word, ask: 'What of {{ note.text }}?'}
  tell: {inputs: [Note, Word], output: Line, prompt: 'clerk {{ note.text }} {{ word.text }}', achieves: Told}
";

/// A part looks its item up with the clerk, and repeats what the clerk says.
fn map(items: &[&str]) -> Case {
    let rules = items.iter().flat_map(|item| {
        let about = format!("look up {item}");
        [
            json!({"when": {"action": "look", "contains": about, "turn": 1}, "call": {"tool": "ask_clerk", "with": {"item": item}}}),
            json!({"when": {"action": "look", "contains": about, "turn": 2}, "reply": {"text": format!("{item} found")}}),
            json!({"when": {"action": "tell", "contains": format!("clerk {item}")}, "reply": {"text": format!("{item} told")}}),
        ]
    });
    let rules: Value = rules.collect();
    let wish = crate::engine::Input::Typed("Wish".to_owned(), json!({"items": items}));
    Case::new(MAP).file("workflows/clerk.yaml", CLERK).script(rules).inputs(vec![wish])
}

/// Counts the requests to models, by the text of their last user message.
fn counting(case: &mut Case) -> Arc<Mutex<Vec<Event>>> {
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let heard = events.clone();
    case.options.observer = Some(Arc::new(move |event: &Event| heard.lock().unwrap().push(event.clone())));
    events
}

fn count(events: &Mutex<Vec<Event>>, is: impl Fn(&What) -> bool) -> usize {
    events.lock().unwrap().iter().filter(|event| is(&event.what)).count()
}

#[tokio::test]
async fn waiting_in_a_sub_agent_in_a_tool_call_in_a_parallel_map_resumes() {
    let mut case = map(&["ants", "bees", "cats"]);
    let events = counting(&mut case);
    let (engine, name) = case.engine();
    let mut process = engine.start(&name, case.inputs, case.options).unwrap();
    let mut asked = Vec::new();
    while process.run().await == Status::Waiting {
        let question = process.waiting().unwrap().question.clone();
        asked.push(question.prompt);
        assert!(asked.len() < 9, "{asked:?}");
        process.answer(json!({"text": "well"})).await.unwrap();
    }
    assert_eq!(process.status(), Status::Completed, "{:?}", process.failure());
    asked.sort();
    assert_eq!(asked, ["What of ants?", "What of bees?", "What of cats?"]);
    let document = process.document();
    assert_eq!(output(&document), json!([{"text": "ants found"}, {"text": "bees found"}, {"text": "cats found"}]));
    // Two turns of each part and one call of each clerk: nothing was asked twice.
    assert_eq!(count(&events, |what| matches!(what, What::LlmRequest { .. })), 9);
    assert_eq!(document.usage.llm_calls, 9);
    assert_eq!(count(&events, |what| matches!(what, What::PartFinished { .. })), 3, "each part is told once");
    assert_eq!(count(&events, |what| matches!(what, What::ToolResult { .. })), 3);
}

#[tokio::test]
async fn the_same_goes_on_in_another_program_after_each_answer() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let program = map(&["ants", "bees"]).program();
    let engine = || Engine::new(program.clone(), Arc::new(map(&[]).world())).with_store(store.clone());
    let case = map(&["ants", "bees"]);
    let mut process = engine().start("map", case.inputs, case.options).unwrap();
    let id = process.core().id.clone();
    assert_eq!(process.run().await, Status::Waiting);
    drop(process);
    let mut calls = 0;
    for _ in 0..2 {
        let mut case = map(&["ants", "bees"]);
        let events = counting(&mut case);
        let mut process = engine().resume(&id, case.options).await.unwrap();
        assert_eq!(process.status(), Status::Waiting);
        process.answer(json!({"text": "well"})).await.unwrap();
        process.run().await;
        calls += count(&events, |what| matches!(what, What::LlmRequest { .. }));
        if process.has_ended() && process.status() == Status::Completed {
            assert_eq!(output(&process.document()), json!([{"text": "ants found"}, {"text": "bees found"}]));
        }
    }
    let row = store.row(&id).await.unwrap().unwrap();
    assert_eq!((row.status.as_str(), calls), ("completed", 4));
}

#[tokio::test]
async fn a_process_that_is_ended_takes_its_sub_processes_with_it() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let case = map(&["ants"]);
    let engine = Engine::new(case.program(), Arc::new(case.world())).with_store(store.clone());
    let mut process = engine.start("map", case.inputs, case.options).unwrap();
    let id = process.core().id.clone();
    assert_eq!(process.run().await, Status::Waiting);
    drop(process);
    crate::engine::end_stored(&store, &id).await.unwrap();
    let children = store.children(&id).await.unwrap();
    assert_eq!(children.len(), 1);
    let row = store.row(&children[0].process).await.unwrap().unwrap();
    assert_eq!(row.status, "killed");
}

#[tokio::test]
async fn tools_of_a_body_inside_a_body_are_confirmed_and_unfold() {
    let workflow = "agent: nested
types: {Line: {text: string}}
inputs: UserInput
tools:
  pay: {description: Pays, parameters: {sum: integer}, confirm: 'Pay {{ sum }}?', set: 'paid {{ sum }}'}
  desk: {description: The desk, unfold: {tools: [pay]}}
actions:
  go:
    inputs: UserInput
    output: Line
    repeat_until: {do: {prompt: 'attempt {{ attempts | length }}', tools: desk}, until: \"'done' in result.text\", max: 2}
goals: {done: {output: Line}}
";
    let turn = |attempt: usize, turn: usize, what: Value| {
        let mut rule = json!({"when": {"action": "go", "contains": format!("attempt {attempt}"), "turn": turn}});
        rule.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        rule
    };
    let rules = json!([
        turn(0, 1, json!({"call": {"tool": "desk"}})),
        turn(0, 2, json!({"call": {"tool": "pay", "with": {"sum": 3}}})),
        turn(0, 3, json!({"reply": {"text": "refused"}})),
        turn(1, 1, json!({"call": {"tool": "desk", "with": {"pay": {"sum": 4}}}})),
        turn(1, 2, json!({"reply": {"text": "done"}})),
    ]);
    let mut case = Case::new(workflow).script(rules);
    let events = counting(&mut case);
    let (engine, name) = case.engine();
    let mut process = engine.start(&name, case.inputs, case.options).unwrap();
    for (prompt, agrees) in [("Pay 3?", false), ("Pay 4?", true)] {
        assert_eq!(process.run().await, Status::Waiting, "{:?}", process.failure());
        let pending = process.waiting().unwrap().clone();
        assert_eq!(pending.question.prompt, prompt);
        assert!(pending.path.starts_with("go#1/attempt"), "{}", pending.path);
        process.answer(json!({"confirm": agrees})).await.unwrap();
    }
    assert_eq!(process.run().await, Status::Completed, "{:?}", process.failure());
    let document = process.document();
    assert_eq!((output(&document), document.usage.llm_calls), (json!({"text": "done"}), 5));
    assert_eq!(count(&events, |what| matches!(what, What::PartFinished { .. })), 2);
}

#[tokio::test]
async fn enough_parts_are_enough_but_a_tool_that_plans_again_does_so() {
    let workflow = "agent: some
types: {Line: {text: string}, Other: {text: string}}
inputs: UserInput
tools:
  stop: {description: Plans again, publish: Other, replan: true, set: {text: x}}
actions:
  look:
    inputs: UserInput
    output: list<Line>
    cost: 0.1
    scatter_gather:
      branches: [{prompt: one}, {prompt: two}, {prompt: three, tools: stop}]
      min: 2
  other: {inputs: Other, output: Line, set: {text: other}}
goals: {done: {output: Line}}
";
    let rule = |contains: &str, what: Value| {
        let mut rule = json!({"when": {"action": "look", "contains": contains}});
        rule.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        rule
    };
    let fails = || rule("one", json!({"refuse": "no"}));
    let good = |contains: &str| rule(contains, json!({"reply": {"text": contains}}));
    let document = Case::new(workflow).script(json!([fails(), good("two"), good("three")])).run().await;
    assert_eq!(
        (document.status, ran(&document)),
        (Status::Completed, vec!["look".to_owned()]),
        "{:?}",
        document.failure
    );
    let two_fail = json!([fails(), rule("two", json!({"refuse": "no"})), good("three")]);
    let document = Case::new(workflow).script(two_fail).run().await;
    assert_eq!(document.status, Status::Failed);
    let message = failure(&document).1;
    assert!(message.starts_with("2 of 3 parts failed and 2 must succeed; part 1: "), "{message}");
    let stops = json!([good("one"), good("two"), rule("three", json!({"call": {"tool": "stop"}}))]);
    let document = Case::new(workflow).script(stops).run().await;
    assert_eq!(ran(&document), ["look empty", "other"], "{:?}", document.failure);
}

#[tokio::test]
async fn independent_steps_of_a_state_run_side_by_side_and_an_entry_stands_alone() {
    let workflow = "agent: states
concurrency: 3
types: {A: {text: string}, B: {text: string}, End: {text: string}}
inputs: UserInput
states:
  Work:
    fields: {text: string}
    actions:
      a: {output: A, prompt: a}
      b: {output: B, prompt: b}
      both: {inputs: [A, B], output: Rest, set: {text: '{{ a.text }}{{ b.text }}'}}
  Rest:
    fields: {text: string}
    actions:
      end: {output: End, set: {text: '{{ text }} {{ count(\"A\") }}'}, achieves: Done}
actions:
  begin: {inputs: UserInput, output: Work, set: {text: x}}
";
    let rules = json!([{"when": {"action": "Work.a"}, "reply": {"text": "1"}}, {"when": {"action": "Work.b"}, "reply": {"text": "2"}}]);
    let (document, events) = Case::new(workflow).script(rules).observed().await;
    assert_eq!(ran(&document), ["begin", "Work.a", "Work.b", "Work.both", "Rest.end"], "{:?}", document.failure);
    assert_eq!(output(&document), json!({"text": "12 0"}));
    let order: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::ActionStarted { action, .. } => Some(format!("+{action}")),
            What::ActionFinished { action, .. } => Some(format!("-{action}")),
            _ => None,
        })
        .collect();
    assert_eq!(order[2..6], ["+Work.a", "+Work.b", "-Work.a", "-Work.b"]);
}

/// Someone who is asked and says nothing until the test is over.
struct Silent(Mutex<mpsc::Receiver<()>>);

impl Person for Silent {
    fn confirm(&self, _: &str) -> bool {
        false
    }
    fn answer(&self, _: &Question) -> Option<Value> {
        let _ = self.0.lock().unwrap().recv();
        None
    }
}

#[tokio::test]
async fn a_question_that_no_one_answers_in_time_fails_in_a_running_program() {
    let workflow = "agent: asks
types: {Word: {text: string}, End: {text: string}}
inputs: UserInput
actions:
  ask: {inputs: UserInput, output: Word, ask: {prompt: A word?, timeout: 20ms}}
  guess: {inputs: UserInput, output: Word, cost: 1, set: {text: guessed}}
  end: {inputs: Word, output: End, set: {text: '{{ word.text }}'}, achieves: Done}
";
    let case = Case::new(workflow);
    let (ends, silence) = mpsc::channel();
    let person = Arc::new(Silent(Mutex::new(silence)));
    let engine = Engine::with_person(case.program(), Arc::new(case.world()), person);
    let mut process = engine.start("asks", case.inputs, case.options).unwrap();
    assert_eq!(process.run().await, Status::Completed, "{:?}", process.failure());
    let document = process.document();
    assert_eq!(ran(&document), ["ask failed", "guess", "end"]);
    drop(ends);
}
