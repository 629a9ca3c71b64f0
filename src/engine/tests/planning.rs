//! Which actions run, in which order, and when a process plans again.

use serde_json::json;

use super::{Case, failure, output, ran};
use crate::process::Status;

#[tokio::test]
async fn a_chain_runs_to_its_goal() {
    let document = Case::new(
        "agent: chain
types: {Person: {name: string}, Story: string}
inputs: UserInput
actions:
  write: {inputs: Person, output: Story, set: 'About {{ person.name }}'}
  extract: {inputs: UserInput, output: Person, set: {name: '{{ user_input.content }}'}}
goals: {told: {output: Story}}
",
    )
    .run()
    .await;
    assert_eq!((document.status, document.goal.as_deref()), (Status::Completed, Some("told")));
    assert_eq!(ran(&document), ["extract", "write"]);
    assert_eq!(document.plans, [["extract", "write"]]);
    assert_eq!(output(&document), json!("About hello"));
    let names: Vec<_> =
        document.blackboard.iter().map(|entry| (entry.r#type.as_str(), entry.name.as_deref())).collect();
    assert_eq!(names, [("UserInput", Some("user_input")), ("Person", None), ("Story", None)]);
    assert_eq!(document.blackboard[0].value["timestamp"], "2025-01-01T00:00:00Z");
}

#[tokio::test]
async fn a_null_result_is_replanned_around() {
    let document = Case::new(
        "agent: two_ways
types: {Story: string}
inputs: UserInput
actions:
  cheap: {inputs: UserInput, output: Story?, cost: 0.1, set: null}
  dear: {inputs: UserInput, output: Story, cost: 0.9, set: a story}
goals: {told: {output: Story}}
",
    )
    .run()
    .await;
    assert_eq!(ran(&document), ["cheap empty", "dear"]);
    assert_eq!(document.plans, [["cheap"], ["dear"]]);
    assert_eq!(output(&document), json!("a story"));
}

#[tokio::test]
async fn a_failed_action_is_out_and_another_way_is_taken() {
    let workflow = |on_error: &str| {
        format!(
            "agent: fallback
types: {{Story: string}}
inputs: UserInput
actions:
  cheap: {{inputs: UserInput, output: Story, cost: 0.1, {on_error} prompt: hi}}
  dear: {{inputs: UserInput, output: Story, cost: 0.9, set: a story}}
goals: {{told: {{output: Story}}}}
"
        )
    };
    let refuse = json!([{"refuse": "no"}]);
    let document = Case::new(&workflow("")).script(refuse.clone()).run().await;
    assert_eq!(ran(&document), ["cheap failed", "dear"]);
    let document = Case::new(&workflow("on_error: fail,")).script(refuse.clone()).run().await;
    assert_eq!((document.status, ran(&document)), (Status::Failed, vec!["cheap failed".to_owned()]));
    assert_eq!(failure(&document).0, "refusal");
    let document = Case::new(&workflow("on_error: {output: instead},")).script(refuse).run().await;
    assert_eq!((ran(&document), output(&document)), (vec!["cheap recovered".to_owned()], json!("instead")));
}

#[tokio::test]
async fn when_no_way_is_left_the_first_cause_is_told() {
    let document = Case::new(
        "agent: hopeless
types: {Story: string}
inputs: UserInput
actions:
  only: {inputs: UserInput, output: Story, prompt: hi}
goals: {told: {output: Story}}
",
    )
    .script(json!([{"refuse": "not that"}]))
    .run()
    .await;
    assert_eq!(document.status, Status::Failed);
    let failure = document.failure.unwrap();
    assert_eq!((failure.action.as_deref(), failure.kind.as_str()), (Some("only"), "refusal"));
    assert!(failure.message.contains("not that"));
}

const CHECKED: &str = "agent: checked
types: {Assessment: {urgency: number}, Quick: string, Slow: string}
inputs: UserInput
actions:
  assess: {inputs: UserInput, output: Assessment, prompt: 'How urgent is {{ user_input.content }}?'}
  quick: {inputs: Assessment, pre: urgent, output: Quick, set: now}
  slow: {inputs: Assessment, pre: not urgent, output: Slow, set: later}
conditions: {urgent: assessment.urgency > 0.5}
goals: {done: {output: Quick, value: 0.9}, waits: {output: Slow, value: 0.1}}
";

#[tokio::test]
async fn a_disappointed_assumption_leads_to_another_plan() {
    let document = Case::new(CHECKED).script(json!([{"reply": {"urgency": 0.9}}])).run().await;
    assert_eq!(
        (ran(&document), document.goal.as_deref()),
        (vec!["assess".to_owned(), "quick".to_owned()], Some("done"))
    );
    assert_eq!(document.plans.len(), 1);
    let document = Case::new(CHECKED).script(json!([{"reply": {"urgency": 0.1}}])).run().await;
    assert_eq!(
        (ran(&document), document.goal.as_deref()),
        (vec!["assess".to_owned(), "slow".to_owned()], Some("waits"))
    );
    assert_eq!(document.plans, [vec!["assess", "quick"], vec!["slow"]]);
}

#[tokio::test]
async fn an_effect_that_did_not_come_is_not_hoped_for_again() {
    let document = Case::new(
        "agent: retry
types: {Assessment: {urgency: number}, Quick: string}
inputs: UserInput
actions:
  assess: {inputs: UserInput, output: Assessment, can_rerun: true, set: {urgency: 0.1}}
  quick: {inputs: Assessment, pre: assessment.urgency > 0.5, output: Quick, set: now}
goals: {done: {output: Quick}}
",
    )
    .run()
    .await;
    assert_eq!((document.status, ran(&document)), (Status::Stuck, vec!["assess".to_owned()]));
    assert_eq!(failure(&document).0, "stuck");
}

#[tokio::test]
async fn costs_that_are_exprs_are_computed_on_the_blackboard() {
    let workflow = "agent: costs
types: {Order: {size: integer}, Story: string}
inputs: Order
actions:
  small: {inputs: Order, output: Story, cost: order.size * 0.1, set: small}
  large: {inputs: Order, output: Story, cost: 0.5, set: large}
goals: {told: {output: Story}}
";
    for (size, expected) in [(1, "small"), (9, "large")] {
        let inputs = vec![super::Input::Typed("Order".into(), json!({"size": size}))];
        let document = Case::new(workflow).inputs(inputs).run().await;
        assert_eq!(output(&document), json!(expected));
    }
    let inputs = vec![super::Input::Typed("Order".into(), json!({"size": -1}))];
    let document = Case::new(workflow).inputs(inputs).run().await;
    assert_eq!(document.status, Status::Failed);
    assert!(failure(&document).1.contains("not below zero"), "{:?}", document.failure);
}

#[tokio::test]
async fn a_trigger_runs_once_for_each_newest_object() {
    let document = Case::new(
        "agent: triggered
types: {Note: string, Echo: string, Story: string}
inputs: UserInput
actions:
  note: {inputs: UserInput, output: Note, set: noted}
  heard: {trigger: Note, inputs: Note, post: seen, set: null}
  tell: {inputs: Note, pre: seen, output: Story, set: told}
conditions: {seen: false}
goals: {told: {output: Story}}
",
    )
    .run()
    .await;
    assert_eq!(ran(&document), ["note", "heard", "tell"]);
}

#[tokio::test]
async fn a_trigger_is_not_pulled_twice_by_one_object() {
    let document = Case::new(
        "agent: once
planner: utility
types: {Log: string}
inputs: UserInput
actions:
  heard: {trigger: UserInput, inputs: UserInput, value: 0.5, set: null}
",
    )
    .run()
    .await;
    assert_eq!((document.status, ran(&document)), (Status::Completed, vec!["heard".to_owned()]));
}

#[tokio::test]
async fn the_run_can_be_for_one_goal_or_one_type() {
    let workflow = "agent: goals
types: {A: string, B: string, C: string}
inputs: UserInput
actions:
  a: {inputs: UserInput, output: A, set: a}
  b: {inputs: A, output: B, set: b}
  c: {inputs: B, output: C, set: c}
goals: {first: {output: A}, last: {output: C}}
";
    let document = Case::new(workflow).options(|options| options.goal = Some("last".into())).run().await;
    assert_eq!((ran(&document).len(), output(&document)), (3, json!("c")));
    let document = Case::new(workflow).options(|options| options.returns = Some("B".into())).run().await;
    assert_eq!((ran(&document).len(), output(&document)), (2, json!("b")));
    let error = Case::new(workflow).options(|options| options.goal = Some("lasst".into())).try_run().await.unwrap_err();
    assert!(error.to_string().contains("did you mean `last`?"), "{error}");
}

#[tokio::test]
async fn independent_steps_run_side_by_side_under_concurrency() {
    let workflow = |concurrency: u32| {
        format!(
            "agent: parallel
concurrency: {concurrency}
types: {{A: string, B: string, C: string}}
inputs: UserInput
actions:
  a: {{inputs: UserInput, output: A, prompt: a}}
  b: {{inputs: UserInput, output: B, prompt: b}}
  c: {{inputs: [A, B], output: C, set: '{{{{ a }}}}{{{{ b }}}}'}}
goals: {{done: {{output: C}}}}
"
        )
    };
    let script = json!([
        {"when": {"action": "a"}, "reply": "a", "delay": "100ms"},
        {"when": {"action": "b"}, "reply": "b", "delay": "100ms"},
    ]);
    for (concurrency, least) in [(1, 200), (2, 100)] {
        let started = std::time::Instant::now();
        let document = Case::new(&workflow(concurrency)).script(script.clone()).run().await;
        let ms = started.elapsed().as_millis();
        assert_eq!(output(&document), json!("ab"));
        assert_eq!(ran(&document), ["a", "b", "c"]);
        assert!(ms >= least && ms < least + 90, "{concurrency}: {ms} ms");
    }
}

#[tokio::test]
async fn a_prompted_condition_is_asked_when_the_next_step_hangs_on_it() {
    let document = Case::new(
        "agent: polite
types: {Draft: {text: string}, Sent: string}
inputs: UserInput
actions:
  draft: {inputs: UserInput, output: Draft, set: {text: hi}}
  send: {inputs: Draft, pre: polite, output: Sent, set: sent}
conditions:
  polite: {inputs: Draft, prompt: 'Is this polite? {{ draft.text }}', confidence: 0.8}
goals: {done: {output: Sent}}
",
    )
    .script(json!([{"when": {"action": "polite", "contains": "hi"}, "reply": {"holds": true, "confidence": 0.9, "why": "x"}}]))
    .run()
    .await;
    assert_eq!((document.status, ran(&document)), (Status::Completed, vec!["draft".to_owned(), "send".to_owned()]));
    assert_eq!(document.usage.llm_calls, 1);
}

#[tokio::test]
async fn utility_takes_the_most_worthwhile_action_until_nothing_is_left() {
    let document = Case::new(
        "agent: useful
planner: utility
types: {A: string, B: string}
inputs: UserInput
actions:
  low: {inputs: UserInput, output: A, value: 0.2, set: a}
  high: {inputs: UserInput, output: B, value: 0.9, set: b}
",
    )
    .run()
    .await;
    assert_eq!((document.status, ran(&document)), (Status::Completed, vec!["high".to_owned(), "low".to_owned()]));
}
