//! Tools as a model would see them, and one call by hand (cli.md, `tools`).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::action::Failure;
use crate::llm::ToolSpec;
use crate::process::ActionContext;
use crate::process::references::refer;
use crate::process::run::Given;
use crate::process::tool_loop::{ToolLoop, offered};
use crate::program::{Action, Agent};
use crate::reference::Reach;
use crate::tool::offer::{Offered, Use, is_same};
use crate::tool::unfold::NESTING_MAX;
use crate::value::{Output, OutputKind, TypeId};

use super::{Engine, RunOptions, StartError, inputs, render};

/// A node of `tools tree --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolNode {
    /// The name that a model calls it by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// About how many tokens it takes: a quarter of the bytes of name, description and parameters.
    pub tokens: u64,
    /// The same, with everything below it revealed.
    pub tokens_unfolded: u64,
    /// What it reveals.
    pub children: Vec<ToolNode>,
}

impl ToolNode {
    fn of(tool: &Offered, depth: usize) -> ToolNode {
        let tokens = tokens(&tool.spec);
        let facade = tool.facade().filter(|_| depth < NESTING_MAX);
        let inner = facade.into_iter().flat_map(|facade| &facade.tools);
        let children: Vec<ToolNode> = inner.map(|tool| ToolNode::of(tool, depth + 1)).collect();
        let below: u64 = children.iter().map(|child| child.tokens_unfolded).sum();
        let stays = facade.is_none_or(|facade| !facade.remove_on_invoke);
        ToolNode {
            name: tool.spec.name.clone(),
            description: tool.spec.description.clone(),
            tokens,
            tokens_unfolded: below + if stays { tokens } else { 0 },
            children,
        }
    }
}

/// About how many tokens a tool takes: a quarter of the bytes that say it.
fn tokens(spec: &ToolSpec) -> u64 {
    json!(spec).to_string().len().div_ceil(4) as u64
}

impl Engine {
    /// The tools that an action's prompts offer, or all that the agent declares and its actions offer, with what their
    /// facades reveal. Inputs are made up from their types.
    ///
    /// # Errors
    /// A wrong action, a group that no source serves, a template that fails.
    pub async fn tools(&self, agent: &str, action: Option<&str>) -> Result<Vec<Arc<Offered>>, StartError> {
        let agent = self.agent(Some(agent))?;
        let mut actions: Vec<_> = agent.actions.iter().collect();
        if let Some(name) = action {
            actions.retain(|action| action.name == name);
            if actions.is_empty() {
                let names = agent.actions.iter().map(|action| action.name.as_str());
                let help = crate::diag::suggest::near_or_all(name, names, "its actions");
                return Err(StartError::BadOption(format!(
                    "the agent `{}` has no action `{name}`; {help}",
                    agent.name
                )));
            }
        }
        let mut found: Vec<Arc<Offered>> = Vec::new();
        for declared in actions {
            if declared.settings.tools.is_none() && declared.settings.references.is_empty() {
                continue;
            }
            let mut objects = inputs::given(&agent, Vec::new(), self.inner().world.as_ref())?;
            render::add_samples(&agent, &declared.inputs, &mut objects)?;
            self.add_required(&agent, declared, &mut objects).await?;
            let cx = self.staged(&agent, declared, objects)?;
            let referred = refer(&cx, &declared.settings, Reach::Kept).await.map_err(wrong)?;
            let Some(offer) = referred.offer else { continue };
            let offers = match action {
                // As `render` has it: what the first turn offers.
                Some(_) => ToolLoop::begin(&cx, offer).await.map_err(wrong)?.offered(),
                None => offered(&cx, &offer.uses).await.map_err(wrong)?,
            };
            add(&mut found, offers);
        }
        if action.is_none() {
            let cx = self.by_hand(&agent.name, RunOptions::default())?;
            let uses: Vec<Use> = agent.tools.keys().cloned().map(Use::Tool).collect();
            let declared = offered(&cx, &uses).await.map_err(wrong)?;
            // What some facade reveals stands below it.
            let below = flat(&[found.clone(), declared.clone()].concat(), false);
            let is_below = |tool: &Arc<Offered>| below.iter().any(|inner| is_same(&inner.tool, &tool.tool));
            add(&mut found, declared.into_iter().filter(|tool| !is_below(tool)).collect());
        }
        Ok(found)
    }

    /// An action at the point where its prompts begin, on objects that were given or made up.
    fn staged(&self, agent: &Arc<Agent>, declared: &Action, objects: Vec<Given>) -> Result<ActionContext, StartError> {
        let process = self.process(agent, objects, RunOptions::default())?;
        let bound = process.blackboard().bind(&declared.inputs).unwrap_or_default();
        let scope = process.scope().for_action(declared).with_inputs(&declared.inputs, &bound);
        Ok(ActionContext::detached(process.core().clone(), &declared.name, scope, Output::new(OutputKind::None)))
    }

