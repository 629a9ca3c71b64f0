//! An SVG document: columns of boxes with curves between them, readable in light and dark pages.

use std::fmt::Write;

use super::layout::{Layout, layout};
use super::{Edge, Graph, Node, NodeKind};

const GAP: f64 = 56.0;
const BOX_HEIGHT: f64 = 34.0;
const MARGIN: f64 = 20.0;
/// Distance of the lines below the drawing that lead back.
const BACK_LANE: f64 = 14.0;
/// Average width of a character of the 13 px sans-serif font, with some room.
const CHAR: f64 = 7.6;
const GREY: &str = "#757575";
const GREEN: &str = "#2e7d32";

/// Where a node is drawn: its centre line and width.
#[derive(Clone, Copy, Default)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
}

/// Where everything is drawn.
struct Drawing {
    layout: Layout,
    /// By column: its left and right edge.
    columns: Vec<(f64, f64)>,
    /// By node.
    places: Vec<Place>,
    /// Below all nodes.
    bottom: f64,
}

/// The drawing.
pub(super) fn write(graph: &Graph) -> String {
    let drawing = Drawing::new(graph);
    let total = drawing.columns.last().map_or(0.0, |(_, right)| *right) + MARGIN;
    let back = drawing.layout.routes.iter().filter(|route| route.is_none()).count();
    let height = drawing.bottom + back as f64 * BACK_LANE + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total:.0} {height:.0}\" width=\"{total:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n<defs>{}{}</defs>\n",
        marker("end", GREY),
        marker("planned", GREEN)
    );
    // The plan's way is drawn over the others.
    for planned in [false, true] {
        let mut lane = 0;
        for (edge, route) in graph.edges.iter().zip(&drawing.layout.routes) {
            let path = match route {
                Some(route) => drawing.through(route),
                None => {
                    lane += 1;
                    drawing.back(edge, lane)
                }
            };
            if edge.planned == planned {
                let _ = writeln!(out, "<path d=\"{path}\" fill=\"none\" {}/>", look(edge));
            }
        }
    }
    for (node, place) in graph.nodes.iter().zip(&drawing.places) {
        draw(&mut out, node, *place);
    }
    out.push_str("</svg>\n");
    out
}

impl Drawing {
    fn new(graph: &Graph) -> Drawing {
        let layout = layout(graph);
        let mut places = vec![Place::default(); graph.nodes.len()];
        let mut columns = Vec::new();
        let (mut x, mut bottom) = (MARGIN, 0.0_f64);
        for column in &layout.columns {
            let nodes = column.iter().copied().filter(|cell| layout.is_node(*cell));
            let widest = nodes.clone().map(|node| width(&graph.nodes[node])).fold(0.0, f64::max);
            for node in nodes {
                let own = width(&graph.nodes[node]);
                let y = MARGIN + BOX_HEIGHT / 2.0 + layout.y[node];
                places[node] = Place { x: x + (widest - own) / 2.0, y, width: own };
            }
            let lowest = column.iter().map(|cell| layout.y[*cell]).fold(0.0, f64::max);
            bottom = bottom.max(MARGIN + lowest + BOX_HEIGHT);
            columns.push((x, x + widest));
            x += widest + GAP;
        }
        Drawing { layout, columns, places, bottom }
    }

    /// A line from column to column: straight within them, curved between them.
    fn through(&self, route: &[usize]) -> String {
        let y = |cell: usize| MARGIN + BOX_HEIGHT / 2.0 + self.layout.y[cell];
        let (from, to) = (route[0], route[route.len() - 1]);
        let mut path = format!("M{:.1} {:.1}", self.places[from].x + self.places[from].width, y(from));
        for pair in route.windows(2) {
            let (x1, x2) = (self.columns[self.layout.column[pair[0]]].1, self.columns[self.layout.column[pair[1]]].0);
            let (y1, y2, middle) = (y(pair[0]), y(pair[1]), (x1 + x2) / 2.0);
            let _ = write!(path, "L{x1:.1} {y1:.1}C{middle:.1} {y1:.1} {middle:.1} {y2:.1} {x2:.1} {y2:.1}");
        }
        let _ = write!(path, "L{:.1} {:.1}", self.places[to].x, y(to));
        path
    }

    /// A line that leads back, below everything.
    fn back(&self, edge: &Edge, lane: usize) -> String {
        let (from, to) = (self.places[edge.from], self.places[edge.to]);
        let below = self.bottom + lane as f64 * BACK_LANE;
        let (x1, x2, bend) = (from.x + from.width, to.x, GAP / 2.0);
        format!(
            "M{x1:.1} {0:.1}C{1:.1} {0:.1} {1:.1} {below:.1} {x1:.1} {below:.1}L{x2:.1} {below:.1}C{2:.1} {below:.1} {2:.1} {3:.1} {x2:.1} {3:.1}",
            from.y,
            x1 + bend,
            x2 - bend,
            to.y
        )
    }
}

fn marker(id: &str, color: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"{color}\"/></marker>"
    )
}

fn look(edge: &Edge) -> String {
    let (color, width, end) = if edge.planned { (GREEN, 2.2, "planned") } else { (GREY, 1.0, "end") };
    let dashes = if edge.maybe { " stroke-dasharray=\"5 4\"" } else { "" };
    format!("stroke=\"{color}\" stroke-width=\"{width}\"{dashes} marker-end=\"url(#{end})\"")
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
        let mut graph = super::super::tests::small();
        let text = graph.svg();
        assert_eq!((text.matches("<rect").count(), text.matches("marker-end").count()), (7, 6));
        assert!(text.contains("1. extract") && text.contains("Mood &lt;now&gt;"), "{text}");
        assert_eq!((text.matches("url(#planned)").count(), text.matches("stroke-dasharray").count()), (5, 1));
        graph.edges.push(super::Edge { from: 5, to: 0, maybe: false, planned: false });
        assert_eq!(graph.svg().matches("marker-end").count(), 7);
        assert!(super::super::Graph::default().svg().ends_with("</svg>\n"));
    }
}
