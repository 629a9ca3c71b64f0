//! The checks: what a project must be beyond its shape. One file per noun; each check appends what it finds.
//!
//! What is checked where it is resolved (unknown types, inputs, exprs, templates) is not repeated here.

pub(crate) mod actions;
pub(crate) mod conditions;
pub(crate) mod goals;
pub(crate) mod guardrails;
pub(crate) mod limits;
pub(crate) mod models;
pub(crate) mod names;
pub(crate) mod offers;
pub(crate) mod personas;
pub(crate) mod reachability;
pub(crate) mod references;
pub(crate) mod sections;
pub(crate) mod states;
pub(crate) mod templates;
pub(crate) mod tools;
pub(crate) mod types;
pub(crate) mod unfolding;

use super::Checked;
use super::agent::AgentCx;
use super::load::Loaded;

/// The checks of what an agent sees that need no body, in order.
pub(crate) fn module_checks(cx: &mut AgentCx<'_>) {
    names::check(cx);
    types::check(cx);
    states::check(cx);
    models::check(cx);
    personas::check(cx);
    references::check(cx);
    guardrails::check(cx);
    goals::check(cx);
}

/// The checks that need everything to be lowered.
pub(crate) fn whole_checks(cx: &mut AgentCx<'_>) {
    tools::groups(cx);
    unfolding::check(cx);
}

/// Says what of a project was not looked at.
pub(crate) fn not_checked(loaded: &Loaded<'_>, checked: &mut Checked) {
    let mut references = loaded.modules.iter().flat_map(|module| module.decl.references.iter());
    let is_address = |name: &Option<crate::decl::Name>| name.as_ref().is_some_and(|name| name.value.contains("://"));
    if references.any(|(_, one)| one.web_page.is_some() || one.git.is_some() || is_address(&one.openapi)) {
        let what = "whether web pages and repositories of references answer (`agent-run references --ping` does)";
        checked.not_checked.push(what.to_owned());
    }
    let mut servers = loaded.modules.iter().flat_map(|module| module.decl.mcp_servers.iter());
    if servers.next().is_some() {
        checked.not_checked.push("the tools of MCP servers, which only the servers know".to_owned());
    }
}
