//! What agents lower to: facts, preconditions and effects (runtime.md 1), and the plans that follow.

use serde_json::{Value, json};

use crate::compile::domain_json::document;
use crate::planning::{Problem, plan, validate};

use super::{agent, planned};

/// A workflow of actions over types without fields.
fn workflow(rest: &str) -> String {
    format!("agent: a\ntypes:\n  A: {{x: string}}\n  B: {{x: string}}\n  C: {{x: string}}\n{rest}")
}

fn domain(rest: &str) -> Value {
    document(&agent(&[("a.yaml", &workflow(rest))]))
}

/// An operator of the domain by name: its preconditions and effects.
fn operator(domain: &Value, name: &str) -> (Value, Value) {
    let all = domain["actions"].as_array().expect("actions");
    let found = all.iter().find(|action| action["name"] == name).unwrap_or_else(|| panic!("{name} in {domain:#}"));
    (found["pre"].clone(), found["effects"].clone())
}

#[test]
fn inputs_outputs_and_goals_become_facts() {
    let domain = domain(
        "actions:\n  one: {inputs: UserInput, output: A, prompt: hi}\n  two: {inputs: A, output: B, prompt: hi, achieves: Done}\n",
    );
    let (pre, effects) = operator(&domain, "two");
    assert_eq!(pre, json!({"has(A)": true, "ran(two)": false}));
    assert_eq!(effects, json!({"has(B)": true, "ran(two)": true}));
    assert_eq!(domain["goals"], json!([{"name": "two", "pre": {"ran(two)": true, "has(B)": true}, "value": 0.0}]));
}

#[test]
fn two_inputs_of_one_type_are_counted() {
    let rest = "actions:\n  find: {inputs: UserInput, output: A, can_rerun: true, prompt: hi}\n  other: {inputs: UserInput, output: A, prompt: hi}\n  pair: {inputs: {first: A, second: A}, output: B, prompt: hi, achieves: Done}\n";
    let domain = domain(rest);
    let (pre, _) = operator(&domain, "pair");
    assert_eq!(pre, json!({"has(A)": true, "has(A, 2)": true, "ran(pair)": false}));
    let (pre, effects) = operator(&domain, "find#2");
    assert_eq!(pre, json!({"has(UserInput)": true, "has(A)": true}));
    assert_eq!(effects, json!({"has(A)": true, "has(A, 2)": true, "ran(find)": true}));
    let agent = agent(&[("a.yaml", &workflow(rest))]);
    assert_eq!(planned(&agent).last().map(String::as_str), Some("pair"));
    assert_eq!(planned(&agent).len(), 3);
}

#[test]
fn a_subtype_counts_for_its_supertype() {
    let rest = "  D: {is: A}\nactions:\n  both: {inputs: {a: A, d: D}, output: B, prompt: hi, achieves: Done}\n  make: {inputs: UserInput, output: D, prompt: hi}\n";
    let (pre, _) = operator(&domain(rest), "both");
    assert_eq!(pre, json!({"has(A)": true, "has(A, 2)": true, "has(D)": true, "ran(both)": false}));
}

#[test]
fn abstract_union_optional_and_some_of_outputs_open_facts() {
    let rest = "  Intent: {abstract: true}\n  Bill: {is: Intent, fields: {x: string}}\n  Sale: {is: Intent, fields: {x: string}}\n  Any: {one_of: [A, B]}\nactions:\n  classify: {inputs: UserInput, output: Intent, prompt: hi}\n  union: {inputs: UserInput, output: Any, prompt: hi}\n  maybe: {inputs: UserInput, output: C?, prompt: hi}\n  some: {inputs: UserInput, output: [A, C], prompt: hi}\n  bill: {inputs: Bill, output: B, prompt: hi, achieves: Billed}\n";
    let domain = domain(rest);
    let effects = |name: &str| operator(&domain, name).1;
    assert_eq!(effects("classify"), json!({"has(Bill)": null, "ran(classify)": true, "has(Intent)": true}));
    assert_eq!(effects("union"), json!({"has(B)": null, "has(Any)": true, "ran(union)": true, "has(A)": null}).clone());
    assert_eq!(effects("maybe"), json!({"has(C)": null, "ran(maybe)": true}));
    let some = effects("some");
    assert_eq!((&some["has(A)"], &some["has(C)"], some.get("has(B)")), (&Value::Null, &Value::Null, None));
    let agent = agent(&[("a.yaml", &workflow(rest))]);
    assert_eq!(planned(&agent), ["classify", "bill"]);
}