    /// Makes up the objects that an action's tools require: they are there whenever the action runs, but for those that
    /// another tool of the list publishes.
    pub(super) async fn add_required(
        &self,
        agent: &Arc<Agent>,
        declared: &Action,
        objects: &mut Vec<Given>,
    ) -> Result<(), StartError> {
        if declared.settings.tools.is_none() {
            return Ok(());
        }
        let cx = self.staged(agent, declared, objects.clone())?;
        let referred = refer(&cx, &declared.settings, Reach::Kept).await.map_err(wrong)?;
        let Some(offer) = referred.offer else { return Ok(()) };
        let tools = offered(&cx, &offer.uses).await.map_err(wrong)?;
        let published: BTreeSet<TypeId> = tools.iter().filter_map(|tool| tool.tool.publish).collect();
        let required: BTreeSet<TypeId> = tools.iter().flat_map(|tool| tool.tool.requires.iter().copied()).collect();
        let wanted: Vec<_> = required.difference(&published).map(|of| render::as_input(agent, *of)).collect();
        render::add_samples(agent, &wanted, objects)
    }

    /// The same as a tree, with tokens.
    ///
    /// # Errors
    /// As [`Engine::tools`].
    pub async fn tool_tree(&self, agent: &str, action: Option<&str>) -> Result<Vec<ToolNode>, StartError> {
        Ok(self.tools(agent, action).await?.iter().map(|tool| ToolNode::of(tool, 0)).collect())
    }

    /// The tools as they go out: those of an action's first turn; without an action all, those behind facades too.
    ///
    /// # Errors
    /// As [`Engine::tools`].
    pub async fn tool_specs(&self, agent: &str, action: Option<&str>) -> Result<Vec<ToolSpec>, StartError> {
        let tools = self.tools(agent, action).await?;
        let tools = if action.is_some() { tools } else { flat(&tools, true) };
        Ok(tools.iter().map(|tool| tool.spec.clone()).collect())
    }

    /// Calls a tool once, as a model would.
    ///
    /// # Errors
    /// No such tool as a [`StartError`]; the failure of the call inside.
    pub async fn call_tool(
        &self,
        agent: &str,
        tool: &str,
        arguments: Map<String, Value>,
        options: RunOptions,
    ) -> Result<Result<Value, Failure>, StartError> {
        let tools = flat(&self.tools(agent, None).await?, true);
        let Some(found) = tools.iter().find(|known| known.name() == tool) else {
            let names = tools.iter().map(|tool| tool.name());
            let help = crate::diag::suggest::near_or_all(tool, names, "its tools");
            return Err(StartError::BadOption(format!("the agent `{agent}` has no tool `{tool}`; {help}")));
        };
        if found.facade().is_some() {
            let message = format!("the tool `{tool}` only reveals others; call one of them, see `tools tree`");
            return Err(StartError::BadOption(message));
        }
        let cx = self.by_hand(agent, options)?;
        Ok(cx.call_offered(found, arguments).await)
    }

    /// A context outside of any action.
    pub(super) fn by_hand(&self, agent: &str, options: RunOptions) -> Result<ActionContext, StartError> {
        let agent = self.agent(Some(agent))?;
        let process = self.process(&agent, Vec::new(), options)?;
        let scope = process.scope().with_arguments(Vec::new());
        Ok(ActionContext::detached(process.core().clone(), "tools", scope, Output::new(OutputKind::None)))
    }
}

fn wrong(failure: Failure) -> StartError {
    StartError::BadOption(failure.message)
}

/// Adds the tools that are not there yet.
fn add(found: &mut Vec<Arc<Offered>>, more: Vec<Arc<Offered>>) {
    for tool in more {
        if !found.iter().any(|known| known.name() == tool.name()) {
            found.push(tool);
        }
    }
}

/// Tools with all that their facades reveal, each name once; without the `roots` only what is revealed.
fn flat(tools: &[Arc<Offered>], roots: bool) -> Vec<Arc<Offered>> {
    let mut found: Vec<Arc<Offered>> = Vec::new();
    let mut next: Vec<(Arc<Offered>, usize)> = tools.iter().rev().map(|tool| (tool.clone(), 0)).collect();
    while let Some((tool, depth)) = next.pop() {
        let inner =
            tool.facade().filter(|_| depth < NESTING_MAX).into_iter().flat_map(|facade| facade.tools.iter().rev());
        next.extend(inner.map(|inner| (inner.clone(), depth + 1)));
        if roots || depth > 0 {
            add(&mut found, vec![tool]);
        }
    }
    found
}
