//! A body as written: exactly one key of a table of kinds, its value still a node that the kind itself reads.

use crate::diag::Diagnostic;
use crate::source::{Entry, Map, Node, Spanned};

use super::read::{ReadCx, listed};

/// The keys that may give an action's body, in the order of language.md 4. `action::KINDS` has one entry for each.
pub const ACTION_BODIES: &[&str] =
    &["prompt", "set", "choose", "call", "http", "exec", "agent", "ask", "scatter_gather", "repeat_until"];

/// The keys that may give a tool's body, in the order of language.md 8. Those of `tool::BODIES` are action bodies; the others are
/// read and checked by `compile::check`.
pub const TOOL_BODIES: &[&str] = &["set", "http", "exec", "call", "agent", "prompt", "mcp", "unfold", "agentic"];

/// The one body of an action, tool or nested place.
#[derive(Clone, Debug)]
pub struct BodyNode {
    /// Which kind, and where its key stands.
    pub kind: Spanned<String>,
    /// What was written under it.
    pub node: Node,
}

/// The order of a body's own keys has no meaning, save in `set`, whose mapping is data.
impl PartialEq for BodyNode {
    fn eq(&self, other: &BodyNode) -> bool {
        let maps = (self.node.as_map(), other.node.as_map());
        let (Some(own), Some(others), true) = (maps.0, maps.1, self.kind.value != "set") else {
            return self.kind == other.kind && self.node == other.node;
        };
        let same = |entry: &Entry| others.get(&entry.key.value).is_some_and(|other| other.value == entry.value);
        self.kind == other.kind && own.entries.len() == others.entries.len() && own.entries.iter().all(same)
    }
}

/// Finds the one body of a mapping. `owner` is the place and words for a finding when there is none or more than one.
pub fn read_body(map: &Map, kinds: &[&str], owner: &Spanned<String>, cx: &mut ReadCx) -> Option<BodyNode> {
    let mut written = map.entries.iter().filter(|entry| kinds.contains(&entry.key.value.as_str()));
    let Some(first) = written.next() else {
        // A misspelt body key has been reported already as an unknown key; a second finding would only follow from it.
        let reported = cx.diagnostics.iter().any(|d| {
            d.code == "unknown-key" && map.entries.iter().any(|entry| d.span == Some(entry.key.span)) && d.fix.is_some()
        });
        // So would one about lines that could not be read.
        if !reported && !map.incomplete {
            cx.report(
                Diagnostic::error("missing-body", owner.span, format!("{} has no body", owner.value))
                    .help(format!("give it exactly one of {}", listed(kinds))),
            );
        }
        return None;
    };
    for second in written {
        cx.report(
            Diagnostic::error(
                "two-bodies",
                second.key.span,
                format!("{} has a body already; it is exactly one of {}", owner.value, listed(kinds)),
            )
            .related(first.key.span, format!("the body `{}` is here", first.key.value)),
        );
    }
    Some(BodyNode { kind: first.key.clone(), node: first.value.clone() })
}
