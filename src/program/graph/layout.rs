//! Layers for a left-to-right drawing: longest paths give columns, barycentres the order within them, least squares the
//! heights.
//!
//! The method is that of Sugiyama, Tagawa and Toda (1981): a connection that spans several columns passes each of them at a
//! place of its own, so that it never runs behind a node.

use super::Graph;

/// How often the order within columns, and the heights, are improved.
const SWEEPS: usize = 12;
/// Distance of the centre lines of two nodes of a column.
const ROW: f64 = 56.0;
/// Distance of a node from a connection that passes it.
const PASSING: f64 = 36.0;
/// Distance of two connections that pass a column.
const LANE: f64 = 16.0;

/// Where everything is. The cells are the nodes, by their index, then the places where connections pass columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    /// The columns from left to right, each with its cells from top to bottom.
    pub(super) columns: Vec<Vec<usize>>,
    /// By cell: its column.
    pub(super) column: Vec<usize>,
    /// By cell: the height of its centre line; the least is 0.
    pub(super) y: Vec<f64>,
    /// By edge: the cells that it goes through, its ends included; `None` for one that leads back.
    pub(super) routes: Vec<Option<Vec<usize>>>,
    nodes: usize,
}

/// Lays a graph out.
pub(super) fn layout(graph: &Graph) -> Layout {
    let nodes = graph.nodes.len();
    let mut layout = Layout { column: column_of_each(graph), nodes, ..Layout::default() };
    for edge in &graph.edges {
        let (from, to) = (layout.column[edge.from], layout.column[edge.to]);
        layout.routes.push((from < to).then(|| {
            let first = layout.column.len();
            layout.column.extend(from + 1..to);
            let passed = first..layout.column.len();
            std::iter::once(edge.from).chain(passed).chain([edge.to]).collect()
        }));
    }
    let count = layout.column.iter().max().map_or(0, |last| last + 1);
    layout.columns = vec![Vec::new(); count];
    for (cell, &column) in layout.column.iter().enumerate() {
        layout.columns[column].push(cell);
    }
    let (before, after) = layout.neighbours();
    layout.order(&before, &after);
    layout.settle(&before, &after);
    layout
}

impl Layout {
    /// Whether a cell is a node, not a place where a connection passes.
    pub(super) fn is_node(&self, cell: usize) -> bool {
        cell < self.nodes
    }

    /// By cell: the cells of the column before and after that it is connected to.
    fn neighbours(&self) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let cells = self.column.len();
        let (mut before, mut after) = (vec![Vec::new(); cells], vec![Vec::new(); cells]);
        for pair in self.routes.iter().flatten().flat_map(|route| route.windows(2)) {
            before[pair[1]].push(pair[0]);
            after[pair[0]].push(pair[1]);
        }
        (before, after)
    }

    /// Orders the cells of each column by the mean of their neighbours, and keeps the order with the fewest crossings.
    fn order(&mut self, before: &[Vec<usize>], after: &[Vec<usize>]) {
        let mut best = (self.crossings(after), self.columns.clone());
        for sweep in 0..SWEEPS {
            let count = self.columns.len();
            let (order, near): (Vec<usize>, _) =
                if sweep % 2 == 0 { ((0..count).collect(), before) } else { ((0..count).rev().collect(), after) };
            for at in order {
                let place = self.places();
                let mean = |cell: &usize| {
                    let near = &near[*cell];
                    if near.is_empty() {
                        place[*cell]
                    } else {
                        near.iter().map(|of| place[*of]).sum::<f64>() / near.len() as f64
                    }
                };
                self.columns[at].sort_by(|a, b| mean(a).total_cmp(&mean(b)));
            }
            let crossings = self.crossings(after);
            if crossings < best.0 {
                best = (crossings, self.columns.clone());
            }
        }
        self.columns = best.1;
    }

    /// By cell: its place in its column, counted from the middle.
    fn places(&self) -> Vec<f64> {
        let mut places = vec![0.0; self.column.len()];
        for column in &self.columns {
            for (position, &cell) in column.iter().enumerate() {
                places[cell] = position as f64 - (column.len() - 1) as f64 / 2.0;
            }
        }
        places
    }

    /// How many pairs of connections between neighbouring columns cross.
    fn crossings(&self, after: &[Vec<usize>]) -> usize {
        let place = self.places();
        let between = |column: &Vec<usize>| {
            let links: Vec<(f64, f64)> = column
                .iter()
                .flat_map(|&cell| after[cell].iter().map(move |&to| (cell, to)))
                .map(|(a, b)| (place[a], place[b]))
                .collect();
            let crossed = |(at, a): (usize, &(f64, f64))| {
                links[at + 1..].iter().filter(|b| (a.0 - b.0) * (a.1 - b.1) < 0.0).count()
            };
            links.iter().enumerate().map(crossed).sum::<usize>()
        };
        self.columns.iter().map(between).sum()
    }

    /// Gives heights: each cell as near to the mean of its neighbours as the distances in its column allow.
    fn settle(&mut self, before: &[Vec<usize>], after: &[Vec<usize>]) {
        self.y = vec![0.0; self.column.len()];
        for column in self.columns.clone() {
            let wished = vec![0.0; column.len()];
            self.place(&column, &wished);
        }
        for sweep in 0..SWEEPS {
            let count = self.columns.len();
            let order: Vec<usize> = if sweep % 2 == 0 { (0..count).collect() } else { (0..count).rev().collect() };
            for at in order {
                let column = self.columns[at].clone();
                let wish = |&cell: &usize| {
                    let near: Vec<f64> = before[cell].iter().chain(&after[cell]).map(|of| self.y[*of]).collect();
                    if near.is_empty() { self.y[cell] } else { near.iter().sum::<f64>() / near.len() as f64 }
                };
                let wished: Vec<f64> = column.iter().map(wish).collect();
                self.place(&column, &wished);
            }
        }
        let least = self.y.iter().copied().fold(f64::INFINITY, f64::min);
        self.y.iter_mut().for_each(|y| *y -= least);
    }

    /// Places the cells of a column, in their order and with their distances, as near to the wished heights as can be: with
    /// the distances taken off, what is out of order is pooled at its mean.
    fn place(&mut self, column: &[usize], wished: &[f64]) {
        let mut offsets = Vec::with_capacity(column.len());
        for (at, &cell) in column.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| column[at]);
            let distance = before.map_or(0.0, |before| self.distance(before, cell));
            offsets.push(offsets.last().copied().unwrap_or(0.0) + distance);
        }
        let mut pools: Vec<(f64, usize)> = Vec::new();
        for (wish, offset) in wished.iter().zip(&offsets) {
            pools.push((wish - offset, 1));
            while let [.., (a, n), (b, m)] = pools.as_slice()
                && b / *m as f64 <= a / *n as f64
            {
                let pooled = (a + b, n + m);
                pools.truncate(pools.len() - 2);
                pools.push(pooled);
            }
        }
        let placed = pools.iter().flat_map(|&(sum, count)| std::iter::repeat_n(sum / count as f64, count));
        for ((&cell, offset), base) in column.iter().zip(&offsets).zip(placed) {
            self.y[cell] = base + offset;
        }
    }

    fn distance(&self, a: usize, b: usize) -> f64 {
        match (self.is_node(a), self.is_node(b)) {
            (true, true) => ROW,
            (false, false) => LANE,
            _ => PASSING,
        }
    }
}

