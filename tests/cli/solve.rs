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

/// Every problem of the planner's cases, through the program: answer and exit code.
#[test]
fn every_case_of_the_planner_is_answered() {
    let text = crate::support::text(&crate::support::root().join("tests/planner/cases.json"));
    let file: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let project = Project::new();
    for case in file["cases"].as_array().expect("cases") {
        project.write("p.json", case["problem"].to_string());
        let expected = case["expect"].as_object().expect("what is expected");
        let code = if expected["solved"] == json!(true) { 0 } else { 4 };
        let document = project.run(&["solve", "p.json", "--json"]).exits(code).json();
        for (key, value) in expected {
            assert_eq!(&document[key], value, "`{key}` of {}: {document:#}", case["name"]);
        }
        assert!(document["expanded"].is_u64() && document["ms"].is_number(), "{document:#}");
    }
}

#[test]
fn bad_problems_are_exit_2_with_the_place_and_the_cure() {
    let goal = r#""goals": [{"name": "g", "pre": {"x": true}}]"#;
    let actions = |text: &str| format!(r#"{{"actions": [{text}], {goal}}}"#);
    let cases = [
        (String::new(), "EOF"),
        ("{".to_owned(), "line 1"),
        ("[1, 2]".to_owned(), "not a planning problem"),
        ("null".to_owned(), "not a planning problem"),
        (actions(r#"{"name": "a", "cost": -1}"#), "the cost of `a` is -1"),
        (actions(r#"{"name": "a", "cost": 1e999}"#), "out of range"),
        (actions(r#"{"name": "a", "cost": "much"}"#), "expected f64"),
        (actions(r#"{"name": "a"}, {"name": "a"}"#), "two actions are named `a`"),
        (actions(r#"{"name": "a", "effects": {"x": "yes"}}"#), "line 1"),
        (actions(r#"{"name": "a", "effects": {"x": true, "x": false}}"#), "written twice"),
        (format!(r#"{{"actions": [], "facts": ["y"], {goal}}}"#), "the atom `x`, which `facts` does not list"),
        (format!(r#"{{"actions": [], "planner": "best", {goal}}}"#), "unknown variant `best`"),
        (r#"{"actions": [], "goals": []}"#.to_owned(), "`goals` is empty"),
        (r#"{"goals": []}"#.to_owned(), "missing field `actions`"),
        (format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), "line 1"),
    ];
    let project = Project::new();
    for (text, expected) in cases {
        project.write("p.json", &text);
        let output = project.run(&["solve", "p.json"]).exits(2);
        assert!(output.stderr.contains(expected), "{}: {output}", &text[..text.len().min(200)]);
        assert!(output.stdout.is_empty(), "{output}");
    }
    project.write("p.json", [0xff, 0xfe, 0x00]);
    assert!(project.run(&["solve", "p.json"]).exits(2).stderr.contains("cannot be read"));
    assert!(project.run(&["solve", "none.json"]).exits(2).stderr.contains("none.json"));
    project.run(&["solve", "p.json", "--time-limit", "soon"]).exits(2);
}

#[test]
fn a_problem_comes_from_standard_input_too() {
    let document = Project::new().run_with_stdin(&["solve", "-", "--json"], PROBLEM).exits(0).json();
    assert_eq!(document["plan"], json!(["boil", "brew"]));
}

#[test]
fn a_large_problem_is_answered() {
    let actions: Vec<String> = (0..20_000)
        .map(|at| {
            format!(r#"{{"name": "a{at}", "pre": {{"f{at}": true}}, "effects": {{"f{}": true}}, "cost": 1}}"#, at + 1)
        })
        .collect();
    let text = format!(
        r#"{{"actions": [{}], "start": {{"f0": true}}, "goals": [{{"name": "g", "pre": {{"f20000": true}}}}]}}"#,
        actions.join(",")
    );
    let document = Project::new().file("p.json", text).run(&["solve", "p.json", "--json"]).exits(0).json();
    assert_eq!(document["cost"], 20_000.0);
}

/// A counter in Gray code of 22 bits: 2^22 steps, and no way around them.
fn counter() -> String {
    let bits = 22;
    let mut actions = Vec::new();
    for bit in 0..bits {
        let low: Vec<String> = (0..bit).map(|low| format!(r#""b{low}": {}"#, low + 1 == bit)).collect();
        for (name, now) in [("on", false), ("off", true)] {
            let pre = low.iter().cloned().chain([format!(r#""b{bit}": {now}"#)]).collect::<Vec<_>>().join(", ");
            actions.push(format!(r#"{{"name": "{name}{bit}", "pre": {{{pre}}}, "effects": {{"b{bit}": {}}}}}"#, !now));
        }
    }
    let goal: Vec<String> = (0..bits).map(|bit| format!(r#""b{bit}": {}"#, bit + 1 == bits)).collect();
    format!(r#"{{"actions": [{}], "goals": [{{"name": "g", "pre": {{{}}}}}]}}"#, actions.join(","), goal.join(", "))
}

#[test]
fn a_memory_limit_is_exit_5_and_no_proof() {
    let project = Project::new().file("p.json", counter());
    let document = project.run(&["solve", "p.json", "--json", "--memory-limit", "256KiB"]).exits(5).json();
    assert_eq!(
        (&document["solved"], &document["exhausted"], &document["limit"]),
        (&json!(false), &json!(false), &json!("memory"))
    );
    assert!(document["expanded"].as_u64().is_some_and(|states| states > 100), "{document:#}");
    let refused = project.run(&["solve", "p.json", "--memory-limit", "lots"]).exits(2);
    assert!(refused.stderr.contains("expected a size such as"), "{refused}");
}

#[test]
fn a_time_limit_is_exit_5_and_no_proof() {
    let project = Project::new().file("p.json", counter());
    let document = project.run(&["solve", "p.json", "--json", "--time-limit", "50ms"]).exits(5).json();
    assert_eq!(
        (&document["solved"], &document["exhausted"], &document["limit"]),
        (&json!(false), &json!(false), &json!("time"))
    );
    assert!(document["expanded"].as_u64().is_some_and(|states| states > 0), "{document:#}");
}
