//! The shipped examples: each checks without a finding and does what its test file (`tests/<name>.yaml`) says; of some the whole
//! document of a run on the demo's script is a snapshot (`INSTA_UPDATE=always cargo test workflows` accepts new ones).

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
    run("desk_tools", "desk-tools.yaml", "desk-tools", &["Which orders has Lind?"]),
    run("pets_none", "pet-desk.yaml", "pet-desk", &["Nothing but an umbrella"]),
    run("trip", "trip-planner.yaml", "trip-planner", &["Three days in Lisbon in May, with my parents"]),
    run("ticket_down", "ticket-triage.yaml", "ticket-triage", &["Production is down, nobody can log in!"]),
    run("ticket_question", "ticket-triage.yaml", "ticket-triage", &["Where do I change my name?"]),
    run("meal", "meal-preparation.yaml", "meal-preparation", &["Dinner for four on Friday. Mira must not eat nuts."]),
    run("story_waits", "write-and-review.yaml", "write-and-review", &["An otter who is afraid of water"]),
    run("letter_known", "stuck-helper.yaml", "stuck-helper", &["--input", r#"Letter={"to": "Charles Babbage"}"#]),
    run("letter_unknown", "stuck-helper.yaml", "stuck-helper", &["--input", r#"Letter={"to": "Ada Byron"}"#]),
];

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
        let mut command = vec!["run", &workflow, "--json", "--no-store", "--script", &script];
        command.extend(*args);
        let output = project.run(&command);
        let mut document = output.json();
        steady(&mut document);
        document["exit"] = json!(output.code());
        snapshot(name, &format!("agent-run {}", command.join(" ")), &document);
    }
}

#[test]
fn every_workflow_has_a_test_file_with_a_case() {
    for file in files(&root().join("workflows"), &[".yaml", ".toml"]) {
        if !text(&file).lines().any(|line| line.starts_with("agent:") || line.starts_with("agent =")) {
            continue;
        }
        let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let test = format!("tests/{stem}.yaml");
        let loaded = agent_run::testing::Suite::load(root(), &[test.clone().into()]);
        assert!(
            !loaded.suite.is_empty(),
            "{test} has no case: `agent-run test --init {}` writes a first one",
            relative(&file)
        );
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
