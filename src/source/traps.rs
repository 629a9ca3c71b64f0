//! Traps of YAML that show only in the shape of the tree, for the layers that know what was expected
//! (language.md 12). Each function says whether a node looks like the trap; the caller words the message.

use super::{Node, NodeKind, Source};

/// Whether a mapping is what YAML makes of an unquoted `{{ x }}`: a mapping written in braces that holds a mapping
/// as its only key or value.
pub fn looks_like_template_mapping(node: &Node, source: &Source) -> bool {
    matches!(node.kind, NodeKind::Map(_) | NodeKind::Hole) && node.spelling(source).starts_with("{{")
}
