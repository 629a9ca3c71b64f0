//! Tidiness as tests: layers, leftovers, lengths, places of this machine, pages, orphans.

use std::collections::BTreeSet;

use agent_run::diag::codes::CODES;

use crate::support::{files, relative, root, text};

/// The layers, lowest first. A module may import what stands above it in this list, unless [`WALLS`] says otherwise.
const LAYERS: &[&str] = &[
    "source",
    "diag",
    "world",
    "planning",
    "value",
    "decl",
    "prompt",
    "llm",
    "action",
    "tool",
    "reference",
    "program",
    "compile",
    "process",
    "store",
    "engine",
    "testing",
    "cli",
];

/// What a module may not import although it stands lower: module, forbidden path, why.
const WALLS: &[(&str, &str, &str)] = &[
    ("planning", "source", "the planner is pure"),
    ("planning", "diag", "the planner is pure"),
    ("planning", "world", "the planner is pure"),
    ("value", "world", "values know no files"),
    ("value", "planning", "values know no plans"),
    ("decl", "planning", "declarations know no plans"),
    ("prompt", "planning", "prompts know no plans"),
    ("llm", "planning", "models know no plans"),
    ("llm", "prompt", "a request is plain text when it comes to a model"),
    ("process", "compile", "a process runs a program, whoever made it"),
    ("process", "decl::read", "a process reads no files"),
    ("process", "source::yaml", "a process reads no files"),
    ("process", "source::toml", "a process reads no files"),
];

/// Longest file of the sources and tests, in lines.
const LINES_MAX: usize = 900;

/// Our own imports in a source file, as paths (`source::Span`), with the lines they stand on. Unit tests are not looked at.
fn imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        if line.trim() == "mod tests {" {
            break;
        }
        for (at, _) in line.match_indices("crate::") {
            if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            let rest = &line[at + "crate::".len()..];
            match rest.strip_prefix('{') {
                Some(list) => found.extend(
                    list.trim_end_matches(['}', ';', ' ']).split(',').map(|path| (index + 1, path.trim().to_owned())),
                ),
                None => {
                    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
                    found.push((index + 1, rest[..end].to_owned()));
                }
            }
        }
    }
    found
}

#[test]
fn modules_import_only_lower_layers() {
    let mut wrong = Vec::new();
    for file in files(&root().join("src"), &[".rs"]) {
        let path = relative(&file);
        let module = path.trim_start_matches("src/").split(['/', '.']).next().unwrap_or_default().to_owned();
        let Some(layer) = LAYERS.iter().position(|layer| *layer == module) else {
            assert!(matches!(module.as_str(), "lib" | "main"), "{path}: `{module}` is in no layer of tests/tidy.rs");
            continue;
        };
        for (line, import) in imports(&text(&file)) {
            let head = import.split("::").next().unwrap_or_default();
            // Macros are exported at the root; what is no layer is one of those.
            let Some(other) = LAYERS.iter().position(|layer| *layer == head) else { continue };
            if other > layer {
                wrong.push(format!("{path}:{line}: `{module}` imports `{import}`, a higher layer"));
            }
            for (_, wall, why) in WALLS.iter().filter(|(from, ..)| *from == module) {
                if import == *wall || import.starts_with(&format!("{wall}::")) {
                    wrong.push(format!("{path}:{line}: `{module}` may not import `{wall}`: {why}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_import_scanner_sees_what_it_should() {
    let text =
        "use crate::source::{Span, Text};\nuse crate::{diag, value};\n// use crate::cli;\nmod tests {\nuse crate::cli;";
    let paths: Vec<String> = imports(text).into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, ["source::", "diag", "value"]);
}

#[test]
fn lib_declares_every_layer() {
    let lib = text(&root().join("src/lib.rs"));
    for layer in LAYERS {
        assert!(lib.contains(&format!("pub mod {layer};")), "src/lib.rs has no `pub mod {layer};`");
    }
}

#[test]
fn nothing_is_left_behind() {
    // Written in two parts, so that this file does not contain them.
    let words = [["to", "do!("], ["db", "g!("], ["FIX", "ME"], ["TO", "DO"], ["XX", "X"], ["unimplemen", "ted!("]];
    let places = [["/wo", "rk/"], ["/ro", "ot/"], ["/ho", "me/"]];
    let (words, places) = (words.map(|parts| parts.concat()), places.map(|parts| parts.concat()));
    // `/properties/home/…` is a pointer, not a directory.
    let from_the_root = |line: &str, at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.');
    let found = |line: &str, word: &String| line.match_indices(word.as_str()).any(|(at, _)| from_the_root(line, at));
    let mut wrong = Vec::new();
    for file in files(root(), &[".rs", ".md", ".yaml", ".toml", ".jinja", ".json", ".snap", ".svg"]) {
        let path = relative(&file);
        for (index, line) in text(&file).lines().enumerate() {
            let place = format!("{path}:{}", index + 1);
            // Prompts in snapshots may end lines with a space, as the model would see them.
            if line.ends_with([' ', '\t']) && !path.ends_with(".snap") {
                wrong.push(format!("{place}: trailing space"));
            }
            wrong.extend(words.iter().filter(|word| line.contains(*word)).map(|word| format!("{place}: `{word}`")));
            wrong.extend(places.iter().filter(|word| found(line, word)).map(|word| format!("{place}: `{word}`")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_short_enough_to_read() {
    for dir in ["src", "tests"] {
        for file in files(&root().join(dir), &[".rs"]) {
            let lines = text(&file).lines().count();
            assert!(lines <= LINES_MAX, "{}: {lines} lines; split it where the second idea begins", relative(&file));
        }
    }
}

#[test]
fn every_diagnostic_has_its_page_and_every_page_its_diagnostic() {
    let pages: BTreeSet<String> = files(&root().join("src/diag/codes"), &[".md"])
        .iter()
        .filter_map(|page| page.file_stem().map(|name| name.to_string_lossy().into_owned()))
        .collect();
    let codes: BTreeSet<String> = CODES.iter().map(|code| code.name.to_owned()).collect();
    assert_eq!(pages, codes);
    let names: Vec<&str> = CODES.iter().map(|code| code.name).collect();
    assert!(names.is_sorted(), "the table of diag/codes.rs is alphabetical");
    for code in CODES {
        let heading = format!("# {}", code.name);
        assert!(code.page.starts_with(&heading), "the page of `{}` starts with `{heading}`", code.name);
        assert!(code.page.lines().count() >= 5, "the page of `{}` says what, why, and how to cure it", code.name);
    }
}

#[test]
fn no_prompt_or_script_is_an_orphan() {
    let project = text(&root().join("agent-run.yaml"));
    for script in files(&root().join("prompts/scripts"), &[".yaml"]) {
        assert!(project.contains(&relative(&script)), "agent-run.yaml does not name {}", relative(&script));
    }
    let mut users = files(&root().join("workflows"), &[".yaml", ".toml"]);
    users.extend(files(&root().join("prompts"), &[".jinja"]));
    let users: Vec<(String, String)> = users.iter().map(|file| (relative(file), text(file))).collect();
    for template in files(&root().join("prompts"), &[".jinja"]) {
        let path = relative(&template);
        let name = path.trim_start_matches("prompts/");
        let stem = name.trim_end_matches(".jinja");
        let used = users.iter().any(|(user, text)| *user != path && (text.contains(name) || text.contains(stem)));
        assert!(used, "no workflow and no template uses {path}");
    }
}
