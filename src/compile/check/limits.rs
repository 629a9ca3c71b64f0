//! Limits: the agent's own over the project's.

use crate::decl::workflow::Limits as Written;
use crate::program::Limits;

use super::super::agent::AgentCx;

/// The limits that hold for the agent.
pub(crate) fn resolve(cx: &mut AgentCx<'_>) -> Limits {
    let mut limits = Limits::default();
    for written in written(cx).into_iter().rev() {
        limits.actions = written.actions.map_or(limits.actions, |actions| u64::from(actions.get()));
        limits.cost = written.cost.unwrap_or(limits.cost);
        limits.tokens = written.tokens.unwrap_or(limits.tokens);
        limits.llm_calls = written.llm_calls.or(limits.llm_calls);
        limits.time = written.time.map(|time| time.0).or(limits.time);
        limits.depth = written.depth.unwrap_or(limits.depth);
    }
    limits
}

/// The agent's own limits, then the project's.
fn written<'a>(cx: &AgentCx<'a>) -> Vec<&'a Written> {
    let project = cx.loaded.project.and_then(|id| cx.loaded.modules[id.0].decl.limits.as_ref());
    cx.heads.own.limits.as_ref().into_iter().chain(project).collect()
}
