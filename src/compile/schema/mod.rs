//! JSON Schemas (draft-07) for editors, made from the declarations and the tables of kinds (`agent-run schema`).
//!
//! `schemas/*.json` hold the same documents; `UPDATE=1 cargo test schemas` writes them.

use serde_json::{Map, Value, json};

use crate::action;
use crate::decl::module::{PLATFORM_SECTIONS, PROJECT_SECTIONS, SHARED_SECTIONS, WORKFLOW_SECTIONS};
use crate::decl::test_file::TestFile;
use crate::decl::tools::{Parameters, PlaybookEntry, StateMachine, ToolUse};
use crate::decl::workflow::Settings;
use crate::decl::{Defs, List, Module, Read, TOOL_BODIES};
use crate::tool;

/// Kinds of file that have a schema, with what they are.
pub const KINDS: &[(&str, &str)] = &[
    ("workflow", "An agent-run workflow or shared module"),
    ("project", "The project file `agent-run.yaml`"),
    ("references", "A set of references under `references/`"),
    ("test", "A test file under `tests/`"),
    ("script", "A script that a model answers from"),
];

/// The schema of a kind of file: `workflow`, `project`, `references`, `test` or `script`; `true` for any other word.
pub fn published(kind: &str) -> Value {
    match kind {
        "workflow" => of_module(kind, &[SHARED_SECTIONS, WORKFLOW_SECTIONS, PLATFORM_SECTIONS].concat(), &[]),
        "project" => of_module(kind, &[SHARED_SECTIONS, PROJECT_SECTIONS].concat(), &[]),
        "references" => of_module(kind, SHARED_SECTIONS, &["references"]),
        "test" => of_test(),
        "script" => written(include_str!("script.json")),
        _ => Value::Bool(true),
    }
}

/// Which schema belongs to which files, in the form of the public catalogs of schemas.
pub fn index() -> Value {
    let files = |kind: &str| match kind {
        "workflow" => json!(["workflows/**/*.yaml", "workflows/**/*.yml", "workflows/**/*.toml"]),
        "project" => json!(super::PROJECT_FILES),
        "references" => json!(["references/**/*.yaml"]),
        "test" => json!(["tests/**/*.yaml"]),
        _ => json!(["**/*script.yaml"]),
    };
    let schemas: Vec<Value> = KINDS
        .iter()
        .map(|(kind, what)| json!({"name": kind, "description": what, "fileMatch": files(kind), "url": format!("{kind}.json")}))
        .collect();
    json!({"schemas": schemas})
}

fn written(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Bool(true))
}

/// The schema of test files.
fn of_test() -> Value {
    let mut defs = Defs::default();
    let reference = TestFile::schema(&mut defs);
    let properties = crate::decl::read::properties_of(&reference, &defs);
    let definitions = reachable(&properties, &defs.named);
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "agent-run test file",
        "description": "Cases that run a workflow on a scripted model",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "definitions": definitions,
    })
}

