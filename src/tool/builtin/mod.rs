//! Tools that need no declaration (language.md 8): `builtin:files`, `builtin:math` and their like.
//!
//! Each group is a file with one function that makes its tools; to add a group: the file, and one line in [`BUILTINS`].
//! A built-in tool is a [`Tool`] like any other; its body is code instead of something that an author wrote, and reads
//! its arguments from [`Context::arguments`].

mod blackboard;
pub(crate) mod fetch;
pub(crate) mod files;
pub(crate) mod glob;
mod math;
mod process;
pub(crate) mod root;

use std::fmt;
use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde_json::{Map, Value};

use crate::action::context::{Context, Failure, FailureKind};
use crate::action::{Body, Needs};
use crate::value::{Field, ObjectDef, Shape, ShapeKind};

use super::Tool;

/// A group of built-in tools.
#[derive(Clone, Copy)]
pub struct Builtin {
    /// Its name in lists of tools, such as `builtin:files`.
    pub name: &'static str,
    /// What its tools are for, in one sentence.
    pub summary: &'static str,
    /// Makes its tools.
    make: fn() -> Vec<Tool>,
}

/// Every group, in the order of the reference.
pub const BUILTINS: &[Builtin] = &[
    Builtin { name: "builtin:files", summary: "Reads and writes files of the project", make: files::tools },
    Builtin { name: "builtin:fetch", summary: "Reads web pages as Markdown", make: fetch::tools },
    Builtin { name: "builtin:math", summary: "Calculates exactly", make: math::tools },
    Builtin { name: "builtin:blackboard", summary: "Looks at the objects of the process", make: blackboard::tools },
    Builtin {
        name: "builtin:process",
        summary: "Tells what the process did and what it may still use",
        make: process::tools,
    },
];

/// The tools of a group, in the order in which a model sees them; `None` when there is no group of this name.
pub fn group(name: &str) -> Option<Vec<Arc<Tool>>> {
    let group = BUILTINS.iter().find(|group| group.name == name)?;
    Some((group.make)().into_iter().map(Arc::new).collect())
}

/// Names of all groups, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|group| group.name)
}

/// What a built-in tool does with its arguments.
type Run = for<'a> fn(&'a dyn Context) -> BoxFuture<'a, Result<Value, Failure>>;

/// The body of a built-in tool.
struct Native {
    kind: &'static str,
    permissions: &'static [&'static str],
    run: Run,
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native").field("kind", &self.kind).field("permissions", &self.permissions).finish()
    }
}

#[async_trait::async_trait]
impl Body for Native {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn needs(&self) -> Needs {
        Needs { permissions: self.permissions.iter().map(|name| (*name).to_owned()).collect(), ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        (self.run)(cx).await
    }
}

/// A built-in tool.
fn tool(name: &str, description: &str, parameters: Vec<(&str, Field)>, body: Native) -> Tool {
    let fields = parameters.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
    Tool::new(name, description, ObjectDef { fields, ..ObjectDef::default() }, Some(Arc::new(body)))
}

/// The arguments of the call.
pub(crate) fn arguments(cx: &dyn Context) -> &Map<String, Value> {
    static NONE: OnceLock<Map<String, Value>> = OnceLock::new();
    cx.arguments().unwrap_or_else(|| NONE.get_or_init(Map::new))
}

/// A parameter that must be given.
pub(crate) fn required(kind: ShapeKind, description: &str) -> Field {
    Field { shape: Shape::new(kind).described(description), required: true }
}

/// A parameter that may be left out.
pub(crate) fn optional(kind: ShapeKind, description: &str) -> Field {
    Field { shape: Shape::new(kind).described(description), required: false }
}

/// A parameter with a default.
pub(crate) fn defaulted(kind: ShapeKind, default: impl Into<Value>, description: &str) -> Field {
    let mut shape = Shape::new(kind).described(description);
    shape.constraints.default = Some(default.into());
    Field { shape, required: false }
}

/// A text among the arguments; empty when it is not there.
pub(crate) fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A count among the arguments.
pub(crate) fn count(arguments: &Map<String, Value>, name: &str) -> Option<usize> {
    arguments.get(name).and_then(Value::as_u64).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

/// A tool that could not do what it was asked to.
pub(crate) fn failure(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Tool, message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_group_has_described_tools_of_its_own_names() {
        let mut seen = BTreeSet::new();
        for builtin in BUILTINS {
            assert!(builtin.name.starts_with("builtin:") && builtin.summary.len() > 10);
            let tools = group(builtin.name).expect("the group");
            assert!(!tools.is_empty(), "{}", builtin.name);
            for tool in tools {
                assert!(seen.insert(tool.name.clone()), "`{}` is there twice", tool.name);
                assert!(tool.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", tool.name);
                assert!(tool.description.len() > 20 && tool.body.is_some(), "{}", tool.name);
                for (name, field) in &tool.parameters.fields {
                    assert!(field.shape.constraints.description.is_some(), "{}.{name}", tool.name);
                }
            }
        }
        assert!(group("builtin:nothing").is_none());
        assert_eq!(names().count(), BUILTINS.len());
    }

    #[test]
    fn what_a_tool_touches_is_declared() {
        let needs = |group_name: &str, tool: &str| {
            let tools = group(group_name).expect("the group");
            tools.iter().find(|found| found.name == tool).expect("the tool").needs().permissions
        };
        assert_eq!(needs("builtin:files", "read_file"), ["files:read"]);
        assert_eq!(needs("builtin:files", "edit_file"), ["files:read", "files:write"]);
        assert_eq!(needs("builtin:fetch", "fetch_page"), ["internet"]);
        assert!(needs("builtin:math", "calculate").is_empty());
    }
}
