//! `graph FILE`: types, actions, goals and the plan's way through them, as a picture.

use crate::engine::{PlanOptions, RunOptions};
use crate::program::graph::Graph;

use super::args::{Global, GraphArgs, GraphFormat};
use super::loaded::{Clock, Outcome, load};
use super::{Exit, Fault, Out};

/// Prints the picture. An agent that no goal can be reached for is drawn without a way.
pub(super) fn graph(args: &GraphArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let loaded = match load(&args.target, Clock::default(), None, global, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    let agent = &loaded.agent;
    let plan = loaded.engine.plan(&agent.name, Vec::new(), RunOptions::default(), &PlanOptions::default())?;
    let steps: Vec<usize> = plan
        .steps
        .iter()
        .filter_map(|step| agent.actions.iter().position(|action| action.name == step.action))
        .collect();
    let goal = plan.goal.and_then(|name| agent.goals.iter().position(|goal| goal.name == name));
    let graph = Graph::of(agent, &steps, goal);
    let text = match args.format {
        GraphFormat::Mermaid => graph.mermaid(),
        GraphFormat::Dot => graph.dot(),
        GraphFormat::Svg => graph.svg(),
    };
    out.line(text.trim_end());
    Ok(Exit::Done)
}
