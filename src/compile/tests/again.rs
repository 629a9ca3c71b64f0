//! A compilation that takes over what has not changed gives what one from nothing gives.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

use super::*;
use crate::diag::render;
use crate::world::Snapshot;

/// A file with what it may hold from one edit to the next; nothing: it is not there.
const FILES: &[(&str, &[&str])] = &[
    (
        "agent-run.yaml",
        &[
            "models: {default: demo/a}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n",
            "# a comment\nmodels: {default: demo/b}\nproviders: {demo: {kind: scripted, file: script.yaml}}\ndefaults: {persona: clerk}\npersonas: {clerk: {name: Ann, voice: calm, persona: kind, objective: help}}\n",
            "project: {prompts: other}\nmodels: {default: openai/gpt-4.1}\n",
            "models: [\n",
            "",
        ],
    ),
    ("script.yaml", &["replies: []\n", "replies: [{reply: x}]\n", "replies: 1\n", ""]),
    (
        "shared/types.yaml",
        &[
            "types:\n  Topic: {name: string}\n  Report: {text: string}\n",
            "types:\n  # longer\n  Topic: {name: string, size: integer}\n  Report: {text: string}\n",
            "types:\n  Topic: {nam: string}\n",
            "types:\n  Topic: {schema: topic.json}\n  Report: {text: string}\n",
            "",
        ],
    ),
    ("schemas/topic.json", &["{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}}}", "{", ""]),
    (
        "shared/platform.yaml",
        &[
            "import: types.yaml\nactions:\n  name_it: {inputs: UserInput, output: Topic, prompt: 'Name {{ user_input.content }}'}\n",
            "import: types.yaml\nactions:\n  name_it: {inputs: UserInput, output: Topic, prompt: 'Now name {{ user_input.content }}'}\n",
            "conditions: {late: false}\n",
            "",
        ],
    ),
    (
        "workflows/one.yaml",
        &[
            "agent: one\nimport: [../shared/types.yaml, platform]\ninputs: Topic\nactions:\n  write: {inputs: Topic, output: Report, prompt: {template: write}, achieves: Written}\n",
            "agent: one\nimport: ../shared/types.yaml\ndescription: Writes\ninputs: [Topic, UserInput]\nactions:\n  write: {inputs: Topic, output: Report, prompt: 'On {{ topic.name }}', achieves: Written}\n",
            "agent: two\nimport: ../shared/types.yaml\nactions: {}\n",
            "agent: one\nactions: {write: {inputs: Topic\n",
            "",
        ],
    ),
    (
        "workflows/two.yaml",
        &[
            "agent: two\nimport: ../shared/types.yaml\ninputs: Topic\nactions:\n  hand_on: {inputs: Topic, output: Report, agent: one, achieves: Done}\n",
            "agent: two\nimport: ../shared/types.yaml\ninputs: UserInput\nreferences: {notes: {file: notes.md}, more: {text: x}}\nactions:\n  start: {inputs: UserInput, output: Topic, set: {name: '{{ user_input.content }}'}}\n  ask: {inputs: Topic, output: Report, tools: [one], prompt: 'Ask of {{ topic.nam }}', achieves: Done}\n",
            "agent: two\nimport: ../shared/types.yaml\ninputs: UserInput\nactions:\n  start: {inputs: UserInput, output: Topic, set: {name: '{{ user_input.content }}'}}\n  ask: {inputs: Topic, output: Report, tools: [one], prompt: 'Ask of {{ topic.name }}', achieves: Done}\n",
            "",
        ],
    ),
    (
        "workflows/three.yaml",
        &[
            "agent: three\ninputs: UserInput\ntypes: {Out: {text: string}}\nactions:\n  say: {inputs: UserInput, output: Out, set: {text: x}, achieves: Said}\n",
            "agent: three\ninputs: UserInput\ntypes: {Out: {text: string}}\nactions:\n  say: {inputs: UserInput, output: Out, prompt: {template: say}, achieves: Said}\n  idle: {inputs: Out, output: Out, set: {text: y}}\n",
            "",
        ],
    ),
    (
        "prompts/write.jinja",
        &["On {{ topic.name }}{% include 'more.jinja' %}\n", "About {{ topic.name }}\n", "{{ topic.", ""],
    ),
    ("prompts/more.jinja", &["!", "?{{ config }}", "{% if %}", ""]),
    ("prompts/say.jinja", &["Say {{ user_input.content }}", "{{ user_input.contnt }}", ""]),
    ("references/set.yaml", &["references: {shared: {text: y}}\n", "references: {notes: {text: y}}\n", ""]),
    ("notes.md", &["notes", "other notes", ""]),
    (
        "workflows/four.yaml",
        &[
            "agent: four\ninputs: UserInput\ntypes: {Out: {text: string}}\nreferences: {able: {skills: skills}, notes: {file: notes.md}}\nactions:\n  say: {inputs: UserInput, output: Out, references: [able, notes], prompt: x, achieves: Said}\n",
            "",
        ],
    ),
    (
        "skills/refunds/SKILL.md",
        &[
            "---\nname: refunds\ndescription: How money is given back.\n---\nAsk.\n",
            "---\nname: refunds\ndescription: How all money is given back.\n---\nAsk.\n",
            "---\nname: Refunds\n---\n",
            "",
        ],
    ),
];

/// Numbers that are the same each time (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

