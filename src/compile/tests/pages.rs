//! Every page of a diagnostic: its example gives it, its cure does not.

use std::path::PathBuf;

use crate::compile::{Compiled, Entry, compile};
use crate::diag::Severity;
use crate::diag::codes::{CODES, Fence};
use crate::world::MemoryWorld;

use super::lines;

/// Codes whose example cannot be a small text: files too large, unreadable or of another encoding, and what other
/// layers report.
const NOT_SMALL: &[&str] = &[
    "alias-bomb",
    "too-large",
    "too-many-nodes",
    "too-deep",
    "not-utf8",
    "unreadable-file",
    "nested-too-deep",
    "command-line",
    "unknown-fixture",
];

/// The files of an example; a fence without a path is a workflow.
fn files(fences: &[Fence]) -> Vec<(String, String)> {
    let name =
        |fence: &Fence| fence.path().map_or_else(|| format!("workflows/example.{}", fence.language), str::to_owned);
    // The line that names a Markdown file would be part of it: front matter begins a file.
    let text = |fence: &Fence| match (fence.language, fence.text.split_once('\n')) {
        ("markdown", Some((_, rest))) => rest.to_owned(),
        _ => fence.text.to_owned(),
    };
    fences.iter().map(|fence| (name(fence), text(fence))).collect()
}

fn compiled(files: &[(String, String)]) -> Compiled {
    let world = MemoryWorld::with_files(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    compile(&world, Entry::Project)
}

fn codes(compiled: &Compiled) -> Vec<&'static str> {
    compiled.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

#[test]
fn every_example_gives_its_code_and_every_cure_is_free_of_it() {
    let mut wrong = Vec::new();
    for code in CODES.iter().filter(|code| !NOT_SMALL.contains(&code.name)) {
        let example = files(&code.example());
        let found = compiled(&example);
        let errors = found.diagnostics.iter().filter(|finding| finding.severity == Severity::Error);
        if !codes(&found).contains(&code.name) || errors.into_iter().any(|finding| finding.code != code.name) {
            wrong.push(format!("the example of `{}` gives {:#?}", code.name, lines(&found)));
        }
        // A cure shows the files that change.
        let mut cured = example.clone();
        for (path, text) in files(&code.cure()) {
            cured.retain(|(known, _)| *known != path);
            cured.push((path, text));
        }
        let found = compiled(&cured);
        if !found.diagnostics.is_empty() {
            wrong.push(format!("the cure of `{}` gives {:#?}", code.name, lines(&found)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CODES.len(), wrong.join("\n"));
}

#[test]
fn pages_name_files_below_the_project() {
    for code in CODES {
        for fence in code.example().iter().chain(&code.cure()) {
            let path = PathBuf::from(fence.path().unwrap_or("workflows/example.yaml"));
            assert!(crate::world::normal(&path).is_some(), "{}", code.name);
        }
    }
}
