//! The published schemas and the compiler agree: on what is shipped, and on every file under `samples/`.
//!
//! A schema knows shapes and words, not names: a file that it accepts may still be refused for a name. So a sample under
//! `valid/` is accepted by both, and one under `invalid/` is refused by both.

use std::path::{Path, PathBuf};

use agent_run::compile::{Entry, compile};
use agent_run::diag::render;
use agent_run::world::MemoryWorld;
use serde_json::Value;

use crate::support::{files, relative, root, text};

fn value(path: &Path) -> Value {
    let text = text(path);
    match path.extension().is_some_and(|end| end == "toml") {
        true => toml::from_str(&text).expect("TOML"),
        false => serde_yaml::from_str(&text).expect("YAML"),
    }
}

fn schema(name: &str) -> jsonschema::Validator {
    let schema = value(&root().join("schemas").join(name));
    jsonschema::options().offline().build(&schema).unwrap_or_else(|error| panic!("schemas/{name}: {error}"))
}

/// What the schema says against a file.
fn complaints(schema: &jsonschema::Validator, path: &Path) -> Vec<String> {
    schema.iter_errors(&value(path)).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The errors of the compiler for a file that stands alone.
fn errors(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (file, content) = (format!("workflows/{name}"), text(path));
    let world = MemoryWorld::with_files([(file.as_str(), content.as_str())]);
    let mut compiled = compile(&world, Entry::Project);
    compiled.diagnostics = compiled
        .diagnostics
        .into_iter()
        .filter(|finding| finding.severity == agent_run::diag::Severity::Error)
        .collect();
    render::short(&compiled.diagnostics.sorted(&compiled.sources), &compiled.sources)
}

fn samples(kind: &str) -> Vec<PathBuf> {
    let found = files(&root().join("tests/samples").join(kind), &[".yaml", ".toml"]);
    assert!(!found.is_empty(), "there are samples in {kind}/");
    found
}

#[test]
fn valid_samples_are_accepted_by_both() {
    let schema = schema("workflow.json");
    let mut wrong = String::new();
    for path in samples("valid") {
        let (errors, complaints) = (errors(&path), complaints(&schema, &path));
        if !errors.is_empty() || !complaints.is_empty() {
            wrong += &format!("{}:\n{errors}{}\n", relative(&path), complaints.join("\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn invalid_samples_are_refused_by_both() {
    let schema = schema("workflow.json");
    for path in samples("invalid") {
        assert!(!errors(&path).is_empty(), "the compiler accepts {}", relative(&path));
        assert!(!complaints(&schema, &path).is_empty(), "the schema accepts {}", relative(&path));
    }
}

#[test]
fn what_is_shipped_fits_its_schema() {
    let (workflow, project, script) = (schema("workflow.json"), schema("project.json"), schema("script.json"));
    let mut all: Vec<(&jsonschema::Validator, PathBuf)> = vec![(&project, root().join("agent-run.yaml"))];
    all.extend(files(&root().join("workflows"), &[".yaml", ".toml"]).into_iter().map(|path| (&workflow, path)));
    all.extend(files(&root().join("prompts/scripts"), &[".yaml"]).into_iter().map(|path| (&script, path)));
    for (schema, path) in all {
        let complaints = complaints(schema, &path);
        assert!(complaints.is_empty(), "{}: {}", relative(&path), complaints.join("\n"));
    }
}
