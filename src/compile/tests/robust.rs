//! Compiling never panics, whatever a file holds, and a project of many files is checked as one of few is.

use std::path::PathBuf;

use proptest::prelude::*;

use crate::compile::{Entry, compile};
use crate::world::MemoryWorld;

use super::STAR_NEWS;

/// A workflow that uses most of the language.
const RICH: &str = include_str!("rich.yaml");

/// Text that is put into a file in the place of a part of it.
const SPLINTERS: &[&str] = &[
    "",
    ":",
    "-",
    "[",
    "{",
    "}",
    "{{",
    "}}",
    "{% if %}",
    "'",
    "\"",
    "|",
    ">",
    "&a",
    "*a",
    "!x",
    "null",
    "true",
    "-1",
    "1e999",
    "list<",
    "list<A>",
    "A?",
    "[A, B]",
    "{type: A, name: x}",
    "${env:X}",
    "not",
    "x.y",
    "\t",
    "\u{feff}",
    "é",
    "\u{0}",
    "UserInput",
    "StarPerson",
    "is: A",
    "builtin:",
    "prompt:",
    "unfold: {tools: [a]}",
    "scatter_gather: {do: {prompt: x}}",
    "repeat_until: {}",
    "1.10",
    "9223372036854775808",
];

fn survives(text: &str) {
    let world =
        MemoryWorld::with_files([("workflows/a.yaml", text), ("prompts/x.jinja", text), ("agent-run.yaml", text)]);
    for entry in [Entry::Project, Entry::File(PathBuf::from("workflows/a.yaml"))] {
        let compiled = compile(&world, entry);
        for diagnostic in &compiled.diagnostics {
            if let Some(span) = diagnostic.span {
                let source = compiled.sources.get(span.file);
                assert!(source.text().get(span.range()).is_some(), "{} has no place: {diagnostic:?}", source.path());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn mutated_workflows_never_panic(
        rich in any::<bool>(),
        cuts in proptest::collection::vec((0.0..1.0f64, 0usize..12, 0..SPLINTERS.len()), 1..6),
    ) {
        let mut text = if rich { RICH.to_owned() } else { STAR_NEWS.to_owned() };
        for (at, len, splinter) in cuts {
            let mut start = ((text.len() as f64) * at) as usize;
            while !text.is_char_boundary(start) { start -= 1; }
            let mut end = (start + len).min(text.len());
            while !text.is_char_boundary(end) { end += 1; }
            text.replace_range(start..end, SPLINTERS[splinter]);
        }
        survives(&text);
    }

    #[test]
    fn lines_in_any_order_never_panic(seed in proptest::collection::vec(0usize..1000, 1..40)) {
        let mut lines: Vec<&str> = RICH.lines().collect();
        for at in seed {
            let at = at % lines.len().max(1);
            if at.is_multiple_of(3) && lines.len() > 1 { lines.remove(at); } else { let line = lines[at]; lines.push(line); }
        }
        survives(&lines.join("\n"));
    }
}

#[test]
fn the_rich_workflow_has_no_mistakes() {
    let world = MemoryWorld::with_files([("workflows/a.yaml", RICH)]);
    let compiled = compile(&world, Entry::Project);
    assert_eq!(super::lines(&compiled), Vec::<String>::new());
}

#[test]
fn many_files_are_checked() {
    let mut world = MemoryWorld::new();
    world.write("shared/types.yaml", "types:\n  Topic: {name: string}\n  Report: {text: string}\n");
    for at in 0..200 {
        let text = STAR_NEWS
            .replace("star-news-finder", &format!("agent-{at}"))
            .replace("description: Finds", "import: ../shared/types.yaml\ndescription: Finds");
        world.write(format!("workflows/w{at}.yaml"), text);
    }
    let compiled = compile(&world, Entry::Project);
    assert!(compiled.diagnostics.is_empty());
    assert_eq!(compiled.checked.agents, 200);
}
