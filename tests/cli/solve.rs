//! `solve`: the planner alone.

use serde_json::json;

use crate::support::project::Project;

const PROBLEM: &str = r#"{
  "actions": [
    {"name": "boil", "pre": {"water": true}, "effects": {"hot": true}, "cost": 2},
    {"name": "brew", "pre": {"hot": true, "leaves": true}, "effects": {"tea": true}, "cost": 1},
    {"name": "buy", "pre": {}, "effects": {"tea": true}, "cost": 5}
  ],
  "start": {"water": true, "leaves": true},
  "goals": [{"name": "tea", "pre": {"tea": true}, "value": 10}]
}"#;

#[test]
fn the_cheapest_plan_is_found() {
    let document = Project::new().file("p.json", PROBLEM).run(&["solve", "p.json"]).exits(0).json();
    assert_eq!((&document["solved"], &document["goal"]), (&json!(true), &json!("tea")));
    assert_eq!(document["plan"], json!(["boil", "brew"]));
    assert_eq!((document["cost"].as_f64(), &document["assumed"]), (Some(3.0), &json!(0)));
}

#[test]
fn an_open_fact_is_assumed_and_counted() {
    let text = PROBLEM.replace(r#""water": true,"#, r#""water": null,"#);
    let document = Project::new().file("p.json", text).run(&["solve", "p.json"]).exits(0).json();
    assert_eq!((&document["plan"], &document["assumed"]), (&json!(["boil", "brew"]), &json!(1)));
}

#[test]
fn no_plan_is_proven_and_exit_4() {
    let text = PROBLEM
        .replace(r#""name": "buy", "pre": {}"#, r#""name": "buy", "pre": {"money": true}"#)
        .replace(r#""leaves": true}"#, r#""x": true}"#);
    let text = text.replacen(r#""hot": true, "x": true}"#, r#""hot": true, "leaves": true}"#, 1);
    let document = Project::new().file("p.json", text).run(&["solve", "p.json"]).exits(4).json();
    assert_eq!((&document["solved"], &document["exhausted"]), (&json!(false), &json!(true)));
}

#[test]
fn a_broken_problem_is_exit_2() {
    let output = Project::new()
        .file("p.json", r#"{"actions": [{"nmae": "x"}], "goals": []}"#)
        .run(&["solve", "p.json"])
        .exits(2);
    assert!(output.stderr.contains("nmae"), "{output}");
}