#[test]
fn a_trigger_asks_for_the_newest_object_and_may_run_again() {
    let domain = domain(
        "actions:\n  on_a: {inputs: A, trigger: A, output: B, prompt: hi}\n  make: {inputs: UserInput, output: A, prompt: hi}\n  end: {inputs: B, output: C, prompt: hi, achieves: Done}\n",
    );
    let (pre, effects) = operator(&domain, "on_a");
    assert_eq!(pre, json!({"has(A)": true, "newest(A)": true}));
    assert_eq!(effects["newest(A)"], json!(false));
    assert_eq!(operator(&domain, "make").1["newest(A)"], json!(true));
}

#[test]
fn a_cleared_blackboard_keeps_the_output_and_what_is_kept() {
    let domain = domain(
        "keep: [C]\nactions:\n  seed: {inputs: UserInput, output: C, prompt: hi}\n  make: {inputs: UserInput, output: A, prompt: hi}\n  fold: {inputs: [A, C], output: B, clear_blackboard: true, prompt: hi, achieves: Done}\n",
    );
    let (_, effects) = operator(&domain, "fold");
    assert_eq!(effects, json!({"has(A)": false, "has(UserInput)": false, "has(B)": true, "ran(fold)": true}));
}

#[test]
fn hidden_inputs_are_taken_away() {
    let domain = domain(
        "actions:\n  make: {inputs: UserInput, output: A, prompt: hi}\n  use: {inputs: A, hide: a, output: B, prompt: hi, achieves: Done}\n",
    );
    assert_eq!(operator(&domain, "use").1["has(A)"], json!(false));
}

