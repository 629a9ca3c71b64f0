//! Action bodies; one file per kind.
//!
//! A kind reads what the author wrote ([`ActionKind::read`]), which lowers itself against the declarations around it
//! ([`Written::lower`]) to a [`Body`] that a process performs. To add a kind: one file, one line in [`KINDS`], one word
//! in [`crate::decl::ACTION_BODIES`].

pub mod context;
pub mod lower;

mod agent;
mod ask;
mod call;
mod choose;
pub mod exec;
pub(crate) mod fetch;
mod http;
mod nested;
mod prompt;
mod repeat_until;
pub mod sandbox;
mod scatter_gather;
mod set;
mod shared;

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::decl::body::BodyNode;
use crate::decl::{Defs, ReadCx};
use crate::source::Node;

pub use context::{Context, Failure, FailureKind};
pub(crate) use fetch::shown as shown_url;
pub use lower::{LowerCx, Needs};
pub use shared::lasting;
pub(crate) use shared::{redacted, redacted_failure};

/// One kind of body an action may have, such as `http`.
pub trait ActionKind: Sync {
    /// The key under which it is written.
    fn name(&self) -> &'static str;
    /// One sentence; shown in help, schema and reference.
    fn summary(&self) -> &'static str;
    /// The body's line or lines of an action in YAML, which compile without findings beside `inputs: UserInput` and
    /// `output: Story` (a text), given a tool `tell_story {topic: string}` and an agent `storyteller` with
    /// `inputs: UserInput`.
    fn example(&self) -> &'static str;
    /// The JSON Schema of what is written under the key.
    fn schema(&self, defs: &mut Defs) -> Value;
    /// Reads the declaration. Reports into `cx`; never fails as a whole.
    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>>;
}

/// A body as written: typed and located, its names not resolved.
pub trait Written: Debug + Send + Sync {
    /// Checks it against the declarations around it and resolves its strings and names. Reports into `cx`.
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>>;
}

/// A body that can be performed. It is immutable and shared by all processes of a program.
#[async_trait::async_trait]
pub trait Body: Debug + Send + Sync {
    /// The kind's name.
    fn kind(&self) -> &'static str;

    /// What performing it touches beside models: permissions and endpoints, for `plan -v` (runtime.md 8).
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Whether all that it does is to ask a person for a yes or no.
    fn only_confirms(&self) -> bool {
        false
    }

    /// Performs it once. The value is what the action outputs, not yet validated against the output type; null is
    /// "nothing came".
    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure>;

    /// The call to a model that performing it would make first, for `render`; `None` for a body that asks no model.
    fn prompt(&self, _cx: &dyn Context) -> Result<Option<context::PromptCall>, Failure> {
        Ok(None)
    }
}

/// Every kind of body, in alphabetical order: the one line to add for a new one.
pub const KINDS: &[&dyn ActionKind] = &[
    &agent::Agent,
    &ask::Ask,
    &call::Call,
    &choose::Choose,
    &exec::Exec,
    &http::Http,
    &prompt::Prompt,
    &repeat_until::RepeatUntil,
    &scatter_gather::ScatterGather,
    &set::Set,
];

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static dyn ActionKind> {
    KINDS.iter().find(|kind| kind.name() == name).copied()
}

/// Reads a body with its kind's reader. `None` after a finding, or when the key is no kind of action body.
pub fn read_body(body: &BodyNode, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
    kind(&body.kind.value)?.read(&body.node, cx)
}

/// Puts the schema of every kind into `defs`, under the names that a written action's schema refers to
/// (`action.prompt`, …).
pub fn add_schemas(defs: &mut Defs) {
    for kind in KINDS {
        add_schema(&format!("action.{}", kind.name()), *kind, defs);
    }
}

/// Puts the schema of one kind into `defs` under `name`, with the kind's summary as its description.
pub(crate) fn add_schema(name: &str, kind: &dyn ActionKind, defs: &mut Defs) {
    defs.reference(name, |defs| {
        let own = kind.schema(defs);
        json!({"description": kind.summary(), "allOf": [own]})
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::decl::ACTION_BODIES;
    use crate::decl::body::read_body as find_body;
    use crate::decl::read::refuse_unknown_keys;
    use crate::source::{FileId, Source, Span, Spanned};

    /// The tree of a YAML text.
    pub(crate) fn tree(text: &str) -> Node {
        let (node, errors) = crate::source::read(FileId(0), &Source::new("test.yaml", text));
        assert!(errors.is_empty(), "{errors:?}");
        node.expect("a tree")
    }

    #[test]
    fn the_table_is_sorted_and_has_every_kind_that_may_be_written() {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        assert!(names.is_sorted(), "{names:?}");
        let written: BTreeSet<&str> = ACTION_BODIES.iter().copied().collect();
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), written);
    }

    #[test]
    fn every_example_has_its_own_body_and_is_read_without_findings() {
        for kind in KINDS {
            let node = tree(kind.example());
            let mut cx = ReadCx::default();
            let map = node.as_map().unwrap_or_else(|| panic!("the example of `{}` is no mapping", kind.name()));
            refuse_unknown_keys(map, &crate::decl::workflow::Action::keys(), "an action", &mut cx);
            let owner = Spanned { value: "the example".to_owned(), span: Span::default() };
            let body = find_body(map, ACTION_BODIES, &owner, &mut cx).expect("a body");
            assert_eq!(body.kind.value, kind.name());
            let read = read_body(&body, &mut cx);
            assert!(read.is_some() && cx.diagnostics.is_empty(), "{}: {:?}", kind.name(), cx.diagnostics);
        }
    }

    #[test]
    fn every_kind_says_what_it_does_and_has_a_schema_that_takes_its_example() {
        for kind in KINDS {
            let summary = kind.summary();
            assert!(summary.len() > 10 && !summary.ends_with('.'), "{}: {summary}", kind.name());
            let mut defs = Defs::default();
            add_schemas(&mut defs);
            let mut schema = serde_json::Map::from_iter([(
                "$ref".to_owned(),
                json!(format!("#/definitions/action.{}", kind.name())),
            )]);
            schema.insert("definitions".to_owned(), Value::Object(defs.named));
            schema.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
            let validator = jsonschema::validator_for(&Value::Object(schema)).expect("a schema");
            let example = tree(kind.example()).to_json()[kind.name()].clone();
            let errors: Vec<String> = validator.iter_errors(&example).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{}: {errors:?}", kind.name());
        }
    }

    #[test]
    fn unknown_keys_of_a_body_are_refused_with_the_nearest() {
        for (kind, text, near) in [
            ("prompt", "{usr: hi}", "user"),
            ("http", "{url: x, methd: GET}", "method"),
            ("exec", "{comand: [ls]}", "command"),
            ("call", "{tool: x, wth: {}}", "with"),
        ] {
            let mut cx = ReadCx::default();
            let body = BodyNode { kind: Spanned::new(kind.to_owned(), Span::default()), node: tree(text) };
            read_body(&body, &mut cx);
            let found = cx.diagnostics.iter().find(|d| d.code == "unknown-key").expect("a finding");
            assert!(format!("{:?}", found).contains(near), "{found:?}");
        }
    }
}
