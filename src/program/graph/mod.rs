//! The domain as a picture: types, actions and goals, and the way that the plan takes through them.
//!
//! [`Graph::of`] makes the graph; one file a format writes it.

mod dot;
mod layout;
mod mermaid;
mod svg;

use indexmap::IndexMap;

use super::Agent;
use crate::value::{Output, OutputKind, TypeId};

/// Types, actions and goals of an agent with their connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The nodes, types first as they are met, then actions and goals in declaration order.
    pub nodes: Vec<Node>,
    /// The connections, each once.
    pub edges: Vec<Edge>,
}

/// A node of a [`Graph`].
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it stands for.
    pub kind: NodeKind,
    /// Its label.
    pub label: String,
    /// Its place in the plan, from 1, for an action that the plan takes.
    pub step: Option<usize>,
}

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A type that a run starts from.
    Input,
    /// Another type.
    Type,
    /// An action.
    Action,
    /// A goal.
    Goal,
}

/// A connection from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Index of the node it leaves.
    pub from: usize,
    /// Index of the node it reaches.
    pub to: usize,
    /// It may be absent: an optional input, an output that may not come.
    pub maybe: bool,
    /// The plan takes it.
    pub planned: bool,
}

impl Graph {
    /// The graph of an agent. `plan` lists the actions of a plan in order; `goal` is the goal it leads to.
    pub fn of(agent: &Agent, plan: &[usize], goal: Option<usize>) -> Graph {
        let mut builder = Builder { agent, graph: Graph::default(), types: IndexMap::new() };
        let actions = agent.actions.iter().enumerate();
        let actions: Vec<usize> = actions.map(|(index, _)| builder.action(index, plan)).collect();
        for (index, action) in agent.actions.iter().enumerate() {
            let planned = plan.contains(&index);
            let inputs = action.inputs.iter().map(|input| (input.type_id, input.optional));
            let trigger = action.trigger.into_iter().map(|trigger| (trigger, false));
            let state = action.state.into_iter().map(|state| (state, false));
            for (type_id, maybe) in inputs.chain(trigger).chain(state).collect::<Vec<_>>() {
                builder.supply(type_id, actions[index], maybe, planned, plan);
            }
            for (type_id, maybe) in outputs(&action.output) {
                let node = builder.type_node(type_id);
                builder.connect(actions[index], node, maybe, planned);
            }
        }
        for (index, declared) in agent.goals.iter().enumerate() {
            let node = builder.push(NodeKind::Goal, &declared.name, None);
            let planned = goal == Some(index);
            match declared.action {
                Some(action) => builder.connect(actions[action], node, false, planned),
                None => {
                    for (type_id, maybe) in outputs(&declared.output) {
                        builder.supply(type_id, node, maybe, planned, plan);
                    }
                }
            }
        }
        builder.graph
    }

    /// The graph as a Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        mermaid::write(self)
    }

    /// The graph in the DOT language of Graphviz.
    pub fn dot(&self) -> String {
        dot::write(self)
    }

    /// The graph drawn as an SVG document.
    pub fn svg(&self) -> String {
        svg::write(self)
    }
}

struct Builder<'a> {
    agent: &'a Agent,
    graph: Graph,
    types: IndexMap<TypeId, usize>,
}