/// The longest path to each node; edges that close a cycle are passed over. What nothing leads to stands next to the first
/// that it leads to.
fn column_of_each(graph: &Graph) -> Vec<usize> {
    let mut column = vec![0; graph.nodes.len()];
    let forward: Vec<_> = graph.edges.iter().filter(|edge| !closes_cycle(graph, edge.from, edge.to)).collect();
    // With n nodes no path without repetition is longer than n, so a cycle cannot push further than that.
    for _ in 0..graph.nodes.len() {
        let mut changed = false;
        for edge in &forward {
            if column[edge.to] < column[edge.from] + 1 {
                column[edge.to] = column[edge.from] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    for node in 0..graph.nodes.len() {
        if forward.iter().all(|edge| edge.to != node) {
            let next = forward.iter().filter(|edge| edge.from == node).map(|edge| column[edge.to]).min();
            column[node] = next.map_or(0, |next: usize| next.saturating_sub(1));
        }
    }
    column
}

/// True when `from` can be reached from `to` over edges that were declared earlier: the later edge is the one passed over.
fn closes_cycle(graph: &Graph, from: usize, to: usize) -> bool {
    let before = graph.edges.iter().position(|edge| (edge.from, edge.to) == (from, to)).unwrap_or(0);
    let mut seen = vec![to];
    let mut next = 0;
    while let Some(&node) = seen.get(next) {
        next += 1;
        if node == from {
            return true;
        }
        for edge in graph.edges[..before].iter().filter(|edge| edge.from == node) {
            if !seen.contains(&edge.to) {
                seen.push(edge.to);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::super::{Edge, Graph};
    use super::*;

    #[test]
    fn columns_follow_the_longest_path_and_sources_stand_next_to_their_use() {
        assert_eq!(layout(&small()).columns, [vec![2], vec![0], vec![3, 4], vec![1], vec![5], vec![6]]);
    }

    #[test]
    fn a_cycle_ends_and_its_last_edge_leads_back() {
        let mut graph: Graph = small();
        graph.edges.push(Edge { from: 5, to: 0, maybe: false, planned: false });
        let layout = layout(&graph);
        assert_eq!(layout.columns.concat().len(), 7);
        assert_eq!(layout.routes.iter().filter(|route| route.is_none()).count(), 1);
    }

    #[test]
    fn long_edges_pass_columns_at_places_of_their_own() {
        let mut graph: Graph = small();
        graph.edges.push(Edge { from: 2, to: 6, maybe: false, planned: false });
        let layout = layout(&graph);
        let route = layout.routes.last().cloned().flatten().expect("a route");
        assert_eq!((route.len(), route[0], route[5]), (6, 2, 6));
        for column in &layout.columns {
            for pair in column.windows(2) {
                let distance = layout.y[pair[1]] - layout.y[pair[0]];
                assert!(distance >= layout.distance(pair[0], pair[1]) - 1e-9, "{column:?} {:?}", layout.y);
            }
        }
    }
}
