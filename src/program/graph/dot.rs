//! The DOT language of Graphviz.

use std::fmt::Write;

use super::{Graph, NodeKind};

/// The graph from left to right; the plan's way is bold.
pub(super) fn write(graph: &Graph) -> String {
    let mut out = String::from("digraph agent {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n");
    for (index, node) in graph.nodes.iter().enumerate() {
        let step = node.step.map(|step| format!("{step}. ")).unwrap_or_default();
        let look = match node.kind {
            NodeKind::Input => "shape=ellipse, style=filled, fillcolor=\"#e3f2fd\"",
            NodeKind::Type => "shape=ellipse",
            NodeKind::Action if node.step.is_some() => "shape=box, style=\"filled,bold\", fillcolor=\"#e8f5e9\"",
            NodeKind::Action => "shape=box",
            NodeKind::Goal => "shape=hexagon, style=filled, fillcolor=\"#fff8e1\"",
        };
        let _ = writeln!(out, "  n{index} [label=\"{step}{}\", {look}];", escape(&node.label));
    }
    for edge in &graph.edges {
        let look = match (edge.maybe, edge.planned) {
            (true, true) => " [style=\"dashed,bold\", color=\"#2e7d32\"]",
            (true, false) => " [style=dashed]",
            (false, true) => " [style=bold, color=\"#2e7d32\"]",
            (false, false) => "",
        };
        let _ = writeln!(out, "  n{} -> n{}{look};", edge.from, edge.to);
    }
    out.push_str("}\n");
    out
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    #[test]
    fn nodes_and_edges_are_written_with_their_looks() {
        let text = super::super::tests::small().dot();
        assert!(text.contains("n6 [label=\"done\", shape=hexagon"), "{text}");
        assert!(text.contains("n4 -> n1 [style=dashed];") && text.trim_end().ends_with('}'), "{text}");
    }
}
