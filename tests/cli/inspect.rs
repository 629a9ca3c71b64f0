//! `plan`, `render`, `domain`, `schema`, `models`, `version`, `completions`: what can be asked without running anything.

use serde_json::{Value, json};

use super::{ECHO, project};

#[test]
fn a_plan_is_explained() {
    let document = project().run(&["plan", "ask", "--json"]).exits(0).json();
    let keys: Vec<&String> = document.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["agent", "goal", "reachable", "cost", "value", "steps", "goals"]);
    assert_eq!(document["steps"][0]["action"], "answer");
    assert_eq!(document["steps"][0]["because"], json!(["has(UserInput)"]));
    assert_eq!(document["steps"][0]["assumes"], json!([]));
    assert_eq!(document["goals"][0]["reachable"], true);
}

#[test]
fn a_goal_out_of_reach_is_explained_leaf_first() {
    let text = ECHO
        .replace("types:\n", "types:\n  Horn: {id: string}\n")
        .replace("    inputs: UserInput", "    inputs: [UserInput, Horn]");
    let project = project().file("workflows/echo.yaml", text);
    let document = project.run(&["plan", "echo", "--json"]).exits(4).json();
    assert_eq!(document["reachable"], false);
    let missing = &document["goals"][0]["missing"][0];
    assert_eq!(missing["fact"], "has(Horn)", "{document:#}");
    let output = project.run(&["plan", "echo"]).exits(4);
    assert!(format!("{output}").contains("Horn"), "{output}");
    let output = project.run(&["run", "echo", "x"]).exits(4);
    assert!(output.stderr.contains("Horn"), "{output}");
}

#[test]
fn a_plan_starts_from_given_inputs() {
    let text = ECHO.replace("inputs: UserInput\nconfig", "inputs: {said: 'UserInput?'}\nconfig");
    let project = project().file("workflows/echo.yaml", text);
    project.run(&["plan", "echo", "--json", "--input", r#"UserInput={"content": "x"}"#]).exits(0);
}

#[test]
fn a_prompt_is_rendered_as_it_would_be_sent() {
    let document = project()
        .run(&["render", "workflows/ask.yaml", "answer", "--json", "--input", r#"UserInput={"content": "How many?"}"#])
        .exits(0)
        .json();
    let keys: Vec<&String> = document.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["action", "model", "options", "messages", "tools", "output_schema", "input_tokens_estimate"]);
    assert_eq!((&document["action"], &document["model"]), (&json!("answer"), &json!("demo/any")));
    let messages = document["messages"].as_array().expect("messages");
    let user = messages.last().expect("a message");
    assert_eq!(user["role"], "user");
    assert!(user["content"].as_str().is_some_and(|text| text.contains("Answer this: How many?")), "{document:#}");
    assert_eq!(document["output_schema"]["properties"]["text"]["type"], "string");
}

#[test]
fn rendering_makes_up_inputs_or_asks_for_them() {
    let project = project();
    project.run(&["render", "workflows/ask.yaml", "answer", "--sample"]).exits(0);
    let output = project.run(&["render", "workflows/ask.yaml", "answer"]).exits(2);
    assert!(output.stderr.contains("UserInput") && output.stderr.contains("--sample"), "{output}");
    let output = project.run(&["render", "workflows/ask.yaml", "anser", "--sample"]).exits(2);
    assert!(output.stderr.contains("`answer`"), "{output}");
}

#[test]
fn a_domain_is_a_problem_for_solve() {
    let mut document = project().run(&["domain", "workflows/echo.yaml", "--format", "json"]).exits(0).json();
    for key in ["types", "facts", "actions", "goals"] {
        assert!(!document[key].is_null(), "no {key}: {document:#}");
    }
    document["start"] = json!({"has(UserInput)": true});
    let project = project().file("problem.json", document.to_string());
    let solved = project.run(&["solve", "problem.json"]).exits(0).json();
    assert_eq!((&solved["solved"], &solved["plan"]), (&json!(true), &json!(["echo"])));
}

#[test]
fn schemas_are_json_schemas() {
    for kind in ["workflow", "project", "references", "test", "script"] {
        let schema = project().run(&["schema", kind]).exits(0).json();
        assert!(
            schema["$schema"].as_str().is_some_and(|text| text.contains("draft-07")),
            "{kind}: {}",
            schema["$schema"]
        );
    }
    project().run(&["schema"]).exits(0);
}

#[test]
fn models_are_listed() {
    let output = project().run(&["models"]).exits(0);
    assert!(output.stdout.contains("demo/any"), "{output}");
    let document: Value = project().run(&["models", "--json"]).exits(0).json();
    assert!(document.to_string().contains("demo/any"), "{document:#}");
}

#[test]
fn version_and_help() {
    let output = project().run(&["version"]).exits(0);
    assert!(output.stdout.contains(env!("CARGO_PKG_VERSION")), "{output}");
    let output = project().run(&["--help"]).exits(0);
    for verb in
        ["run", "plan", "check", "render", "domain", "solve", "schema", "explain", "models", "version", "completions"]
    {
        assert!(output.stdout.contains(verb), "no {verb}: {output}");
    }
    let output = project().run(&["rnu"]).exits(2);
    assert!(output.stderr.contains("run"), "{output}");
}

#[test]
fn completions_are_a_script() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(project().run(&["completions", shell]).exits(0).stdout.contains("agent-run"), "{shell}");
    }
}
