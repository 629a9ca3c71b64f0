//! Limits: the agent's own over the project's.

use crate::decl::Module;
use crate::program::Limits;

use super::super::load::Loaded;

/// The limits that hold for the agent of a module.
pub(crate) fn resolve(loaded: &Loaded<'_>, own: &Module) -> Limits {
    let project = loaded.project.and_then(|id| loaded.modules[id.0].decl.limits.as_ref());
    let mut limits = Limits::default();
    for written in project.into_iter().chain(&own.limits) {
        limits.actions = written.actions.map_or(limits.actions, |actions| u64::from(actions.get()));
        limits.cost = written.cost.unwrap_or(limits.cost);
        limits.tokens = written.tokens.unwrap_or(limits.tokens);
        limits.llm_calls = written.llm_calls.or(limits.llm_calls);
        limits.time = written.time.map(|time| time.0).or(limits.time);
        limits.depth = written.depth.unwrap_or(limits.depth);
    }
    limits
}
