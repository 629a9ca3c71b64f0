//! The shipped examples: each checks without a finding, plans, renders its prompts, and runs on its script to the result
//! that its snapshot shows. `INSTA_UPDATE=always cargo test workflows` accepts new snapshots.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::project::Project;
use crate::support::{files, relative, root, text};

/// One run of an example: the snapshot's name, the workflow, its arguments.
struct Run {
    name: &'static str,
    workflow: &'static str,
    script: &'static str,
    args: &'static [&'static str],
}

const fn run(name: &'static str, workflow: &'static str, script: &'static str, args: &'static [&'static str]) -> Run {
    Run { name, workflow, script, args }
}

const RUNS: &[Run] = &[
    run("star_news", "star-news.yaml", "star-news", &["Lynda is a Scorpio, find news for her"]),
    run("support_technical", "support-router.yaml", "support-router", &["The app crashes whenever I open a PDF"]),
    run("support_billing", "support-router.yaml", "support-router", &["Why is invoice 2024-117 so high?"]),
    run("support_sales", "support-router.yaml", "support-router", &["We are twenty people, which plan fits?"]),
    run("pets_dog", "pet-desk.yaml", "pet-desk", &["We found Rex, a wet spaniel, by the pond"]),
    run("pets_both", "pet-desk.yaml", "pet-desk", &["Rex and a frog, everybody is well"]),
    run("pets_none", "pet-desk.yaml", "pet-desk", &["Nothing but an umbrella"]),
    run("pets_toml", "pet-desk-toml.toml", "pet-desk", &["We found Rex, a wet spaniel, by the pond"]),
    run(
        "parcel_light",
        "parcel.yaml",
        "star-news",
        &["--input", r#"Parcel={"to": "Oslo", "weight_kg": 2, "distance_km": 1300}"#],
    ),
    run(
        "parcel_heavy",
        "parcel.yaml",
        "star-news",
        &["--input", r#"Parcel={"to": "Oslo", "weight_kg": 40, "distance_km": 1300}"#],
    ),
    run(
        "parcel_fragile",
        "parcel.yaml",
        "star-news",
        &["--input", r#"Parcel={"to": "Oslo", "weight_kg": 40, "distance_km": 1300, "fragile": true}"#],
    ),
    run(
        "document",
        "document-desk.yaml",
        "document-desk",
        &["Case 4711. I, Ada Byron of 12 St James's Square, complain about the noise."],
    ),
    run("trip", "trip-planner.yaml", "trip-planner", &["Three days in Lisbon in May, with my parents"]),
    run("city_guide", "city-guide.yaml", "trip-planner", &["--input", r#"City={"name": "Lisbon", "month": "May"}"#]),
    run(
        "order_paid",
        "order-desk.yaml",
        "order-desk",
        &[
            "--input",
            r#"Order={"id": "A-17", "cents": 4900, "gift_message": "Happy birthday"}"#,
            "Transfer 49.00 EUR, ref A-17",
        ],
    ),
    run(
        "order_express",
        "order-desk.yaml",
        "order-desk",
        &["--input", r#"Order={"id": "A-17", "cents": 4900, "priority": "express"}"#, "Transfer 49.00 EUR, ref A-17"],
    ),
    run(
        "order_short",
        "order-desk.yaml",
        "order-desk",
        &["--input", r#"Order={"id": "A-17", "cents": 4900}"#, "Transfer 20.00 EUR, ref A-17"],
    ),
    run(
        "order_unmatched",
        "order-desk.yaml",
        "order-desk",
        &["--input", r#"Order={"id": "A-17", "cents": 4900}"#, "Rent for May"],
    ),
    run(
        "greenhouse_hot",
        "greenhouse.yaml",
        "greenhouse",
        &["--input", r#"Reading={"celsius": 34, "moisture": 12, "hour": 14}"#],
    ),
    run(
        "greenhouse_calm",
        "greenhouse.yaml",
        "greenhouse",
        &["--input", r#"Reading={"celsius": 21, "moisture": 40, "hour": 7}"#],
    ),
    run("book", "book-writer.yaml", "book-writer", &["A short book on bees for gardeners"]),
    run("facts", "fact-checker.yaml", "fact-checker", &["The Danube ends in the Black Sea. Whales are fish."]),
    run("ticket_down", "ticket-triage.yaml", "ticket-triage", &["Production is down, nobody can log in!"]),
    run("ticket_question", "ticket-triage.yaml", "ticket-triage", &["Where do I change my name?"]),
    run("letter_known", "stuck-helper.yaml", "stuck-helper", &["--input", r#"Letter={"to": "Charles Babbage"}"#]),
    run("letter_unknown", "stuck-helper.yaml", "stuck-helper", &["--input", r#"Letter={"to": "Ada Byron"}"#]),
    run("order_unpaid", "order-desk.yaml", "order-desk", &["--input", r#"Order={"id": "A-18", "cents": 4900}"#]),
];

/// Examples that need programs of other people; `mcp.rs` runs them where those are there.
const WITH_PROGRAMS: &[&str] = &["handbook-desk.yaml"];

/// Compares with `snapshots/<name>.snap`, or writes it.
#[track_caller]
fn snapshot(name: &str, description: &str, value: &Value) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(root().join("tests/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(description);
    let text = serde_json::to_string_pretty(value).expect("a value is JSON");
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Takes out what differs from run to run.
fn steady(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if key == "ms" {
                    *value = json!(0);
                }
                steady(value);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(steady),
        Value::String(text) => {
            if let Some(at) = text.find("Current date: ") {
                let date = at + "Current date: ".len();
                text.replace_range(date..date + "2025-01-01".len(), "2025-01-01");
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The test files under `tests/`, as `agent-run test --ci` runs them; `agent-run test --review` accepts new prompts.
#[test]
fn every_test_file_passes() {
    agent_run::testing::assert_passes(root());
}

#[test]
fn every_run_ends_as_its_snapshot_says() {
    let project = Project::of_the_repository();
    for Run { name, workflow, script, args } in RUNS {
        let (workflow, script) = (format!("workflows/{workflow}"), format!("prompts/scripts/{script}.yaml"));
        let mut command = vec!["run", &workflow, "--json", "--script", &script];
        command.extend(*args);
        let output = project.run(&command);
        let mut document = output.json();
        steady(&mut document);
        document["exit"] = json!(output.code());
        snapshot(name, &format!("agent-run {}", command.join(" ")), &document);
    }
}

#[test]
fn every_workflow_is_run() {
    for file in files(&root().join("workflows"), &[".yaml", ".toml"]) {
        if text(&file).lines().any(|line| line.starts_with("agent:") || line.starts_with("agent =")) {
            let name = relative(&file).replace("workflows/", "");
            let runs = RUNS.iter().any(|run| run.workflow == name) || WITH_PROGRAMS.contains(&name.as_str());
            assert!(runs, "no run of {name} in tests/workflows.rs");
        }
    }
}

#[test]
fn the_project_checks_without_a_finding() {
    let document = Project::of_the_repository().run(&["check", "--strict", "--json"]).exits(0).json();
    assert_eq!(document["diagnostics"], json!([]), "{document:#}");
}

#[test]
fn the_first_command_of_the_readme_needs_no_script_flag() {
    let project = Project::of_the_repository();
    let output =
        project.run(&["run", "workflows/star-news.yaml", "--json", "Lynda is a Scorpio, find news for her"]).exits(0);
    let document = output.json();
    assert_eq!(
        document["plans"],
        json!([["extract_star_person", "retrieve_horoscope", "find_news", "writeup"]]),
        "{document:#}"
    );
    assert_eq!(document["usage"]["llm_calls"], 3);
    assert_eq!(document["output"]["type"], "Writeup");
}

#[test]
fn prompts_render_as_their_snapshots_say() {
    let project = Project::of_the_repository();
    let workflows: BTreeSet<&str> = RUNS.iter().map(|run| run.workflow).collect();
    for workflow in workflows {
        let path = format!("workflows/{workflow}");
        let declared: serde_json::Map<String, Value> = match path.ends_with(".toml") {
            true => toml::from_str(&project.read(&path)).expect("TOML"),
            false => serde_yaml::from_str(&project.read(&path)).expect("YAML"),
        };
        let actions = declared["actions"].as_object().expect("actions");
        let mut rendered = serde_json::Map::new();
        for action in actions.iter().filter(|(_, action)| action.get("prompt").is_some()).map(|(name, _)| name) {
            let mut document = project.run(&["render", &path, action, "--sample", "--json"]).exits(0).json();
            steady(&mut document);
            rendered.insert(action.clone(), document);
        }
        if !rendered.is_empty() {
            let name = format!("render_{}", workflow.replace(['-', '.'], "_"));
            snapshot(&name, &format!("agent-run render {path} … --sample --json"), &Value::Object(rendered));
        }
    }
}

#[test]
fn yaml_and_toml_give_one_domain() {
    let project = Project::of_the_repository();
    let domain = |path: &str| {
        let document = project.run(&["domain", path, "--json"]).exits(0);
        document.stdout.replace("pet-desk-toml", "pet-desk")
    };
    assert_eq!(domain("workflows/pet-desk.yaml"), domain("workflows/pet-desk-toml.toml"));
}

#[test]
fn the_horoscope_service_is_preferred_and_its_failure_is_survived() {
    let project = Project::of_the_repository();
    let document = project
        .run(&[
            "run",
            "workflows/star-news.yaml",
            "--json",
            "--script",
            "prompts/scripts/star-news.yaml",
            "--set",
            // Nobody listens on the discard port.
            "horoscope_url=http://127.0.0.1:9/today",
            "Lynda is a Scorpio, find news for her",
        ])
        .exits(0)
        .json();
    assert_eq!(
        document["plans"],
        json!([
            ["extract_star_person", "fetch_horoscope", "find_news", "writeup"],
            ["retrieve_horoscope", "find_news", "writeup"]
        ]),
        "{document:#}"
    );
}

/// Our reader of YAML, and the one that everybody uses, agree on every file that is shipped.
#[test]
fn both_yaml_readers_agree() {
    use agent_run::source::{FileId, Source, read};
    for place in ["workflows", "prompts/scripts", "tests/mistakes/base"] {
        for file in files(&root().join(place), &[".yaml"]) {
            let (node, errors) = read(FileId(0), &Source::new(relative(&file), text(&file)));
            assert!(errors.is_empty(), "{}: {errors:?}", relative(&file));
            let node = node.expect("a file that is read without an error has a tree");
            let other: Value = serde_yaml::from_str(&text(&file)).expect("YAML");
            assert_eq!(node.to_json(), other, "{}", relative(&file));
        }
    }
}
