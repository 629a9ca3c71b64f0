//! `explain`, and its pages: each example gives its diagnostic, each cure does not.

use agent_run::diag::codes::{CODES, Code, Fence};

use super::project;
use crate::support::project::Project;

/// Codes whose example is no text file, tested where they arise.
const NO_FILE: &[&str] = &["unreadable-file", "not-utf8", "too-large", "too-many-nodes", "too-deep"];

#[test]
fn a_page_says_what_why_and_the_cure() {
    let output = project().run(&["explain", "duplicate-key"]).exits(0);
    for part in ["duplicate-key", "Example", "Cure"] {
        assert!(output.stdout.contains(part), "{output}");
    }
    let output = project().run(&["explain", "duplicate-kee"]).exits(2);
    assert!(output.stderr.contains("`duplicate-key`"), "{output}");
}

/// The codes that `check` finds in a page's files.
fn found(layers: &[Vec<Fence>]) -> Vec<String> {
    let project = Project::new();
    for (index, file) in layers.iter().flat_map(|files| files.iter().enumerate()) {
        let end = if file.language == "toml" { "toml" } else { "yaml" };
        let path = file.path().map_or(format!("workflows/example-{index}.{end}"), str::to_owned);
        // In Markdown the line with the path would stand before what a file must begin with.
        let rest = file.text.split_once('\n').filter(|_| file.language == "markdown").map(|(_, rest)| rest);
        project.write(&path, rest.unwrap_or(file.text));
    }
    let document = project.run(&["check", "--json"]).json();
    let codes = document["diagnostics"].as_array().into_iter().flatten();
    codes.filter_map(|finding| finding["code"].as_str().map(str::to_owned)).collect()
}

#[test]
fn every_example_gives_its_diagnostic_and_every_cure_does_not() {
    let mut wrong = Vec::new();
    let has_files = |code: &&Code| code.example().iter().all(|fence| fence.language != "text");
    for code in CODES.iter().filter(has_files).filter(|code| !NO_FILE.contains(&code.name)) {
        // A cure shows the files that change: it is written over the example.
        let (example, cure) = (found(&[code.example()]), found(&[code.example(), code.cure()]));
        if !example.iter().any(|found| found == code.name) {
            wrong.push(format!("{}: the example gives {example:?}", code.name));
        }
        if cure.iter().any(|found| found == code.name) {
            wrong.push(format!("{}: the cure gives {cure:?}", code.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
