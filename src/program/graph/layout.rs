//! Layers for a left-to-right drawing: longest paths give columns, barycentres the order within them.
//!
//! The method is that of Sugiyama, Tagawa and Toda (1981) without its dummy nodes: graphs of agents are small, and long
//! edges are drawn as curves.

use super::Graph;

/// How often the order within columns is improved.
const SWEEPS: usize = 8;

/// The columns, each with its nodes from top to bottom.
pub(super) fn columns(graph: &Graph) -> Vec<Vec<usize>> {
    let column = column_of_each(graph);
    let count = column.iter().max().map_or(0, |last| last + 1);
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (node, &at) in column.iter().enumerate() {
        columns[at].push(node);
    }
    for sweep in 0..SWEEPS {
        let order: Vec<usize> = if sweep % 2 == 0 { (0..count).collect() } else { (0..count).rev().collect() };
        for at in order {
            sort_by_neighbours(graph, &mut columns, at);
        }
    }
    columns
}

/// The longest path to each node; edges that close a cycle are passed over.
fn column_of_each(graph: &Graph) -> Vec<usize> {
    let mut column = vec![0; graph.nodes.len()];
    // With n nodes no path without repetition is longer than n, so a cycle cannot push further than that.
    for _ in 0..graph.nodes.len() {
        let mut changed = false;
        for edge in graph.edges.iter().filter(|edge| !closes_cycle(graph, edge.from, edge.to)) {
            if column[edge.to] < column[edge.from] + 1 {
                column[edge.to] = column[edge.from] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
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

fn sort_by_neighbours(graph: &Graph, columns: &mut [Vec<usize>], at: usize) {
    let mut height = vec![0.0; graph.nodes.len()];
    for column in columns.iter() {
        for (position, &node) in column.iter().enumerate() {
            height[node] = position as f64 - column.len() as f64 / 2.0;
        }
    }
    let centre = |node: usize| {
        let near = graph.edges.iter().filter_map(|edge| match (edge.from == node, edge.to == node) {
            (true, _) => Some(height[edge.to]),
            (_, true) => Some(height[edge.from]),
            _ => None,
        });
        let near: Vec<f64> = near.collect();
        if near.is_empty() { height[node] } else { near.iter().sum::<f64>() / near.len() as f64 }
    };
    columns[at].sort_by(|a, b| centre(*a).total_cmp(&centre(*b)));
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::super::{Edge, Graph};
    use super::*;

    #[test]
    fn columns_follow_the_longest_path() {
        assert_eq!(columns(&small()), [vec![2, 4], vec![0], vec![3], vec![1], vec![5], vec![6]]);
    }

    #[test]
    fn a_cycle_ends() {
        let mut graph: Graph = small();
        graph.edges.push(Edge { from: 5, to: 0, maybe: false, planned: false });
        assert_eq!(columns(&graph).concat().len(), 7);
    }
}
