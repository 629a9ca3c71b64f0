//! What `--events` writes is what `schemas/events.json` says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::project::Project;
use crate::support::{root, text};

#[test]
fn every_event_of_a_run_fits_the_published_schema() {
    let schema: Value = serde_json::from_str(&text(&root().join("schemas/events.json"))).expect("a schema");
    let schema = jsonschema::options().offline().should_validate_formats(true).build(&schema).expect("it compiles");
    let project = Project::of_the_repository();
    let mut told: BTreeSet<String> = BTreeSet::new();
    for (name, input) in [
        ("star-news", "Lynda is a Scorpio, find news for her"),
        ("desk-tools", "Which orders has Lind?"),
        ("trip-planner", "Three days in Lisbon in May, with my parents"),
        ("ticket-triage", "Production is down, nobody can log in!"),
        ("write-and-review", "An otter who is afraid of water"),
    ] {
        let (workflow, script) = (format!("workflows/{name}.yaml"), format!("prompts/scripts/{name}.yaml"));
        project.run(&["run", &workflow, "--no-store", "--script", &script, "--events", "events.jsonl", input]);
        let mut count = 0;
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for line in project.read("events.jsonl").lines() {
            let event: Value = serde_json::from_str(line).expect("a line of JSON");
            count += 1;
            let seq = last.entry(event["process"].as_str().unwrap_or_default().to_owned()).or_default();
            *seq += 1;
            assert_eq!(event["seq"], *seq, "{line}");
            let wrong: Vec<String> = schema.iter_errors(&event).map(|error| error.to_string()).collect();
            assert!(wrong.is_empty(), "{line}\n{wrong:#?}");
            told.insert(event["event"].as_str().unwrap_or_default().to_owned());
        }
        assert!(count > 5, "{name}");
    }
    for event in
        ["process_created", "planned", "llm_request", "llm_reply", "tool_called", "tool_result", "waiting", "finished"]
    {
        assert!(told.contains(event), "no run tells `{event}`: {told:?}");
    }
    let unknown =
        serde_json::json!({"v": 1, "seq": 1, "at": "2025-01-01T00:00:00Z", "process": "P1", "event": "other"});
    assert!(!schema.is_valid(&unknown));
}
