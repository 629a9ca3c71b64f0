//! Agent Skills: the verdict on every sample is the one that the reference validator (`skills-ref` 0.1.1) gave.

use std::path::{Path, PathBuf};

use agent_run::reference::skill;
use agent_run::source::Sources;
use agent_run::world::MemoryWorld;
use serde_json::Value;

use crate::support::root;

/// The samples: the text of a `SKILL.md`, the names of its directory and file where they are others than `my-skill` and
/// `SKILL.md`, and the rules that the reference validator found broken. `SKILL_VERDICTS` names another such file.
fn samples() -> Vec<Value> {
    let file = std::env::var_os("SKILL_VERDICTS").map(PathBuf::from);
    let file = file.unwrap_or_else(|| root().join("tests/samples/skills/verdicts.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).expect("a list of samples")
}

#[test]
fn verdicts_are_those_of_the_reference_validator() {
    let samples = samples();
    let mut wrong = Vec::new();
    for sample in &samples {
        let dir = Path::new(sample["dir"].as_str().unwrap_or("my-skill"));
        let file = dir.join(sample["file"].as_str().unwrap_or("SKILL.md"));
        let text = sample["text"].as_str().expect("a text");
        let mut world = MemoryWorld::new();
        world.write(&file, text);
        let (skill, judged) = skill::check(&world, dir, None, &mut Sources::new());
        let mut rules: Vec<&str> = judged.findings.iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let expected: Vec<&str> =
            sample["breaks"].as_array().expect("rules").iter().filter_map(Value::as_str).collect();
        assert_eq!(skill.is_some(), rules.is_empty(), "{sample}");
        if rules != expected {
            let messages: Vec<_> = judged.findings.iter().map(|finding| &finding.diagnostic.message).collect();
            wrong.push(format!("{}\n  expected {expected:?}, found {rules:?} {messages:?}\n{text:?}", sample["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), samples.len(), wrong.join("\n"));
}
