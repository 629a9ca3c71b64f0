//! An SVG document: columns of boxes with curves between them, readable in light and dark pages.

use std::fmt::Write;

use super::layout::columns;
use super::{Graph, Node, NodeKind};

const ROW: f64 = 56.0;
const GAP: f64 = 64.0;
const BOX_HEIGHT: f64 = 34.0;
const MARGIN: f64 = 20.0;
/// Average width of a character of the 13 px sans-serif font, with some room.
const CHAR: f64 = 7.6;

/// Where a node is drawn: its centre line and width.
#[derive(Clone, Copy, Default)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
}

/// The drawing.
pub(super) fn write(graph: &Graph) -> String {
    let columns = columns(graph);
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0) as f64;
    let mut places = vec![Place::default(); graph.nodes.len()];
    let mut x = MARGIN;
    for column in &columns {
        let widest = column.iter().map(|&node| width(&graph.nodes[node])).fold(0.0, f64::max);
        let top = MARGIN + (rows - column.len() as f64) * ROW / 2.0;
        for (position, &node) in column.iter().enumerate() {
            let own = width(&graph.nodes[node]);
            places[node] = Place { x: x + (widest - own) / 2.0, y: top + (position as f64 + 0.5) * ROW, width: own };
        }
        x += widest + GAP;
    }
    let (total, height) = (x - GAP + MARGIN, rows * ROW + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total:.0} {height:.0}\" width=\"{total:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n<defs><marker id=\"end\" viewBox=\"0 0 8 8\" \
         refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto-start-reverse\"><path d=\"M0 0 8 4 0 8z\" \
         fill=\"#888\"/></marker></defs>\n"
    );
    for edge in &graph.edges {
        let (from, to) = (places[edge.from], places[edge.to]);
        let (x1, x2) = (from.x + from.width, to.x);
        let bend = ((x2 - x1) / 2.0).abs().max(GAP / 2.0);
        let look = match (edge.maybe, edge.planned) {
            (true, _) => "stroke=\"#888\" stroke-dasharray=\"5 4\"",
            (false, true) => "stroke=\"#2e7d32\" stroke-width=\"2.2\"",
            (false, false) => "stroke=\"#888\"",
        };
        let _ = writeln!(
            out,
            "<path d=\"M{x1:.1} {:.1}C{:.1} {:.1} {:.1} {:.1} {x2:.1} {:.1}\" fill=\"none\" {look} marker-end=\"url(#end)\"/>",
            from.y,
            x1 + bend,
            from.y,
            x2 - bend,
            to.y,
            to.y
        );
    }
    for (node, place) in graph.nodes.iter().zip(&places) {
        draw(&mut out, node, *place);
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, node: &Node, place: Place) {
    let (fill, stroke, radius) = match node.kind {
        NodeKind::Input => ("#e3f2fd", "#1565c0", BOX_HEIGHT / 2.0),
        NodeKind::Type => ("#f5f5f5", "#757575", BOX_HEIGHT / 2.0),
        NodeKind::Action if node.step.is_some() => ("#e8f5e9", "#2e7d32", 4.0),
        NodeKind::Action => ("#ffffff", "#424242", 4.0),
        NodeKind::Goal => ("#fff8e1", "#ef6c00", 12.0),
    };
    let _ = writeln!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BOX_HEIGHT}\" rx=\"{radius}\" fill=\"{fill}\" stroke=\"{stroke}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#212121\">{}</text>",
        place.x,
        place.y - BOX_HEIGHT / 2.0,
        place.width,
        place.x + place.width / 2.0,
        place.y + 4.5,
        escape(&label(node))
    );
}

fn label(node: &Node) -> String {
    match node.step {
        Some(step) => format!("{step}. {}", node.label),
        None => node.label.clone(),
    }
}

fn width(node: &Node) -> f64 {
    label(node).chars().count() as f64 * CHAR + 28.0
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_node_and_edge_is_drawn() {
        let text = super::super::tests::small().svg();
        assert_eq!((text.matches("<rect").count(), text.matches("marker-end").count()), (7, 6));
        assert!(text.contains("1. extract") && text.contains("Mood &lt;now&gt;"), "{text}");
    }
}