/// The schema of a module with these sections.
fn of_module(kind: &str, sections: &[&str], required: &[&str]) -> Value {
    let mut defs = Defs::default();
    let reference = Module::schema(&mut defs);
    let mut properties = crate::decl::read::properties_of(&reference, &defs);
    properties.retain(|section, _| sections.contains(&section.as_str()));
    action::add_schemas(&mut defs);
    add_tool_bodies(&mut defs);
    let definitions = reachable(&properties, &defs.named);
    let what = KINDS.iter().find(|(name, _)| *name == kind).map_or("", |(_, what)| *what);
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": format!("agent-run {kind}"),
        "description": what,
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "definitions": definitions,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// Adds the definitions `tool.<kind>`: the action bodies that tools have, and those of tools alone.
fn add_tool_bodies(defs: &mut Defs) {
    for kind in TOOL_BODIES {
        let name = format!("tool.{kind}");
        match action::kind(kind).filter(|_| tool::BODIES.contains(kind)) {
            Some(kind) => action::add_schema(&name, kind, defs),
            None => {
                let schema = tool_body(kind, defs);
                defs.named.insert(name, schema);
            }
        }
    }
}

fn tool_body(kind: &str, defs: &mut Defs) -> Value {
    let tools = List::<ToolUse>::schema(defs);
    let settings = Settings::schema(defs);
    let llm = crate::decl::read::properties_of(&settings, defs).get("llm").cloned().unwrap_or(json!({}));
    let playbook = List::<PlaybookEntry>::schema(defs);
    let machine = StateMachine::schema(defs);
    match kind {
        "mcp" => json!({
            "description": "A tool of an MCP server",
            "type": "object",
            "properties": {
                "server": {"description": "The server, of `mcp_servers`", "type": "string"},
                "tool": {"description": "The tool's name there", "type": "string"},
            },
            "required": ["server", "tool"],
            "additionalProperties": false,
        }),
        "unfold" => json!({
            "description": "A facade that reveals other tools when it is called",
            "type": "object",
            "properties": {
                "tools": tools,
                "by": {"description": "The parameter that names a category", "type": "string"},
                "categories": {"description": "Tools by category", "type": "object", "additionalProperties": tools},
                "shared": tools,
                "parameters": Parameters::schema(defs),
                "select": {"description": "An expr that gives the names of the tools revealed", "type": "string"},
                "usage_notes": {"description": "Added to the answer of the call, verbatim", "type": "string"},
                "remove_on_invoke": {"description": "The facade is replaced by its contents", "type": "boolean", "default": true},
                "exclusive": {"description": "Every other tool goes away", "type": "boolean", "default": false},
                "context_tool": {"description": "A guide that repeats the notes stays", "type": "boolean"},
            },
            "additionalProperties": false,
        }),
        _ => json!({
            "description": "An inner loop with a model, seen outside as one tool",
            "type": "object",
            "properties": {
                "tools": tools,
                "llm": llm,
                "system": {"description": "What the inner model is told", "type": "string"},
                "max_turns": {"description": "How many turns it may take", "type": "integer", "minimum": 1},
                "playbook": playbook,
                "state_machine": machine,
            },
            "additionalProperties": false,
        }),
    }
}

/// The definitions that properties refer to, directly or through others, in their order.
fn reachable(properties: &Map<String, Value>, named: &Map<String, Value>) -> Map<String, Value> {
    let mut wanted: Vec<String> = Vec::new();
    properties.values().for_each(|schema| references(schema, &mut wanted));
    let mut next = 0;
    while let Some(name) = wanted.get(next).cloned() {
        next += 1;
        if let Some(schema) = named.get(&name) {
            references(schema, &mut wanted);
        }
    }
    named
        .iter()
        .filter(|(name, _)| wanted.contains(name))
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect()
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            let name = map.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/definitions/"));
            if let Some(name) = name.filter(|name| !found.iter().any(|known| known == name)) {
                found.push(name.to_owned());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Sources, read};

    fn folder() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas")
    }

    fn documents() -> Vec<(String, Value)> {
        let schemas = KINDS.iter().map(|(kind, _)| (format!("{kind}.json"), published(kind)));
        schemas.chain([("index.json".to_owned(), index())]).collect()
    }

    #[test]
    fn schemas_in_the_repository_are_up_to_date() {
        for (name, document) in documents() {
            let text = format!("{}\n", serde_json::to_string_pretty(&document).expect("JSON"));
            let path = folder().join(&name);
            if std::env::var_os("UPDATE").is_some() {
                std::fs::create_dir_all(folder()).expect("a folder");
                std::fs::write(&path, &text).expect("written");
            }
            let stored = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(stored == text, "schemas/{name} is stale; run `UPDATE=1 cargo test schemas`");
        }
    }

    #[test]
    fn schemas_have_all_they_refer_to() {
        for (kind, _) in KINDS {
            let schema = published(kind);
            let mut names = Vec::new();
            references(&schema, &mut names);
            for name in names {
                assert!(schema["definitions"].get(&name).is_some_and(|found| !found.is_null()), "{kind}: {name}");
            }
            assert!(jsonschema::validator_for(&schema).is_ok(), "{kind}");
        }
    }

    fn errors(kind: &str, text: &str) -> Vec<String> {
        let mut sources = Sources::new();
        let id = sources.add("x.yaml", text);
        let value = read(id, sources.get(id)).0.expect("a tree").to_json();
        let validator = jsonschema::validator_for(&published(kind)).expect("a schema");
        validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    #[test]
    fn schemas_take_what_compiles_and_refuse_typing_errors() {
        let good = crate::compile::tests::STAR_NEWS;
        assert_eq!(errors("workflow", good), Vec::<String>::new());
        assert!(!errors("workflow", &good.replace("achieves:", "acheives:")).is_empty());
        assert!(!errors("workflow", "providers: {}").is_empty());
        assert!(!errors("project", "agent: a").is_empty());
        assert_eq!(errors("project", "providers: {demo: {kind: scripted, file: x.yaml}}"), Vec::<String>::new());
        assert_eq!(errors("script", "replies:\n  - when: {action: a}\n    reply: {x: 1}\n"), Vec::<String>::new());
        assert!(!errors("script", "replies:\n  - {reply: 1, raw: x}\n").is_empty());
        let test =
            "workflow: a.yaml\ncases:\n  one: {input: hi, replies: {a: 1}, expect: {status: completed, ran: [a]}}\n";
        assert_eq!(errors("test", test), Vec::<String>::new());
        assert!(!errors("test", &test.replace("status", "stauts")).is_empty());
    }

    #[test]
    fn schemas_and_readers_agree_on_every_example_of_a_kind() {
        for kind in crate::action::KINDS {
            let example = kind.example().trim_end().replace('\n', "\n    ");
            let text = format!("actions:\n  example:\n    {example}\n");
            assert_eq!(errors("workflow", &text), Vec::<String>::new(), "{}", kind.name());
        }
    }
}
