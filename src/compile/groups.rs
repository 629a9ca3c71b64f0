//! Tool groups that no source can serve here: the actions that need them cannot run, and `check` says so (language.md 8).

use std::collections::BTreeMap;

use crate::decl::Name;
use crate::decl::tools::{GroupSource, ToolGroup, ToolUse};
use crate::diag::Diagnostic;
use crate::program::{Condition, ConditionKind, MissingEnv, Permissions};
use crate::tool::group::{Take, matches};

use super::agent::AgentCx;
use super::lower::{Requirement, Test};
use super::settings::Layers;

/// Why servers cannot be used here, by their names: what can be known without starting one.
pub(crate) fn unusable(missing: &[MissingEnv], permissions: &Permissions) -> impl Fn(&str) -> Option<String> + use<> {
    let unset = missing.iter().filter(|missing| missing.section == "mcp_servers");
    let unset: BTreeMap<String, String> =
        unset.map(|missing| (missing.name.clone(), missing.variable.clone())).collect();
    let deny = permissions.deny.clone();
    move |server| {
        if let Some(variable) = unset.get(server) {
            return Some(format!(
                "the MCP server `{server}` needs the environment variable `{variable}`, which is not set"
            ));
        }
        let permission = format!("mcp:{server}");
        let denied = deny.iter().any(|pattern| matches(pattern, &permission));
        denied.then(|| format!("the project denies `{permission}`"))
    }
}

impl AgentCx<'_> {
    /// What keeps an action from running because no source serves a group of tools that its prompts are offered:
    /// a condition that never holds for each such group. They are reported where the list names them.
    pub(crate) fn unserved_groups(&mut self, layers: &Layers<'_>) -> Vec<Requirement> {
        let Some(list) = layers.find(|settings| settings.tools.as_ref()) else { return Vec::new() };
        let names: Vec<&Name> = list.iter().filter_map(named).collect();
        let mut gates = Vec::new();
        for name in names {
            let group = name.value.split('.').next().unwrap_or_default();
            let Some(decl) = self.heads.visible.tool_groups.get(group) else { continue };
            let Some(why) = self.unserved(decl.decl) else { continue };
            let message = format!("no source serves the tool group `{group}`: {why}");
            let found = Diagnostic::warning("unserved-group", name.span, message.clone())
                .help("what needs it cannot run here; give the group a source that can serve");
            // `defaults` may name it for many actions; it is one finding.
            if !self.strings.findings.contains(&found) {
                self.report(found);
            }
            let condition = format!("tools of {group}");
            let known = self.conditions.iter().position(|known| known.name == condition);
            let at = known.unwrap_or_else(|| {
                let kind = ConditionKind::Never(message);
                let condition = Condition { name: condition, kind, mentions: Vec::new(), names: Vec::new() };
                self.conditions.push(condition);
                self.conditions.len() - 1
            });
            gates.push(Requirement { test: Test::Condition(at), holds: true, needs: Vec::new() });
        }
        gates
    }

    /// Why no source of a group can serve it; `None` when one may, or when the group itself is wrong.
    fn unserved(&self, group: &ToolGroup) -> Option<String> {
        let whys: Option<Vec<String>> = group.from.iter().map(|source| self.source_unserved(source)).collect();
        whys.filter(|whys| !whys.is_empty()).map(|whys| whys.join("; "))
    }

    fn source_unserved(&self, source: &GroupSource) -> Option<String> {
        if let Some(server) = &source.mcp {
            return (self.unusable)(&server.value);
        }
        let tools = source.tools.as_ref()?;
        let texts = |list: &crate::decl::List<Name>| list.iter().map(|name| name.value.clone()).collect();
        let take = Take { include: texts(&source.include), exclude: texts(&source.exclude), prefix: String::new() };
        // What a group, a type or a built-in offers is not known here.
        let is_left_out = |tool: &ToolUse| {
            let name = match tool {
                ToolUse::Name(name) => {
                    Some(name).filter(|name| self.heads.visible.tools.contains_key(name.value.as_str()))
                }
                ToolUse::Derived(derived) => derived.name.as_ref(),
                ToolUse::Inline(name, _) => Some(name),
            };
            name.is_some_and(|name| take.offered(&name.value).is_none())
        };
        tools.iter().all(is_left_out).then(|| "its `include` and `exclude` leave no tool".to_owned())
    }
}

/// The name in an element of a list of tools.
fn named(tool: &ToolUse) -> Option<&Name> {
    match tool {
        ToolUse::Name(name) => Some(name),
        ToolUse::Derived(derived) => Some(&derived.tool),
        ToolUse::Inline(..) => None,
    }
}