#[test]
fn conditions_are_opened_by_what_they_mention_and_set_by_post() {
    let rest = "conditions:\n  urgent: a.x == 'now'\n  calm: not urgent\n  verified: false\nactions:\n  make: {inputs: UserInput, output: A, prompt: hi}\n  verify: {inputs: A, post: verified, set: null}\n  answer: {inputs: A, pre: [urgent, verified], output: B, prompt: hi}\n  relax: {inputs: A, pre: [not urgent, \"a.x != 'x'\"], output: B, prompt: hi}\ngoals:\n  done: {output: B, when: not calm}\n";
    let domain = domain(rest);
    let (pre, _) = operator(&domain, "relax");
    assert_eq!(pre, json!({"has(A)": true, "urgent": false, "a.x != 'x'": true, "ran(relax)": false}));
    let (_, effects) = operator(&domain, "make");
    assert_eq!(
        (&effects["urgent"], &effects["calm"], &effects["a.x != 'x'"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert!(effects.as_object().is_some_and(|map| map.contains_key("calm") && !map.contains_key("verified")));
    assert_eq!(operator(&domain, "verify").1["verified"], json!(true));
    assert_eq!(domain["goals"][0]["pre"], json!({"has(B)": true, "calm": false}));
    let agent = agent(&[("a.yaml", &workflow(rest))]);
    assert_eq!(planned(&agent), ["make", "verify", "answer"]);
}

#[test]
fn bindings_are_facts_of_their_own() {
    let domain = domain(
        "actions:\n  make: {inputs: UserInput, output: {type: A, name: draft}, prompt: hi}\n  use: {inputs: {draft: {type: A, named: true}}, output: B, prompt: hi, achieves: Done}\n",
    );
    assert_eq!(operator(&domain, "use").0["has(draft: A)"], json!(true));
    assert_eq!(operator(&domain, "make").1["has(draft: A)"], json!(true));
}

#[test]
fn an_expr_over_an_input_of_an_own_name_binds_the_inputs() {
    let rest = "actions:\n  make: {inputs: UserInput, output: A, prompt: hi}\n  use: {inputs: {draft: A}, pre: \"draft.x != ''\", output: B, prompt: hi, achieves: Done}\n";
    let agent = agent(&[("a.yaml", &workflow(rest))]);
    let bound = agent.facts.iter().find_map(|fact| match fact {
        crate::program::Fact::Expr { inputs, mentions, .. } => Some((inputs.len(), mentions.len())),
        _ => None,
    });
    assert_eq!(bound, Some((1, 1)));
    assert_eq!(planned(&agent), ["make", "use"]);
}

#[test]
fn undeclared_inputs_are_what_nothing_outputs() {
    let agent = agent(&[(
        "a.yaml",
        &workflow(
            "actions:\n  one: {inputs: [UserInput, A], output: B, prompt: hi}\n  two: {inputs: B, output: C, prompt: hi, achieves: Done}\n",
        ),
    )]);
    let inputs: Vec<(&str, bool)> =
        agent.inputs.iter().map(|input| (agent.types.name(input.type_id), input.optional)).collect();
    assert_eq!(inputs, [("UserInput", true), ("A", true)]);
}

#[test]
fn every_plan_of_the_cases_validates() {
    let rest = "  Intent: {abstract: true}\n  Bill: {is: Intent, fields: {x: string}}\nconditions: {ok: c.x != ''}\nactions:\n  classify: {inputs: UserInput, output: Intent, prompt: hi}\n  c: {inputs: UserInput, output: C?, prompt: hi}\n  bill: {inputs: Bill, pre: ok, output: B, prompt: hi, achieves: Billed}\n";
    let agent = agent(&[("a.yaml", &workflow(rest))]);
    let start = agent.assumed_start(&agent.inputs);
    let outcome = plan(&Problem::new(&agent.domain, start.clone()));
    let plan = outcome.plan().expect("a plan");
    assert_eq!(validate(&agent.domain, &start, plan), Ok(()));
    assert_eq!(plan.steps.len(), 3);
}

#[test]
fn goals_and_actions_that_cannot_be_reached_are_told_with_the_chain() {
    let text = workflow(
        "  Weather: {x: string}\ninputs: UserInput\nactions:\n  look: {inputs: Weather, output: A, prompt: hi}\n  end: {inputs: A, output: B, prompt: hi, achieves: Done}\n",
    );
    let compiled = super::compiled(&[("a.yaml", &text)]);
    let lines = super::lines(&compiled);
    assert_eq!(
        lines,
        [
            "dead-action at \"look\": the action `look` can never run: `Weather` is not among the inputs, and no action outputs it",
            "dead-action at \"end\": the action `end` can never run: `Weather` is not among the inputs, and no action outputs it; `A` is output only by `look`, which needs `Weather`, which nothing supplies",
            "unreachable-goal at \"end\": the goal `end` cannot be reached: `Weather` is not among the inputs, and no action outputs it; `A` is output only by `look`, which needs `Weather`, which nothing supplies; `B` is output only by `end`, which needs `A`, which cannot be had either",
        ]
    );
    assert!(compiled.program.is_some());
}

/// A domain with a start is a problem for `solve`, also where a cost is an expr.
#[test]
fn costs_that_are_exprs_are_numbers_beside_their_text() {
    let mut domain = domain(
        "actions:\n  one: {inputs: UserInput, output: A, cost: user_input.content | length, prompt: hi, achieves: Done}\n",
    );
    assert!(domain["actions"][0]["cost"].is_number(), "{domain:#}");
    assert_eq!(domain["actions"][0]["cost_expr"], "user_input.content | length");
    domain["start"] = json!({"has(UserInput)": true});
    let solved = crate::planning::solve::solve(&domain.to_string(), crate::planning::Limits::default());
    assert!(solved.expect("a problem").solved);
}
