//! Mermaid flowcharts, which many web pages draw from text.

use std::fmt::Write;

use super::{Graph, NodeKind};

/// The graph as a flowchart from left to right; the plan's way is thick.
pub(super) fn write(graph: &Graph) -> String {
    let mut out = String::from("flowchart LR\n");
    for (index, node) in graph.nodes.iter().enumerate() {
        let label = escape(&node.label);
        let step = node.step.map(|step| format!("{step}. ")).unwrap_or_default();
        let shape = match node.kind {
            NodeKind::Input => format!("([\"{label}\"]):::input"),
            NodeKind::Type => format!("([\"{label}\"])"),
            NodeKind::Action if node.step.is_some() => format!("[\"{step}{label}\"]:::planned"),
            NodeKind::Action => format!("[\"{label}\"]"),
            NodeKind::Goal => format!("{{{{\"{label}\"}}}}:::goal"),
        };
        let _ = writeln!(out, "  n{index}{shape}");
    }
    for edge in &graph.edges {
        let arrow = match (edge.maybe, edge.planned) {
            (true, _) => "-.->",
            (false, true) => "==>",
            (false, false) => "-->",
        };
        let _ = writeln!(out, "  n{} {arrow} n{}", edge.from, edge.to);
    }
    out.push_str("  classDef input fill:#e3f2fd,stroke:#1565c0,color:#0d3c61\n");
    out.push_str("  classDef planned fill:#e8f5e9,stroke:#2e7d32,color:#1b4d20,stroke-width:2px\n");
    out.push_str("  classDef goal fill:#fff8e1,stroke:#ef6c00,color:#663c00\n");
    out
}

/// Mermaid reads HTML entities in quoted labels.
fn escape(label: &str) -> String {
    label.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_plan_is_thick_and_what_may_be_absent_is_dotted() {
        let text = super::super::tests::small().mermaid();
        assert!(text.starts_with("flowchart LR\n  n0[\"1. extract\"]:::planned\n"), "{text}");
        assert!(
            text.contains("n2 ==> n0") && text.contains("n4 -.-> n1") && text.contains("Mood &lt;now&gt;"),
            "{text}"
        );
    }
}
