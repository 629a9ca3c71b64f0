//! Processes outlive the program: it is killed at random instants while models and tools are asked on loopback, and what
//! was answered and kept is never asked for again. And the verbs for processes that are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_run::store::{SqliteStore, Store};
use serde_json::{Value, json};

use crate::support::mock_llm::{Answer, MockLlm};
use crate::support::project::{Project, program};

/// Kills in the ordinary suite; `AGENT_RUN_CRASHES` asks for another number.
const KILLS: usize = 12;

/// Everything that is a step: models, a tool with a request, parts side by side, a sub-process with steps of its own.
const WORKFLOW: &str = "agent: crash
types: {Topic: string, Hit: {n: string}, Story: string, Inner: string, End: string}
inputs: UserInput
concurrency: 2
tools:
  hit: {description: Counts, parameters: {name: string}, http: {url: 'MOCK_URL/hit/{{ name }}', allow_private: true}}
actions:
  topic: {inputs: UserInput, output: Topic, prompt: '<step-topic>'}
  hit: {inputs: Topic, output: Hit, call: {tool: hit, with: {name: one}}}
  story:
    inputs: Topic
    output: Story
    scatter_gather:
      over: \"['a', 'b', 'c']\"
      do: {prompt: '<step-part-{{ item }}>'}
      of: Topic
      gather: {prompt: '<step-gather>'}
  inner: {inputs: [Story, Hit], output: Inner, agent: inner}
  end: {inputs: [Inner, Story], output: End, prompt: '<step-end>'}
goals: {done: {output: End}}
";

const INNER: &str = "agent: inner
types: {Story: string, Middle: string, Inner: string}
inputs: Story
actions:
  middle: {inputs: Story, output: Middle, prompt: '<step-middle>'}
  inner: {inputs: Middle, output: Inner, prompt: '<step-inner>'}
goals: {done: {output: Inner}}
";

/// What a request is about: its `<step-…>`, or its path.
fn about(text: &str, path: &str) -> String {
    match text.split_once("<step-") {
        Some((_, rest)) => rest.split('>').next().unwrap_or_default().to_owned(),
        None => path.to_owned(),
    }
}

/// Numbers that are as good as random, and the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

fn command(project: &Project, url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).current_dir(project.path()).env_clear().env("HOME", project.path());
    command.env("OPENAI_API_KEY", "sk-secret-in-no-journal").env("OPENAI_BASE_URL", format!("{url}/v1"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The requests whose answers are in the journals: answers carry the number of their request.
async fn kept(store: &dyn Store) -> BTreeSet<usize> {
    let mut kept = BTreeSet::new();
    for row in store.rows().await.expect("the store is read") {
        let mut processes = store.children(&row.process).await.expect("the store is read");
        processes.push(row);
        for row in processes {
            for line in store.lines(&row.process, "record").await.expect("the store is read") {
                let record: Value = serde_json::from_str(&line).expect("a record is JSON");
                assert!(!line.contains("sk-secret"), "{line}");
                if record["record"] == "step" {
                    let text = record["value"].to_string();
                    let numbers =
                        text.split("«").skip(1).filter_map(|rest| rest.split('»').next()?.parse::<usize>().ok());
                    // What a sub-process or a tool gives repeats what its own steps gave.
                    kept.extend(numbers);
                }
            }
        }
    }
    kept
}

#[test]
fn killed_at_any_instant_a_process_completes_and_repeats_nothing_that_was_kept() {
    let kills = std::env::var("AGENT_RUN_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(MockLlm::start(|received| {
        let text = format!("«{}»", received.number);
        match received.path.starts_with("/hit/") {
            true => Answer::json(200, &json!({"n": text})),
            false => Answer::text_for(received, &text),
        }
    }));
    let files = || {
        Project::new()
            .file("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\n")
            .file("workflows/crash.yaml", WORKFLOW.replace("MOCK_URL", &server.url()))
            .file("workflows/inner.yaml", INNER)
    };
    let run: &[&str] = &["run", "workflows/crash.yaml", "go"];
    let whole = files();
    let started = Instant::now();
    let output = command(&whole, &server.url(), run).output().expect("the program starts");
    let lasts = started.elapsed().as_micros() as u64;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shapes = |project: &Project| -> Vec<Value> {
        let document = project.run(&["show", "@last", "--json"]).exits(0).json();
        let objects = document["blackboard"].as_array().expect("a list").iter();
        let history = document["history"].as_array().expect("a list").iter();
        objects.map(|object| object["type"].clone()).chain(history.map(|entry| entry["action"].clone())).collect()
    };
    let expected = shapes(&whole);

    let mut dice = Dice(0x5eed ^ kills as u64);
    let mut killed = 0;
    while killed < kills {
        let project = files();
        let path = project.path().join(".agent-run/state.db");
        let begun = server.received().len();
        // What was kept when the program was started again, and how many requests had come by then.
        let mut known: Vec<(BTreeSet<usize>, usize)> = Vec::new();
        let mut id: Option<String> = None;
        loop {
            let resume = id.clone().map(|id| vec!["resume".to_owned(), id]);
            let args = resume.unwrap_or_else(|| run.iter().map(|arg| (*arg).to_owned()).collect());
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let mut child = command(&project, &server.url(), &args).spawn().expect("the program starts");
            let until = Instant::now() + Duration::from_micros(dice.roll(lasts));
            let ended = loop {
                match child.try_wait().expect("the program is waited for") {
                    Some(status) => break Some(status),
                    None if Instant::now() >= until && killed < kills => break None,
                    None => std::thread::yield_now(),
                }
            };
            match ended {
                Some(status) => {
                    let output = child.wait_with_output().expect("the program was waited for");
                    assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
                    break;
                }
                None => {
                    child.kill().expect("it is killed");
                    child.wait().expect("it has ended");
                    killed += 1;
                }
            }
            if !path.is_file() {
                continue;
            }
            let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("the store is sound"));
            let rows = runtime.block_on(store.rows()).expect("the store is read");
            assert!(rows.len() <= 1, "one process was begun: {rows:?}");
            let Some(row) = rows.into_iter().next() else { continue };
            if row.has_ended() {
                assert_eq!(row.status, "completed");
                break;
            }
            known.push((runtime.block_on(kept(&*store)), server.received().len()));
            id = Some(row.process);
        }
        let received = server.received();
        let named: BTreeMap<usize, String> =
            received.iter().map(|one| (one.number, about(&one.text, &one.path))).collect();
        for (kept, before) in &known {
            let kept: BTreeSet<&String> = kept.iter().filter_map(|number| named.get(number)).collect();
            for again in received.iter().filter(|one| one.number >= *before) {
                let what = about(&again.text, &again.path);
                assert!(!kept.contains(&what), "`{what}` was kept and is asked for again");
            }
        }
        // Each kill repeats at most the calls in flight, of which there may be three side by side and a tool.
        let calls = received.len() - begun;
        assert!(calls <= 9 + 4 * known.len(), "{calls} calls after {} kills", known.len());
        assert_eq!(shapes(&project), expected);
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
fn a_damaged_store_is_told_and_left_as_it_is() {
    let project = paying().file(".agent-run/state.db", "not a store ".repeat(100));
    let output = project.run(&["run", "workflows/paying.yaml", "go"]).exits(1);
    assert!(output.stderr.contains("move it away") && output.stderr.contains("--no-store"), "{output}");
    assert!(project.read(".agent-run/state.db").starts_with("not a store"));
}
