//! Processes outlive the program: the verbs for processes that are kept, and what happens when it is killed.

mod interrupted;
mod killed;
mod refused;
mod stores;

use serde_json::json;

use crate::support::project::Project;

/// Numbers that are as good as random, and the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

const PAYING: &str = "agent: paying
types: {Receipt: string}
inputs: UserInput
tools:
  pay: {description: Pays, parameters: {sum: integer}, confirm: 'Pay {{ sum }}?', set: 'paid {{ sum }}'}
actions:
  pay: {inputs: UserInput, output: Receipt, call: {tool: pay, with: {sum: 5}}}
goals: {paid: {output: Receipt}}
";

fn paying() -> Project {
    Project::new().file("agent-run.yaml", "{}\n").file("workflows/paying.yaml", PAYING)
}

#[test]
fn a_wait_ends_with_3_and_is_resumed_with_a_form() {
    let project = paying();
    let output = project.run(&["run", "workflows/paying.yaml", "go", "--now", "2025-01-01T00:00:00Z"]).exits(3);
    assert!(output.stderr.contains("pay asks:"), "{output}");
    assert!(output.stderr.contains("agent-run resume P1 --form '{\"confirm\":true}'"), "{output}");
    let listed = project.run(&["ps", "--json"]).exits(0).json();
    assert_eq!((&listed[0]["process"], &listed[0]["status"]), (&json!("P1"), &json!("waiting")));
    let shown = project.run(&["show", "@last", "--json"]).exits(0).json();
    assert_eq!(shown["waiting"]["form"]["required"], json!(["confirm"]));
    assert_eq!(shown["history"][0]["status"], "waiting");
    assert_eq!(shown["events"][0]["event"], "process_created");

    let wrong = project.run(&["resume", "P1", "--form", r#"{"confirm": "maybe"}"#]).exits(2);
    assert!(wrong.stderr.contains("`confirm`: expected true or false"), "{wrong}");
    project.run(&["resume", "P1", "--form", "{oops"]).exits(2);
    let waiting = project.run(&["resume", "P1", "--json"]).exits(3).json();
    assert_eq!(waiting["status"], "waiting");
    let done = project.run(&["resume", "@last", "--form", r#"{"confirm": true}"#, "--json"]).exits(0).json();
    assert_eq!((&done["process"], &done["output"]["value"]), (&json!("P1"), &json!("paid 5")));
    let ended = project.run(&["resume", "P1", "--form", r#"{"confirm": true}"#]).exits(1);
    assert!(ended.stderr.contains("P1 cannot go on: it is completed"), "{ended}");
    let unknown = project.run(&["show", "P7"]).exits(2);
    assert!(unknown.stderr.contains("there is no process `P7`"), "{unknown}");
}

#[test]
fn a_workflow_that_is_gone_or_changed_is_told_and_the_process_waits_on() {
    let project = paying();
    project.run(&["run", "workflows/paying.yaml", "go", "--now", "2025-01-01T00:00:00Z"]).exits(3);
    project.write("workflows/paying.yaml", PAYING.replace("  pay: {inputs", "  settle: {inputs"));
    let resume = ["resume", "P1", "--form", r#"{"confirm": true}"#];
    let changed = project.run(&resume).exits(2);
    assert!(changed.stderr.contains("the action `pay` is gone"), "{changed}");
    std::fs::remove_file(project.path().join("workflows/paying.yaml")).expect("it is there");
    let gone = project.run(&resume).exits(2);
    assert!(gone.stderr.contains("the workflow `workflows/paying.yaml` of P1 is gone"), "{gone}");
    project.write("workflows/paying.yaml", PAYING);
    project.run(&resume).exits(0);
}

#[test]
fn a_process_is_killed_and_nothing_is_kept_without_a_store() {
    let project = paying();
    project.run(&["run", "workflows/paying.yaml", "go", "--now", "2025-01-01T00:00:00Z"]).exits(3);
    project.run(&["kill", "P1"]).exits(0);
    assert_eq!(project.run(&["ps", "--json"]).exits(0).json()[0]["status"], "killed");
    project.run(&["kill", "P1"]).exits(1);
    let other = paying();
    let output = other.run(&["run", "workflows/paying.yaml", "go", "--no-store"]).exits(3);
    assert!(output.stderr.contains("it cannot be resumed"), "{output}");
    assert!(!other.path().join(".agent-run").exists());
    assert_eq!(other.run(&["ps", "--json"]).exits(0).json(), json!([]));
}

#[test]
fn as_many_processes_that_have_ended_are_kept_as_the_project_says() {
    let project = paying().file("agent-run.yaml", "store: {keep: 2}\n");
    let run = ["run", "workflows/paying.yaml", "go", "--yes", "--now", "2025-01-01T00:00:00Z"];
    project.run(&run[..3]).exits(3);
    for _ in 0..4 {
        project.run(&run).exits(0);
    }
    let listed = project.run(&["ps", "--json"]).exits(0).json();
    let statuses: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|row| row["status"].as_str()).collect();
    // What waits is not forgotten.
    assert_eq!(statuses, ["waiting", "completed", "completed"]);
    assert_eq!(listed[2]["process"], "P4");
}

#[test]
fn a_damaged_store_is_told_and_left_as_it_is() {
    let project = paying().file(".agent-run/state.db", "not a store ".repeat(100));
    let output = project.run(&["run", "workflows/paying.yaml", "go"]).exits(1);
    assert!(output.stderr.contains("move it away") && output.stderr.contains("--no-store"), "{output}");
    assert!(project.read(".agent-run/state.db").starts_with("not a store"));
}
