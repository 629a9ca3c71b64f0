//! `check`.

use serde_json::json;

use super::{ECHO, project};

#[test]
fn a_sound_project_is_exit_0_and_says_what_was_checked() {
    let output = project().run(&["check"]).exits(0);
    assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{output}");
    let document = project().run(&["check", "--json"]).exits(0).json();
    assert_eq!(
        (&document["errors"], &document["warnings"], &document["diagnostics"]),
        (&json!(0), &json!(0), &json!([]))
    );
    assert!(document["checked"].is_object(), "{document:#}");
}

#[test]
fn a_finding_has_its_keys_and_its_place_in_characters() {
    let text = ECHO
        .replace("description: Say it again", "description: Sagt „äöü“ nochmal")
        .replace("    achieves", "    acheives");
    let document = project().file("workflows/echo.yaml", text).run(&["check", "--json"]).exits(2).json();
    let finding = &document["diagnostics"][0];
    let keys: Vec<&String> = finding.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        ["code", "severity", "message", "help", "file", "line", "column", "end_line", "end_column", "related"]
    );
    assert_eq!(
        (&finding["file"], &finding["line"], &finding["column"]),
        (&json!("workflows/echo.yaml"), &json!(13), &json!(5))
    );
    assert_eq!((&finding["end_line"], &finding["end_column"]), (&json!(13), &json!(13)));
}

#[test]
fn people_see_the_line_and_carets() {
    let text = ECHO.replace("user_input.content }}{{", "user_input.contnt }}{{");
    let output = project().file("workflows/echo.yaml", text).run(&["check"]).exits(2);
    for part in ["workflows/echo.yaml:12", "user_input.contnt", "^^^^^^", "did you mean `content`"] {
        assert!(output.stderr.contains(part), "no {part}: {output}");
    }
}

#[test]
fn all_independent_mistakes_come_in_one_pass() {
    let text =
        ECHO.replace("achieves", "acheives").replace("inputs: UserInput\n    output", "inputs: UserImput\n    output");
    let document = project()
        .file("workflows/echo.yaml", text)
        .file("workflows/third.yaml", "agnet: x\n")
        .run(&["check", "--json"]);
    let document = document.exits(2).json();
    // The misspelt `agent` counts as the agent that it was meant to be, which then lacks a goal.
    assert_eq!(document["errors"], 4, "{document:#}");
}

#[test]
fn one_file_is_checked_alone() {
    let project = project().file("workflows/third.yaml", "agnet: x\n");
    project.run(&["check", "workflows/echo.yaml"]).exits(0);
    project.run(&["check"]).exits(2);
}

#[test]
fn sure_corrections_are_applied() {
    let project = project().file("workflows/echo.yaml", ECHO.replace("    achieves", "    acheives"));
    project.run(&["check"]).exits(2);
    project.run(&["check", "--fix"]).exits(0);
    assert_eq!(project.read("workflows/echo.yaml"), ECHO);
}

#[test]
fn warnings_are_errors_when_strict() {
    let unused = "  idle: {inputs: Nothing, output: Echo, set: {text: x, length: 1}}\n";
    let text = format!("{ECHO}{unused}").replace("types:\n", "types:\n  Nothing: {id: string}\n");
    let project = project().file("workflows/echo.yaml", text);
    let document = project.run(&["check", "--json"]).exits(0).json();
    assert_eq!((&document["errors"], &document["warnings"]), (&json!(0), &json!(1)), "{document:#}");
    assert_eq!(document["diagnostics"][0]["code"], "dead-action");
    project.run(&["check", "--strict"]).exits(2);
    project.run(&["run", "echo", "x"]).exits(0);
}
