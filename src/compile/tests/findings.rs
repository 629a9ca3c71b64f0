//! What is wrong in a project, and where: files in, `code at "text"` out.

use std::path::PathBuf;

use crate::compile::{Entry, compile};
use crate::world::MemoryWorld;

use super::{STAR_NEWS, compiled};

/// The findings as `code at "text"`, each once.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let compiled = compiled(files);
    let line = |d: &crate::diag::Diagnostic| {
        let text = d.span.map(|span| compiled.sources.slice(span)).unwrap_or_default();
        format!("{} at {:?}", d.code, text.lines().next().unwrap_or_default())
    };
    compiled.diagnostics.iter().map(line).collect()
}

/// Star news with one text replaced.
fn star_news(from: &str, to: &str) -> Vec<String> {
    assert!(STAR_NEWS.contains(from), "{from}");
    found(&[("workflows/star-news.yaml", &STAR_NEWS.replacen(from, to, 1))])
}

#[test]
fn mistakes_in_star_news_are_found_at_their_places() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("output: StarPerson", "output: StarPersn", &["unknown-type at \"StarPersn\""]),
        (
            "inputs: StarPerson\n",
            "inputs: Horroscope\n",
            &["unknown-type at \"Horroscope\"", "unknown-variable at \"star_person\""],
        ),
        ("{{ star_person.name }} believes", "{{ star_person.nme }} believes", &["unknown-field at \"nme\""]),
        ("horoscope.summary }}", "horoscop.summary }}", &["unknown-variable at \"horoscop\""]),
        ("config.story_count", "config.story_cuont", &["unknown-field at \"story_cuont\""]),
        ("llm: {role: best", "llm: {role: bst", &["unknown-role at \"bst\""]),
        (
            "default: openai/gpt-4.1-mini",
            "default: opnai/gpt-4.1-mini",
            &["unknown-provider at \"opnai/gpt-4.1-mini\""],
        ),
        ("age?: integer", "age?: int", &["unknown-type at \"int\""]),
        (
            "Horoscope: {summary: string}",
            "horoscope_text: {summary: string}",
            &[
                "bad-name at \"horoscope_text\"",
                "unknown-type at \"Horoscope\"",
                "unknown-type at \"Horoscope\"",
                "unknown-type at \"Horoscope\"",
            ],
        ),
        ("set: {summary:", "set: {sumary:", &["unknown-field at \"sumary\""]),
        ("story_count: 3", "story_count: 3, story_count: 4", &["duplicate-key at \"story_count\""]),
        ("  writeup:\n", "  writeup:\n    pre: [ready]\n", &["unknown-variable at \"ready\""]),
        ("  writeup:\n", "  writeup:\n    post: [ready]\n", &["unknown-condition at \"ready\""]),
        ("  writeup:\n", "  writeup:\n    hide: [horoscop]\n", &["unknown-input at \"horoscop\""]),
        ("  writeup:\n", "  writeup:\n    cost: \"'high'\"\n", &["wrong-type at \"\\\"'high'\\\"\""]),
        ("  writeup:\n", "  writeup:\n    cost: -2\n", &["out-of-range at \"-2\""]),
        ("  writeup:\n", "  writeup:\n    trigger: StarPersona\n", &["unknown-type at \"StarPersona\""]),
        ("  writeup:\n", "  writeup:\n    persona: writer\n", &["unknown-persona at \"writer\""]),
        ("  writeup:\n", "  writeup:\n    references: guide\n", &["unknown-reference at \"guide\""]),
        ("  writeup:\n", "  writeup:\n    tools: [serch]\n", &["unknown-tool at \"serch\""]),
        ("  writeup:\n", "  writeup:\n    on_error: {output: {txt: x}}\n", &["unknown-field at \"txt\""]),
        ("agent: star-news-finder", "agent: StarNews", &["bad-name at \"StarNews\""]),
        ("    achieves: {description: The news are written up, value: 1}\n", "", &["no-goal at \"star-news-finder\""]),
        ("    output: Horoscope\n", "    output: Writeup\n", &["unknown-field at \"summary\""]),
        ("actions:\n", "keep: [StarPersn]\nactions:\n", &["unknown-type at \"StarPersn\""]),
        ("actions:\n", "providers: {}\nactions:\n", &["misplaced-section at \"providers\""]),
    ];
    let mut wrong = Vec::new();
    for (from, to, expected) in cases {
        let mut findings = star_news(from, to);
        let mut expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
        findings.sort();
        expected.sort();
        if findings != expected {
            wrong.push(format!("{to:?}\n  expected {expected:?}\n  found    {findings:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn suggestions_come_first_and_sure_ones_are_fixes() {
    let world =
        MemoryWorld::with_files([("a.yaml", STAR_NEWS.replace("output: StarPerson", "output: StarPersn").as_str())]);
    let compiled = compile(&world, Entry::File(PathBuf::from("a.yaml")));
    let finding = compiled.diagnostics.iter().next().expect("a finding");
    assert_eq!(finding.help[0], "did you mean `StarPerson`?");
    assert_eq!(finding.fix.as_ref().map(|fix| fix.replacement.as_str()), Some("StarPerson"));
}

#[test]
fn positions_reach_into_template_files_and_blocks() {
    let workflow = "agent: a\ntypes:\n  Note: {text: string}\nactions:\n  go:\n    inputs: UserInput\n    output: Note\n    prompt: {template: notes/go}\n    achieves: Done\n";
    let files = [
        ("workflows/a.yaml", workflow),
        ("prompts/notes/go.jinja", "Hello\n{% include 'notes/part.jinja' %}\n"),
        ("prompts/notes/part.jinja", "{{ user_input.contnt }}\n"),
    ];
    let compiled = compiled(&files);
    let finding = compiled.diagnostics.iter().next().expect("a finding");
    let span = finding.span.expect("a place");
    assert_eq!(
        (compiled.sources.get(span.file).path(), compiled.sources.slice(span)),
        ("prompts/notes/part.jinja", "contnt")
    );
}

#[test]
fn types_with_mistakes_say_so_where_they_are() {
    let cases: &[(&str, &[&str])] = &[
        ("A: {is: B}\n  B: {is: A}", &["type-cycle at \"A\""]),
        ("A: {one_of: [A]}", &["type-cycle at \"A\""]),
        ("A: B\n  B: A", &["type-cycle at \"A\""]),
        ("UserInput: {text: string}", &["duplicate-name at \"UserInput\""]),
        ("A: {abstract: true}\n  B: {is: A, fields: {type: string}}", &["discriminator-clash at \"type\""]),
        ("A: {abstract: true, discriminator: kind}\n  B: {is: A, fields: {type: string}}", &[]),
        ("A: {fields: {x: strin}}", &["unknown-type at \"strin\""]),
        ("A: {x: {type: integer, default: a}}", &["bad-default at \"a\""]),
        ("A: {schema: missing.json}", &["file-not-found at \"missing.json\""]),
        ("A: {fields: {x: integer}, rules: [{check: y > 1}]}", &["unknown-variable at \"y\""]),
        ("A: {fields: {x: integer}, computed: {label: z ~ x}}", &["unknown-variable at \"z\""]),
        ("A: {x: Person[]}", &["list-brackets at \"Person[]\""]),
    ];
    let mut wrong = Vec::new();
    for (types, expected) in cases {
        let found = found(&[("shared.yaml", &format!("types:\n  {types}\n"))]);
        if found != *expected {
            wrong.push(format!("{types:?}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_one_mistake_hides_is_not_reported() {
    // The type cannot be read, but it is declared.
    let text = "agent: a\ntypes:\n  Note: [1]\nactions:\n  go:\n    inputs: UserInput\n    output: Note\n    set: {text: hi}\n    achieves: Done\n";
    assert_eq!(found(&[("a.yaml", text)]), ["wrong-shape at \"[1]\""]);
    // The role cannot be read, but it is declared.
    let text = "agent: a\nmodels: {roles: {best: [1]}}\ntypes:\n  Note: {text: string}\nactions:\n  go:\n    inputs: UserInput\n    output: Note\n    llm: best\n    prompt: '{{ user_input.content }}'\n    achieves: Done\n";
    assert_eq!(found(&[("a.yaml", text)]), ["wrong-shape at \"[1]\""]);
}

#[test]
fn a_project_is_checked_whole_and_a_file_with_its_closure_only() {
    let good = "agent: good\ntypes:\n  Note: {text: string}\nactions:\n  go: {inputs: UserInput, output: Note, set: {text: hi}, achieves: Done}\n";
    let files = [
        ("workflows/good.yaml", good),
        ("workflows/bad.yaml", "agent: bad\ntypes: {X: Y}\n"),
        ("workflows/shared.yaml", "types: {X: Z}\n"),
        ("prompts/bad.jinja", "{{ x"),
    ];
    let world = MemoryWorld::with_files(files);
    let one = compile(&world, Entry::File(PathBuf::from("workflows/good.yaml")));
    assert!(one.program.is_some());
    let all = compile(&world, Entry::Project);
    let codes: Vec<&str> = all.diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(codes, ["template-syntax", "no-goal", "unknown-type", "unknown-type"]);
    assert!(all.program.is_none());
    assert_eq!(all.checked.agents, 2);
    let missing = compile(&world, Entry::Agent("goood".to_owned()));
    assert_eq!(missing.diagnostics.iter().next().map(|d| d.help[0].clone()).as_deref(), Some("did you mean `good`?"));
}

#[test]
fn later_features_are_checked_and_noted() {
    let text = "agent: a\nconcurrency: 2\ntypes:\n  Note: {text: string}\nreferences:\n  guide: {rag: {documents: docs/*.md}}\nactions:\n  go:\n    inputs: UserInput\n    output: Note\n    references: guide\n    prompt: Write\n    achieves: Done\n";
    let compiled = compiled(&[("a.yaml", text)]);
    let agent = compiled.program.as_ref().map(|program| program.agents[0].unsupported.clone()).expect("a program");
    let all = agent.join("\n");
    assert!(
        all.contains("the source `rag` of the reference `guide`, which comes in a later version (a.yaml:11:"),
        "{all}"
    );
}

#[test]
fn sub_agents_are_drawn_in_and_their_inputs_checked() {
    let main = "agent: main\ntypes:\n  Note: {text: string}\nactions:\n  go:\n    inputs: UserInput\n    output: Note\n    agent: {name: helper, with: {user_input: {content: '{{ user_input.content }}'}}}\n    achieves: Done\n";
    let helper = "agent: helper\ninputs: UserInput\ntypes:\n  Note: {text: string}\nactions:\n  help: {inputs: UserInput, output: Note, set: {text: hi}, achieves: Done}\n";
    let compiled = compiled(&[("workflows/main.yaml", main), ("workflows/helper.yaml", helper)]);
    let names: Vec<String> =
        compiled.program.iter().flat_map(|program| program.agents.iter().map(|agent| agent.name.clone())).collect();
    assert_eq!(names, ["main", "helper"]);
}

#[test]
fn equal_programs_ignore_places() {
    let program = |text: &str| compiled(&[("a.yaml", text)]).program.expect("a program");
    let spaced = STAR_NEWS
        .replace("actions:\n", "# a comment\n\nactions:\n")
        .replace("inputs: [StarPerson, Horoscope]", "inputs: [ StarPerson , Horoscope ]");
    assert!(program(STAR_NEWS).same_as(&program(&spaced)));
    assert!(!program(STAR_NEWS).same_as(&program(&STAR_NEWS.replace("Write up", "Write down"))));
}

#[test]
fn missing_environment_is_a_warning_with_its_place() {
    let mut world = MemoryWorld::with_files([
        (
            "agent-run.yaml",
            "providers:\n  local: {kind: openai, api_key: '${env:NOT_SET}', base_url: '${env:URL:-http://x}'}\n  other: {kind: openai, api_key: '${env:SET}'}\n",
        ),
        ("a.yaml", STAR_NEWS),
    ]);
    world.set_env("SET", "sk-a-secret-key");
    let compiled = compile(&world, Entry::File(PathBuf::from("a.yaml")));
    let program = compiled.program.expect("only a warning");
    assert_eq!(program.missing_env[0].place, "agent-run.yaml:2:34");
    assert_eq!(program.providers["local"].base_url.as_deref(), Some("http://x"));
    assert_eq!(program.providers["other"].api_key.as_ref().map(|key| key.expose()), Some("sk-a-secret-key"));
    assert!(!format!("{program:?}").contains("sk-a-secret-key"));
}

#[test]
fn a_branch_is_checked_under_what_its_when_says_and_the_ones_before_did_not() {
    let text = "agent: a\ntypes:\n  Order: {id: string, note?: string}\n  Card: {text: string}\nactions:\n  write:\n    \
                inputs: Order\n    output: Card\n    choose:\n      - when: order.note is defined\n        set: {text: \"{{ order.note }}\"}\n      \
                - set: {text: \"no note {{ order.id }}\"}\ngoals: {done: Card}\n";
    assert_eq!(found(&[("workflows/a.yaml", text)]), Vec::<String>::new());
    let without = text.replace("order.note is defined", "order.id == '1'");
    assert_eq!(found(&[("workflows/a.yaml", &without)]), ["optional-unguarded at \"order.note\""]);
    let turned = without.replace("order.id == '1'", "order.note is undefined").replace("{{ order.note }}", "x");
    let turned = turned.replace("no note {{ order.id }}", "{{ order.note }}");
    assert_eq!(found(&[("workflows/a.yaml", &turned)]), Vec::<String>::new());
}

#[test]
fn an_expr_that_only_asks_about_a_type_can_be_met_without_it() {
    let text = "agent: a\ninputs: UserInput\ntypes: {X: {t: string}, Answer: {text: string}}\nactions:\n  answer: {inputs: UserInput, \
                output: Answer, pre: \"not has('X')\", set: {text: hi}}\ngoals: {done: Answer}\n";
    assert_eq!(found(&[("workflows/a.yaml", text)]), Vec::<String>::new());
    let needing = text.replace("not has('X')", "x.t == 'b'");
    assert_eq!(found(&[("workflows/a.yaml", &needing)]), ["dead-action at \"answer\"", "unreachable-goal at \"done\""]);
}
