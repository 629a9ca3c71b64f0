//! The pages for users: their workflows compile, their links lead somewhere, their commands name what exists.

use std::path::PathBuf;

use agent_run::compile::{Entry, compile};
use agent_run::diag::render;
use agent_run::source::{FileId, Source, read};
use agent_run::world::MemoryWorld;

use crate::support::project::Project;
use crate::support::{files, relative, root, text};

fn pages() -> Vec<PathBuf> {
    let mut pages = files(&root().join("docs"), &[".md"]);
    pages.extend(["README.md", "tests/README.md", "src/ARCHITECTURE.md"].map(|page| root().join(page)));
    pages
}

/// The fenced blocks of a page: line, words after the fence, text.
fn blocks(page: &str) -> Vec<(usize, String, String)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (index, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((index + 2, info.to_owned(), String::new())),
            (Some(_), Some("")) => found.extend(open.take()),
            (Some((_, _, text)), _) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    found
}

/// A block with `agent:` is a whole workflow and compiles without a finding; every other one is at least sound YAML or TOML.
#[test]
fn workflows_on_pages_compile() {
    let mut wrong = String::new();
    for page in pages() {
        for (line, info, text) in blocks(&text(&page)) {
            let place = format!("{}:{line}", relative(&page));
            if !matches!(info.as_str(), "yaml" | "toml") {
                continue;
            }
            let (_, errors) = read(FileId(0), &Source::new(format!("page.{info}"), text.clone()));
            assert!(errors.is_empty(), "{place}: {errors:?}");
            if text.lines().any(|line| line.starts_with("agent:") || line.starts_with("agent =")) {
                let path = format!("workflows/page.{info}");
                let world = MemoryWorld::with_files([
                    ("agent-run.yaml", "models: {default: openai/gpt-4.1-mini, roles: {best: openai/gpt-4.1}}\n"),
                    (path.as_str(), text.as_str()),
                ]);
                let compiled = compile(&world, Entry::Project);
                let found = compiled.diagnostics.sorted(&compiled.sources);
                if !found.is_empty() {
                    wrong += &format!("{place}:\n{}\n", render::short(&found, &compiled.sources));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let dir = page.parent().expect("a page has a directory").to_owned();
        for link in text(&page).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") {
                assert!(dir.join(target).exists(), "{}: no {target}", relative(&page));
            }
        }
    }
}

/// The run that the README shows is the run that its first command gives: the same lines, times apart.
#[test]
fn the_run_that_the_readme_shows_is_real() {
    let readme = text(&root().join("README.md"));
    let (_, _, shown) =
        blocks(&readme).into_iter().find(|(_, info, _)| info == "text").expect("the README shows a run");
    let project = Project::of_the_repository();
    let output = project.run(&["run", "workflows/star-news.yaml", "Lynda is a Scorpio, find news for her"]).exits(0);
    for step in ["extract_star_person", "retrieve_horoscope", "find_news", "writeup"] {
        assert!(shown.contains(step) && output.stderr.contains(step), "no {step}: {output}");
    }
    for line in shown.lines().rev().take(3).filter(|line| line.len() > 20) {
        assert!(output.stdout.contains(line.trim()), "the result has no line {line:?}: {output}");
    }
}

#[test]
fn ci_runs_the_test_command_of_the_readme() {
    let ci = text(&root().join(".ci/run"));
    let last = ci.lines().rfind(|line| !line.is_empty()).expect("commands");
    assert!(
        text(&root().join("README.md")).contains(&format!("```sh\n{last}\n```")),
        "the README does not say `{last}`"
    );
}