fn edit(world: &MemoryWorld, dice: &mut Dice) {
    let (path, variants) = FILES[dice.below(FILES.len())];
    match variants[dice.below(variants.len())] {
        "" => world.delete(path),
        text => world.save(path, text),
    }
}

/// Everything that can be told of a compilation, with files by their paths.
fn told(compiled: Compiled) -> Vec<String> {
    let files = Regex::new(r"FileId\((\d+)\)").expect("a pattern");
    let named = |text: String| {
        let path = |found: &regex::Captures<'_>| {
            let id = found[1].parse().map(crate::source::FileId).unwrap_or_default();
            compiled.sources.get(id).path().to_owned()
        };
        files.replace_all(&text, path).into_owned()
    };
    let read: BTreeSet<&PathBuf> = compiled.read.iter().collect();
    let mut told =
        vec![format!("{read:?}"), format!("{:?}", compiled.checked), format!("{}", compiled.program.is_some())];
    let found = compiled.diagnostics.clone().sorted(&compiled.sources);
    told.push(render::human(&found, &compiled.sources, render::Options::default()));
    for agent in compiled.program.iter().flat_map(|program| &program.agents) {
        told.push(named(format!("{:?}", agent.actions)));
        told.push(named(format!("{:?}", (&agent.name, &agent.inputs, &agent.goals, &agent.facts, &agent.operators))));
        told.push(named(format!("{:?}", (&agent.written, &agent.tools, &agent.config, &agent.conditions))));
    }
    told
}

#[test]
fn an_edit_gives_what_a_compilation_from_nothing_gives() {
    let rounds = std::env::var("AGENT_RUN_EDITS").ok().and_then(|count| count.parse().ok()).unwrap_or(12);
    for seed in 0..rounds {
        let mut dice = Dice(seed);
        let world = Arc::new(MemoryWorld::new());
        FILES.iter().for_each(|(path, variants)| world.save(path, variants[0]));
        let entry = match seed % 3 {
            0 => Entry::File(PathBuf::from("workflows/two.yaml")),
            _ => Entry::Project,
        };
        let (mut memory, mut snapshot) = (Memory::new(), Snapshot::new(world.clone()));
        for step in 0..25 {
            snapshot = snapshot.next();
            let again = compile_again(&snapshot, entry.clone(), &mut memory);
            let fresh_snapshot = Snapshot::new(world.clone());
            let fresh = compile(&fresh_snapshot, entry.clone());
            let same = match (&again.program, &fresh.program) {
                (Some(a), Some(b)) => a.same_as(b) && b.same_as(a),
                (a, b) => a.is_none() && b.is_none(),
            };
            assert!(same, "seed {seed}, step {step}: the programs differ");
            let (again, fresh) = (told(again), told(fresh));
            for (again, fresh) in again.iter().zip(&fresh) {
                assert_eq!(again, fresh, "seed {seed}, step {step}");
            }
            assert_eq!(again.len(), fresh.len());
            // What would be watched is the same too.
            assert_eq!(snapshot.asked(), fresh_snapshot.asked(), "seed {seed}, step {step}");
            for _ in 0..=dice.below(2) {
                edit(&world, &mut dice);
            }
        }
    }
}

#[test]
fn what_an_edit_does_not_touch_is_taken_over() {
    let world = Arc::new(MemoryWorld::new());
    FILES.iter().for_each(|(path, variants)| world.save(path, variants[0]));
    let (mut memory, mut snapshot) = (Memory::new(), Snapshot::new(world.clone()));
    let mut agents = |edits: &[(&str, usize)]| {
        for (path, variant) in edits {
            let (path, variants) = FILES.iter().find(|(known, _)| known == path).expect("a file");
            world.save(Path::new(path), variants[*variant]);
        }
        snapshot = snapshot.next();
        let compiled = compile_again(&snapshot, Entry::Project, &mut memory);
        assert!(!compiled.diagnostics.has_errors(), "{:?}", lines(&compiled));
        compiled.program.expect("a program").agents.clone()
    };
    let taken = |before: &[Arc<Agent>], after: &[Arc<Agent>]| -> Vec<String> {
        let same = after.iter().filter(|agent| before.iter().any(|before| Arc::ptr_eq(before, agent)));
        let mut names: Vec<String> = same.map(|agent| agent.name.clone()).collect();
        names.sort();
        names
    };
    let first = agents(&[]);
    let second = agents(&[("workflows/three.yaml", 1)]);
    assert_eq!(taken(&first, &second), ["four", "one", "two"]);
    let third = agents(&[("prompts/say.jinja", 0), ("prompts/write.jinja", 1)]);
    assert_eq!(taken(&second, &third), ["four", "three", "two"]);
    // How `one` looks to `two` has changed.
    let fourth = agents(&[("workflows/one.yaml", 1)]);
    assert_eq!(taken(&third, &fourth), ["four", "three"]);
    let fifth = agents(&[("shared/types.yaml", 1)]);
    assert_eq!(taken(&fourth, &fifth), ["four", "three"]);
    let sixth = agents(&[("notes.md", 1)]);
    assert_eq!(taken(&fifth, &sixth), ["one", "three", "two"]);
    assert_eq!(taken(&sixth, &agents(&[])).len(), 4);
    assert_eq!(taken(&fifth, &agents(&[("agent-run.yaml", 1)])), Vec::<String>::new());
}