impl Builder<'_> {
    fn push(&mut self, kind: NodeKind, label: &str, step: Option<usize>) -> usize {
        self.graph.nodes.push(Node { kind, label: label.to_owned(), step });
        self.graph.nodes.len() - 1
    }

    fn action(&mut self, index: usize, plan: &[usize]) -> usize {
        let step = plan.iter().position(|step| *step == index).map(|position| position + 1);
        let agent = self.agent;
        self.push(NodeKind::Action, &agent.actions[index].name, step)
    }

    fn type_node(&mut self, type_id: TypeId) -> usize {
        if let Some(&node) = self.types.get(&type_id) {
            return node;
        }
        let agent = self.agent;
        let is_input = agent.inputs.iter().any(|input| input.type_id == type_id);
        let kind = if is_input { NodeKind::Input } else { NodeKind::Type };
        let node = self.push(kind, agent.types.name(type_id), None);
        self.types.insert(type_id, node);
        node
    }

    /// Connects a node with the types whose objects serve where `type_id` is wanted: those that runs start from or actions
    /// output. An output of a supertype may turn out to be one.
    fn supply(&mut self, type_id: TypeId, to: usize, maybe: bool, planned: bool, plan: &[usize]) {
        let agent = self.agent;
        let given = agent.inputs.iter().map(|input| input.type_id);
        let made = agent.actions.iter().flat_map(|action| outputs(&action.output)).map(|(made, _)| made);
        let all: Vec<TypeId> = given.chain(made).collect();
        let serves = |of: &TypeId| agent.types.is_subtype(*of, type_id);
        let mut serving: Vec<TypeId> = all.iter().copied().filter(serves).collect();
        let mut general: Vec<TypeId> =
            all.iter().copied().filter(|of| !serves(of) && agent.types.is_subtype(type_id, *of)).collect();
        if serving.is_empty() || !general.is_empty() {
            serving.push(type_id);
        }
        for list in [&mut serving, &mut general] {
            list.sort_unstable();
            list.dedup();
        }
        for source in serving {
            let node = self.type_node(source);
            self.connect(node, to, maybe, planned && self.is_supplied(source, plan));
        }
        for source in general {
            let (from, node) = (self.type_node(source), self.type_node(type_id));
            self.connect(from, node, true, planned && self.is_supplied(source, plan));
        }
    }

    /// Whether a run starts from a type, or the plan makes one: the type itself or a supertype of it.
    fn is_supplied(&self, id: TypeId, plan: &[usize]) -> bool {
        let agent = self.agent;
        let makes = |action: &usize| {
            agent
                .actions
                .get(*action)
                .is_some_and(|action| outputs(&action.output).iter().any(|(made, _)| agent.types.is_subtype(id, *made)))
        };
        agent.inputs.iter().any(|input| input.type_id == id) || plan.iter().any(makes)
    }

    fn connect(&mut self, from: usize, to: usize, maybe: bool, planned: bool) {
        match self.graph.edges.iter_mut().find(|edge| (edge.from, edge.to) == (from, to)) {
            Some(edge) => edge.planned |= planned,
            None => self.graph.edges.push(Edge { from, to, maybe, planned }),
        }
    }
}

/// The types an output may bring, and whether each may fail to come.
fn outputs(output: &Output) -> Vec<(TypeId, bool)> {
    match &output.kind {
        OutputKind::One(id) => vec![(*id, false)],
        OutputKind::Optional(id) => vec![(*id, true)],
        OutputKind::List(id) => vec![(*id, false)],
        OutputKind::SomeOf(ids) => ids.iter().map(|id| (*id, true)).collect(),
        OutputKind::None => Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// UserInput → extract → Person → write → Story → goal, with an optional Mood into `write`.
    pub(super) fn small() -> Graph {
        let node = |kind, label: &str, step| Node { kind, label: label.to_owned(), step };
        let edge = |from, to, maybe, planned| Edge { from, to, maybe, planned };
        Graph {
            nodes: vec![
                node(NodeKind::Action, "extract", Some(1)),
                node(NodeKind::Action, "write", Some(2)),
                node(NodeKind::Input, "UserInput", None),
                node(NodeKind::Type, "Person", None),
                node(NodeKind::Type, "Mood <now>", None),
                node(NodeKind::Type, "Story", None),
                node(NodeKind::Goal, "done", None),
            ],
            edges: vec![
                edge(2, 0, false, true),
                edge(0, 3, false, true),
                edge(3, 1, false, true),
                edge(4, 1, true, false),
                edge(1, 5, false, true),
                edge(5, 6, false, true),
            ],
        }
    }
}
