//! The planners `utility` and `hybrid`: what is taken, what is asked, when it ends.

use serde_json::json;

use super::{Case, failure, ran};
use crate::decl::workflow::PlannerKind;
use crate::process::Status;

const ASKED: &str = "agent: asked
planner: utility
types: {A: string, B: string, C: string}
inputs: UserInput
actions:
  low: {inputs: UserInput, output: A, value: 0.1, set: a}
  asked: {inputs: UserInput, pre: nice, output: B, value: 0.9, set: b}
  tied: {inputs: UserInput, output: C, value: 0.3, cost: 0.2, set: c}
conditions:
  nice: {inputs: UserInput, prompt: 'nice? {{ user_input.content }}', confidence: 0.5}
";

#[tokio::test]
async fn a_condition_is_asked_when_the_most_worthwhile_action_hangs_on_it() {
    let answered = |holds: bool, confidence: f64| {
        let reply = json!({"holds": holds, "confidence": confidence, "why": "x"});
        Case::new(ASKED).script(json!([{"when": {"action": "nice"}, "reply": reply}])).run()
    };
    let document = answered(true, 0.9).await;
    assert!(document.plans.is_empty(), "single steps are no plans: {:?}", document.plans);
    assert_eq!(
        (document.status, ran(&document)),
        (Status::Completed, vec!["asked".into(), "low".into(), "tied".into()])
    );
    for (holds, confidence) in [(false, 0.9), (true, 0.2)] {
        let document = answered(holds, confidence).await;
        assert_eq!((document.status, ran(&document)), (Status::Completed, vec!["low".to_owned(), "tied".into()]));
        assert_eq!(document.usage.llm_calls, 1);
    }
}

#[tokio::test]
async fn a_goal_that_holds_ends_it_and_one_that_is_unmet_leaves_it_stuck() {
    let goal = |output: &str| format!("{ASKED}goals: {{done: {{output: {output}}}}}\n");
    let no = json!([{"reply": {"holds": false, "confidence": 1, "why": "x"}}]);
    let document = Case::new(&goal("A")).script(no.clone()).run().await;
    assert_eq!((document.status, ran(&document)), (Status::Completed, vec!["low".to_owned()]));
    assert_eq!(document.goal.as_deref(), Some("done"));
    let document = Case::new(&goal("B")).script(no).run().await;
    assert_eq!((document.status, ran(&document)), (Status::Stuck, vec!["low".to_owned(), "tied".into()]));
    assert!(failure(&document).1.contains("`B` is output only by `asked`"), "{:?}", document.failure);
}

#[tokio::test]
async fn hybrid_plans_when_a_goal_can_be_reached_and_takes_a_step_when_not() {
    // While `config.open` is false no plan leads to `Done`.
    let workflow = "agent: both
planner: hybrid
types: {Scrap: {n: integer}, Part: {n: integer}, Done: string}
inputs: UserInput
actions:
  dust: {inputs: UserInput, output: Scrap, value: 0.1, set: {n: 7}}
  build: {inputs: Scrap, pre: config.open, output: Part, set: {n: 1}}
  end: {inputs: Part, output: Done, set: done}
config: {open: false}
goals: {done: {output: Done}}
";
    let document = Case::new(workflow).run().await;
    assert_eq!((document.status, ran(&document)), (Status::Stuck, vec!["dust".to_owned()]));
    let document =
        Case::new(workflow).options(|options| drop(options.config.insert("open".into(), json!(true)))).run().await;
    assert_eq!((document.status, ran(&document).len(), document.plans.len()), (Status::Completed, 3, 1));
    let document = Case::new(workflow).options(|options| options.planner = Some(PlannerKind::Goap)).run().await;
    assert_eq!((document.status, ran(&document).len()), (Status::Stuck, 0));
}

#[tokio::test]
async fn an_action_that_may_run_again_runs_until_a_limit() {
    let workflow = "agent: again
planner: utility
types: {A: string}
inputs: UserInput
limits: {actions: 5}
actions: {again: {inputs: UserInput, output: A, can_rerun: true, value: 1, set: a}}
";
    let document = Case::new(workflow).run().await;
    assert_eq!((document.status, ran(&document).len()), (Status::Terminated, 5));
}

#[tokio::test]
async fn a_wrong_cost_or_value_fails_the_process_and_names_the_action() {
    let workflow = "agent: wrong
planner: utility
types: {A: string, Order: {size: integer}}
inputs: Order
actions: {go: {inputs: Order, output: A, cost: 1 - order.size, set: a}}
";
    let input = super::Input::Typed("Order".into(), json!({"size": 9}));
    let document = Case::new(workflow).inputs(vec![input]).run().await;
    assert_eq!(document.status, Status::Failed);
    assert!(failure(&document).1.contains("the cost of `go` is -8"), "{:?}", document.failure);
}
