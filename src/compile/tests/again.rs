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
            "models: {default: demo/a}\nproviders: {demo: {kind: scripted, file: script.yaml}}\nlogging: {personality: starwars}\nstore: {keep: 3}\n",
            "limits: {actions: 7}\nmodels: {default: {role: fast, temperature: 0.5}, roles: {fast: demo/f, slow: {role: fast, fallback: [demo/g]}}, embedding: demo/e}\nproviders: {demo: {kind: scripted, file: script.yaml, requests_per_minute: 3}}\n",
            "limits: {cost: 2}\nmodels: {default: demo/a, roles: {fast: demo/h, slow: demo/s, spare: demo/t}}\nproviders: {demo: {kind: scripted, file: script.yaml}, other: {kind: openai, base_url: 'https://localhost/v1'}}\n",
            "models: {default: other/a, roles: {fast: other/h, slow: demo/s, own: demo/o}}\nproviders: {demo: {kind: scripted, file: script.yaml}, other: {kind: openai, base_url: 'https://localhost/v1'}}\n",
            "models: {default: demo/a, roles: {fast: mine, slow: demo/s}}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n",
            "models: {default: nowhere/a}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n",
            "providers: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/a, roles: {fast: demo/h, slow: demo/s}}\ndefaults: {persona: clerk, timeout: 3s}\npersonas: {clerk: {name: Bob, voice: calm, persona: kind, objective: help}, spare: {role: x, goal: y, backstory: z}}\n",
            "providers: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/a, roles: {fast: demo/h, slow: demo/s}}\ndefaults: {persona: clerk, timeout: 4s}\npersonas: {clerk: {name: Bob, voice: calm, persona: kind, objective: help}, spare: {role: '{{', goal: y}, aide: {role: x, name: y}}\n",
            "providers: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/a}\nmcp_servers: {docs: {command: docs}}\ntool_groups: {docs: {from: [{mcp: docs}]}}\ndefaults: {tools: [docs]}\npermissions: {allow: ['mcp:docs']}\n",
            "providers: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/a}\nmcp_servers: {docs: {command: docs}}\ntool_groups: {docs: {from: [{mcp: docs}]}}\ndefaults: {tools: [docs]}\npermissions: {deny: ['mcp:docs']}\n",
            "models: {default: demo/a, catalog: {demo/a: {context_tokens: 10}}}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n",
            "models: {default: demo/b, catalog: {demo/a: {context_tokens: 10}}}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n",
            "types: {Topic: {name: string}}\nproviders: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/a}\n",
            "actions: {}\nproviders: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/a}\n",
            "providers: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/a}\nguardrails: {polite: {check: [reply], prompt: Is it polite?, scope: all}}\nautonomy: {goal_cut_off: 0.9}\n",
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
            "agent: one\nimport: ../shared/types.yaml\ninputs: Topic\nmodels: {roles: {own: {role: fast}, mine: demo/m}}\ndefaults: {timeout: 9s}\nactions:\n  write: {inputs: Topic, output: Report, llm: {role: slow, max_tokens: 9}, prompt: 'On {{ topic.name }}', achieves: Written}\n",
            "agent: one\nimport: ../shared/types.yaml\ninputs: Topic\nmodels: {default: {role: fast}}\npersonas: {spare: {role: a, goal: b, backstory: c}}\ndefaults: {persona: spare, tools: [two]}\nactions:\n  write: {inputs: Topic, output: Report, prompt: \"{% include 'gone.jinja' ignore missing %}{% include topic.name ~ '.jinja' %}\", achieves: Written}\n",
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
    ("prompts/gone.jinja", &["", "{{ nothing }}", "here"]),
    ("prompts/more.jinja", &["!", "?{{ config }}", "{% if %}", ""]),
    ("prompts/say.jinja", &["Say {{ user_input.content }}", "{{ user_input.contnt }}", ""]),
    ("references/set.yaml", &["references: {shared: {text: y}}\n", "references: {notes: {text: y}}\n", ""]),
    (
        "notes.md",
        &[
            "notes",
            "other notes",
            "",
            "Notes that are longer than ten tokens, and so too long for a model that reads only ten of them at once.\n",
        ],
    ),
    (
        "workflows/four.yaml",
        &[
            "agent: four\ninputs: UserInput\ntypes: {Out: {text: string}}\nreferences: {able: {skills: skills}, notes: {file: notes.md, mode: prompt}}\nactions:\n  say: {inputs: UserInput, output: Out, references: [able, notes], prompt: x, achieves: Said}\n",
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
    // The first is the project file, which has the most to say.
    let (path, variants) = FILES[dice.below(FILES.len() + 5).saturating_sub(5)];
    match variants[dice.below(variants.len())] {
        "" => world.delete(path),
        text => world.save(path, text),
    }
}

/// Everything that can be told of a compilation, with files by their paths.
fn told(compiled: Compiled) -> Vec<String> {
    let files = Regex::new(r"FileId\((\d+)\)").expect("a pattern");
    let in_project = Regex::new(r"Span \{ file: agent-run.yaml, [^}]*\}").expect("a pattern");
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
        told.push(named(format!("{:?}", (&agent.tools, &agent.config, &agent.conditions, &agent.guardrails))));
        told.push(named(format!("{:?}", (&agent.models, &agent.embedding, &agent.limits, &agent.supervisor))));
        // What is left alone keeps the places that the project file had.
        let written = named(format!("{:?}", agent.written));
        told.push(in_project.replace_all(&written, "").into_owned());
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

/// A project, and what its compilations have left.
struct Edited {
    world: Arc<MemoryWorld>,
    memory: Memory,
    snapshot: Snapshot,
}

impl Edited {
    fn new(files: &[(&str, &str)]) -> Edited {
        let world = Arc::new(MemoryWorld::with_files(files.iter().copied()));
        Edited { snapshot: Snapshot::new(world.clone()), memory: Memory::new(), world }
    }

    fn compiled(&mut self, edits: &[(&str, &str)]) -> Compiled {
        edits.iter().for_each(|(path, text)| self.world.save(path, *text));
        self.snapshot = self.snapshot.next();
        compile_again(&self.snapshot, Entry::Project, &mut self.memory)
    }

    fn agents(&mut self, edits: &[(&str, &str)]) -> Vec<Arc<Agent>> {
        let compiled = self.compiled(edits);
        assert!(!compiled.diagnostics.has_errors(), "{:?}", lines(&compiled));
        compiled.program.expect("a program").agents.clone()
    }
}

/// The agents that are the very ones that they were, and those whose strings were taken over.
fn taken_over(before: &[Arc<Agent>], after: &[Arc<Agent>]) -> (String, String) {
    let names = |is_taken: &dyn Fn(&Arc<Agent>, &Arc<Agent>) -> bool| {
        let taken = after.iter().filter(|agent| before.iter().any(|before| is_taken(before, agent)));
        let mut names: Vec<&str> = taken.map(|agent| agent.name.as_str()).collect();
        names.sort_unstable();
        names.join(" ")
    };
    (names(&|a, b| Arc::ptr_eq(a, b)), names(&|a, b| Arc::ptr_eq(&a.templates, &b.templates)))
}

#[test]
fn an_edit_of_the_project_file_costs_the_agents_that_use_what_it_touches() {
    let flow = |name: &str, rest: &str| {
        format!(
            "agent: {name}\ntypes: {{Out: {{text: string}}}}\n{rest}\nactions:\n  go: {{inputs: UserInput, output: Out, prompt: Hello, achieves: Said}}\n"
        )
    };
    let plain = flow("plain", "");
    let quick = flow("quick", "models: {default: {role: fast}}");
    let voiced = flow("voiced", "defaults: {persona: clerk, timeout: 9s}");
    let project = "models:\n  default: openai/a\n  roles: {fast: openai/f, spare: openai/s}\npersonas:\n  clerk: {name: Ann, voice: calm, persona: kind, objective: help}\n  other: {name: Bob, voice: calm, persona: kind, objective: help}\n";
    let files = [
        ("workflows/1.yaml", &*plain),
        ("workflows/2.yaml", &*quick),
        ("workflows/3.yaml", &*voiced),
        ("agent-run.yaml", project),
    ];
    let all = "plain quick voiced";
    let edits: &[(&str, &str, &str, &str)] = &[
        // What, by what; the agents that are the very ones; those whose strings are not compiled anew.
        ("models:\n  default", "# a comment\n\nmodels:\n  default", all, all),
        (
            "models:\n  default",
            "logging: {personality: starwars}\nstore: {keep: 3}\nautonomy: {goal_cut_off: 0.9}\nmodels:\n  default",
            all,
            all,
        ),
        (
            "models:\n  default",
            "providers: {openai: {requests_per_minute: 3}, mine: {kind: openai, base_url: 'https://localhost/v1'}}\nmodels:\n  default",
            all,
            all,
        ),
        ("models:\n  default", "permissions: {allow: [internet]}\nproject: {name: x}\nmodels:\n  default", all, all),
        ("spare: openai/s", "spare: openai/z, more: openai/m", all, all),
        ("name: Bob", "name: Cid", all, all),
        ("fast: openai/f", "fast: {model: openai/f, temperature: 0.5}", "plain voiced", all),
        ("default: openai/a", "default: {role: spare, fallback: [openai/b]}", "quick", all),
        ("models:\n  default", "limits: {actions: 5}\nmodels:\n  default", "", all),
        ("models:\n  default", "defaults: {timeout: 5s}\nmodels:\n  default", "voiced", "voiced"),
        ("name: Ann", "name: Eve", "plain quick", "plain quick"),
        ("models:\n  default", "config: {tone: kind}\nmodels:\n  default", "", ""),
    ];
    for (from, to, same, shared) in edits {
        let mut edited = Edited::new(&files);
        let before = edited.agents(&[]);
        let text = project.replacen(from, to, 1);
        assert_ne!(text, project);
        let after = edited.agents(&[("agent-run.yaml", &text)]);
        assert_eq!(taken_over(&before, &after), ((*same).to_owned(), (*shared).to_owned()), "{to}");
        // And back, by way of a file that is half there.
        assert!(edited.compiled(&[("agent-run.yaml", "models: [")]).program.is_none());
        let back = edited.agents(&[("agent-run.yaml", project)]);
        assert_eq!(taken_over(&after, &back), ((*same).to_owned(), (*shared).to_owned()), "back from {to}");
    }
}

#[test]
fn a_file_that_comes_or_goes_costs_the_agents_that_looked_for_it() {
    let flow = |name: &str, body: &str| {
        format!(
            "agent: {name}\ntypes: {{Out: {{text: string}}}}\nactions:\n  go: {{inputs: UserInput, output: Out, {body}, achieves: Said}}\n"
        )
    };
    let plain = flow("plain", "prompt: Hello");
    let drawn = flow("drawn", "prompt: {template: drawn}");
    let soft = flow("soft", "prompt: \"{% include 'later.jinja' ignore missing %}\"");
    let handing = flow("handing", "prompt: Ask, tools: [plain]");
    let files = [
        ("workflows/1.yaml", &*plain),
        ("workflows/2.yaml", &*drawn),
        ("workflows/3.yaml", &*soft),
        ("workflows/4.yaml", &*handing),
        ("prompts/drawn.jinja", "Hello"),
        ("references/set.yaml", "references: {a: {text: x}}\n"),
    ];
    let (all, mut edited) = ("drawn handing plain soft", Edited::new(&files));
    let mut before = edited.agents(&[]);
    let mut after_edit = |path: &str, text: Option<&str>| {
        let after = match text {
            Some(text) => edited.agents(&[(path, text)]),
            None => {
                edited.world.delete(path);
                edited.agents(&[])
            }
        };
        let taken = taken_over(&before, &after).0;
        before = after;
        taken
    };
    assert_eq!(after_edit("workflows/5.yaml", Some(&flow("fifth", "prompt: Hi"))), all);
    assert_eq!(after_edit("workflows/5.yaml", Some(&flow("sixth", "prompt: Hi"))), all);
    assert_eq!(after_edit("workflows/5.yaml", None), all);
    assert_eq!(after_edit("schemas/new.json", Some("{}")), all);
    assert_eq!(after_edit("references/more.yaml", Some("references: {b: {text: y}}\n")), all);
    assert_eq!(after_edit("prompts/more.jinja", Some("more")), "drawn handing plain");
    assert_eq!(after_edit("prompts/more.jinja", None), "drawn handing plain");
    assert_eq!(after_edit("prompts/drawn.jinja", Some("Other")), "handing plain soft");
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

#[test]
fn several_entries_take_over_what_the_round_before_has_left() {
    let world = Arc::new(MemoryWorld::new());
    FILES.iter().for_each(|(path, variants)| world.save(path, variants[0]));
    let (mut memories, mut snapshot) = (Memories::default(), Snapshot::new(world.clone()));
    let mut round = |entries: &[Entry]| -> Vec<Vec<Arc<Agent>>> {
        let compiled = entries.iter().map(|entry| memories.compile(&snapshot, entry.clone()));
        let agents = compiled.map(|compiled| compiled.program.expect("a program").agents.clone()).collect();
        snapshot = snapshot.next();
        memories.next_round();
        agents
    };
    let (all, one) = (Entry::Project, Entry::File(PathBuf::from("workflows/four.yaml")));
    let first = round(&[all.clone(), one.clone()]);
    world.save("workflows/three.yaml", "agent: three\n# nothing\ntypes: {Out: string}\nactions: {say: {inputs: UserInput, output: Out, set: x, achieves: Said}}\n");
    let second = round(&[all.clone(), one.clone()]);
    assert_eq!(taken_over(&first[0], &second[0]).0, "four one two");
    assert_eq!(taken_over(&first[1], &second[1]).0, "four");
    // What was left out of a round has nothing left: its files may have changed meanwhile.
    round(&[all]);
    assert_eq!(taken_over(&second[1], &round(&[one])[0]).0, "");
}
