//! What actions do to the blackboard, failures, retries and limits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{Case, Input, failure, output, ran};
use crate::action::{Body, Context, Failure};
use crate::engine::Engine;
use crate::process::{Status, What};
use crate::world::MemoryWorld;

#[tokio::test]
async fn clear_blackboard_leaves_the_output_and_kept_types() {
    let document = Case::new(
        "agent: clears
keep: Owner
types: {Owner: string, Raw: string, Text: string}
inputs: [UserInput, Owner]
actions:
  read: {inputs: UserInput, output: Raw, set: raw}
  clean: {inputs: Raw, output: Text, clear_blackboard: true, set: text}
goals: {done: {output: Text}}
",
    )
    .inputs(vec![Input::Text("x".into()), Input::Typed("Owner".into(), json!("me"))])
    .run()
    .await;
    let types: Vec<&str> = document.blackboard.iter().map(|entry| entry.r#type.as_str()).collect();
    assert_eq!(types, ["Owner", "Text"]);
}

#[tokio::test]
async fn hidden_inputs_are_gone_for_later_actions() {
    let document = Case::new(
        "agent: hides
types: {Draft: string, Final: string}
inputs: UserInput
actions:
  draft: {inputs: UserInput, output: Draft, set: draft}
  finish: {inputs: {old: Draft}, output: Final, hide: old, set: '{{ old }}!'}
goals: {done: {output: Final}}
",
    )
    .run()
    .await;
    let types: Vec<&str> = document.blackboard.iter().map(|entry| entry.r#type.as_str()).collect();
    assert_eq!((types, output(&document)), (vec!["UserInput", "Final"], json!("draft!")));
}

#[tokio::test]
async fn lists_names_and_optional_inputs_reach_the_strings() {
    let document = Case::new(
        "agent: inputs
types: {Story: string, Owner: {name: string}, Note: string, Report: string}
inputs: UserInput
actions:
  stories: {inputs: UserInput, output: list<Story>, set: [one, two]}
  owner: {inputs: UserInput, output: {type: Owner, name: boss}, set: {name: Lynda}}
  report:
    inputs: {stories: list<Story>, boss: {type: Owner, named: true}, note: Note?}
    output: Report
    set: \"{{ stories | join('+') }} {{ boss.name }} {{ note is defined }} {{ inputs.stories | length }}\"
goals: {done: {output: Report}}
",
    )
    .run()
    .await;
    assert_eq!(output(&document), json!("one+two Lynda false 2"));
    let owner = document.blackboard.iter().find(|entry| entry.r#type == "Owner").unwrap();
    assert_eq!(owner.name.as_deref(), Some("boss"));
}

#[tokio::test]
async fn some_of_and_subtypes_come_as_their_own_types() {
    let document = Case::new(
        "agent: animals
types: {Animal: {abstract: true}, Frog: {is: Animal, fields: {name: string}}, Dog: {is: Animal, fields: {name: string}}, Tale: string}
inputs: UserInput
actions:
  find: {inputs: UserInput, output: [Frog, Dog], prompt: which}
  tell: {inputs: Frog, output: Tale, set: 'the frog {{ frog.name }}'}
goals: {told: {output: Tale}}
",
    )
    .script(json!([{"reply": {"frog": {"name": "Kermit"}, "dog": null}}]))
    .run()
    .await;
    assert_eq!(output(&document), json!("the frog Kermit"));
    let document = Case::new(
        "agent: animal
types: {Animal: {abstract: true}, Frog: {is: Animal, fields: {name: string}}, Dog: {is: Animal, fields: {name: string}}, Tale: string}
inputs: UserInput
actions:
  find: {inputs: UserInput, output: Animal, prompt: which}
  frog: {inputs: Frog, output: Tale, set: 'the frog {{ frog.name }}'}
  dog: {inputs: Dog, output: Tale, set: 'the dog {{ dog.name }}'}
goals: {told: {output: Tale}}
",
    )
    .script(json!([{"reply": {"type": "Dog", "name": "Rex"}}]))
    .run()
    .await;
    assert_eq!(output(&document), json!("the dog Rex"));
    let dog = document.blackboard.iter().find(|entry| entry.r#type == "Dog").unwrap();
    assert_eq!(dog.value, json!({"name": "Rex"}));
}

const RETRIED: &str = "agent: retried
types: {Story: string}
inputs: UserInput
actions:
  tell: {inputs: UserInput, output: Story, retry: {attempts: 3, backoff: 2s, multiplier: 3}, delay: 1s, prompt: hi}
goals: {told: {output: Story}}
";

#[tokio::test(start_paused = true)]
async fn a_failed_action_is_tried_again_after_growing_pauses() {
    let start = tokio::time::Instant::now();
    let script = json!([{"when": {"action": "tell"}, "turns": [{"refuse": "a"}, {"refuse": "b"}, {"reply": "told"}]}]);
    let (document, events) = Case::new(RETRIED).script(script).observed().await;
    assert_eq!((output(&document), document.history[0].attempts), (json!("told"), 3));
    assert_eq!(start.elapsed(), Duration::from_secs(1 + 2 + 6));
    let waits: Vec<u64> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::Retrying { wait_ms, .. } => Some(*wait_ms),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [2_000, 6_000]);
}

#[tokio::test(start_paused = true)]
async fn an_action_that_takes_too_long_fails_with_timeout() {
    let document = Case::new(
        "agent: slow
types: {Story: string}
inputs: UserInput
actions:
  tell: {inputs: UserInput, output: Story, timeout: 5s, prompt: hi}
goals: {told: {output: Story}}
",
    )
    .script(json!([{"reply": "told", "delay": "10s"}]))
    .run()
    .await;
    assert_eq!(failure(&document), ("timeout".to_owned(), "`tell` did not end within 5 s".to_owned()));
}

const THREE: &str = "agent: three
types: {A: string, B: string, C: string}
inputs: UserInput
actions:
  a: {inputs: UserInput, output: A, prompt: a}
  b: {inputs: A, output: B, prompt: b}
  c: {inputs: B, output: C, prompt: c}
goals: {done: {output: C}}
";

#[tokio::test]
async fn limits_end_a_process_with_the_figure_and_keep_what_was_done() {
    let replies = json!([{"reply": "x", "usage": {"input_tokens": 400000, "output_tokens": 100}}]);
    let case = || Case::new(THREE).script(replies.clone());
    let document = case().options(|options| options.limits.actions = Some(2)).run().await;
    assert_eq!((document.status, ran(&document).len()), (Status::Terminated, 2));
    assert_eq!(failure(&document), ("limit".to_owned(), "the limit of 2 actions is reached".to_owned()));
    let document = case().options(|options| options.limits.tokens = Some(400_000)).run().await;
    assert_eq!((document.status, ran(&document).len()), (Status::Terminated, 1));
    assert!(failure(&document).1.contains("400100 used"), "{:?}", document.failure);
    let document = case().options(|options| options.limits.cost = Some(0.2)).run().await;
    assert_eq!((document.status, ran(&document).len()), (Status::Terminated, 2));
    assert_eq!(document.blackboard.len(), 3);
    assert!(document.usage.cost_usd > 0.3);
}

#[tokio::test]
async fn a_limit_on_llm_calls_holds_inside_an_action_too() {
    let workflow = THREE.replace("inputs: UserInput\nactions", "limits: {llm_calls: 2}\ninputs: UserInput\nactions");
    let document = Case::new(&workflow).script(json!([{"reply": "x"}])).run().await;
    assert_eq!(
        (document.status, ran(&document)),
        (Status::Terminated, vec!["a".to_owned(), "b".to_owned(), "c failed".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_kill_drops_what_is_under_way() {
    let case = Case::new(THREE).script(json!([{"reply": "x", "delay": "1h"}]));
    let kill = case.options.kill.clone();
    let start = tokio::time::Instant::now();
    let killer = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        kill.kill();
    };
    let (document, ()) = tokio::join!(case.run(), killer);
    assert_eq!((document.status, ran(&document)), (Status::Killed, vec!["a failed".to_owned()]));
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test]
async fn a_sub_agent_runs_on_its_parents_blackboard_and_adds_only_its_result() {
    let case = |call: &str| {
        Case::new(&format!(
            "agent: parent
types: {{Topic: string, Fact: string, Story: string, Report: string}}
inputs: UserInput
actions:
  topic: {{inputs: UserInput, output: Topic, set: frogs}}
  story: {{inputs: Topic, output: Story, agent: {call}}}
  report: {{inputs: Story, output: Report, set: '<{{{{ story }}}}>'}}
goals: {{done: {{output: Report}}}}
"
        ))
        .file(
            "workflows/child.yaml",
            "agent: child
description: Tells a story
types: {Topic: string, Fact: string, Story: string}
inputs: Topic
actions:
  fact: {inputs: Topic, output: Fact, prompt: 'A fact on {{ topic }}'}
  tell: {inputs: Fact, output: Story, set: 'A story: {{ fact }}'}
goals: {told: {output: Story}}
",
        )
        .script(json!([{"when": {"contains": "frogs"}, "reply": "green"}, {"when": {"contains": "dogs"}, "reply": "loyal"}]))
    };
    let (document, events) = case("child").observed().await;
    assert_eq!(output(&document), json!("<A story: green>"));
    let types: Vec<&str> = document.blackboard.iter().map(|entry| entry.r#type.as_str()).collect();
    assert_eq!(types, ["UserInput", "Topic", "Story", "Report"]);
    assert_eq!(document.usage.llm_calls, 1);
    let parents: Vec<Option<String>> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::ProcessCreated { parent, .. } => Some(parent.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(parents, [None, Some("P1".to_owned())]);
    let document = case("{name: child, with: {topic: dogs}}").run().await;
    assert_eq!(output(&document), json!("<A story: loyal>"));
}

#[tokio::test]
async fn a_sub_agent_shares_the_budget_and_its_failure_is_the_actions() {
    let case = || {
        Case::new(
            "agent: parent
types: {Story: string}
inputs: UserInput
actions: {story: {inputs: UserInput, output: Story, agent: child}}
goals: {done: {output: Story}}
",
        )
        .file(
            "workflows/child.yaml",
            "agent: child
description: Tells a story
types: {Fact: string, Story: string}
inputs: UserInput
actions:
  fact: {inputs: UserInput, output: Fact, prompt: fact}
  tell: {inputs: Fact, output: Story, prompt: tell}
goals: {told: {output: Story}}
",
        )
    };
    let reply = json!([{"reply": "x", "usage": {"input_tokens": 100, "output_tokens": 100}}]);
    let document = case().script(reply).options(|options| options.limits.tokens = Some(150)).run().await;
    assert_eq!((document.status, failure(&document).0), (Status::Terminated, "limit".to_owned()));
    let document = case().script(json!([{"refuse": "no"}])).run().await;
    assert_eq!((document.status, failure(&document).0), (Status::Failed, "refusal".to_owned()));
    assert!(failure(&document).1.starts_with("the agent `child`:"), "{:?}", document.failure);
}

#[tokio::test]
async fn agents_that_run_one_another_end_at_the_depth_limit() {
    let document = Case::new(
        "agent: endless
description: Runs itself
types: {Story: string}
inputs: UserInput
actions: {again: {inputs: UserInput, output: Story, agent: endless}}
goals: {done: {output: Story}}
",
    )
    .run()
    .await;
    assert_eq!((document.status, failure(&document).0), (Status::Terminated, "limit".to_owned()));
    assert!(failure(&document).1.contains("8 nested processes"), "{:?}", document.failure);
}

/// A body with a bug.
#[derive(Debug)]
struct Bug;

#[async_trait::async_trait]
impl Body for Bug {
    fn kind(&self) -> &'static str {
        "bug"
    }

    async fn perform(&self, _: &dyn Context) -> Result<serde_json::Value, Failure> {
        panic!("index out of bounds")
    }
}

#[tokio::test]
async fn a_panic_in_a_body_is_a_failure_of_that_action_alone() {
    let workflow = "agent: bug
types: {Story: string}
inputs: UserInput
actions:
  first: {inputs: UserInput, output: Story, cost: 0.1, set: never}
  second: {inputs: UserInput, output: Story, cost: 0.2, set: told}
goals: {told: {output: Story}}
";
    let case = Case::new(workflow);
    let mut program = Arc::try_unwrap(case.program()).expect("the only owner");
    let agent = Arc::get_mut(&mut program.agents[0]).expect("the only owner");
    agent.actions[0].body = Arc::new(Bug);
    let engine = Engine::new(Arc::new(program), Arc::new(MemoryWorld::new()));
    let mut process = engine.start("bug", case.inputs.clone(), case.options.clone()).unwrap();
    process.run().await;
    let document = process.document();
    assert_eq!(
        (ran(&document), output(&document)),
        (vec!["first failed".to_owned(), "second".to_owned()], json!("told"))
    );
}
