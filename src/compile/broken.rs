//! Declarations that are there but could not be read. Their names are remembered, so that nothing is reported that only
//! follows from the mistake in them.

use indexmap::IndexSet;

use crate::decl::Module;
use crate::source::Node;

/// The names that a module declares in some section and that did not come to be read.
pub(super) fn names(root: &Node, module: &Module) -> Vec<String> {
    let mut read: IndexSet<&str> = IndexSet::new();
    read.extend(module.types.names().chain(module.states.names()).chain(module.conditions.names()));
    read.extend(module.actions.names().chain(module.goals.names()).chain(module.personas.names()));
    read.extend(module.tools.names().chain(module.tool_groups.names()).chain(module.references.names()));
    read.extend(module.guardrails.names().chain(module.mcp_servers.names()).chain(module.providers.names()));
    read.extend(module.models.iter().flat_map(|models| models.roles.names()));
    let sections = root.as_map().into_iter().flatten();
    let mut names = Vec::new();
    for section in sections {
        // `models` holds its names one level deeper.
        let table = match section.key.value.as_str() {
            "models" => section.value.as_map().and_then(|map| map.get("roles")).map(|entry| &entry.value),
            "types" | "states" | "conditions" | "actions" | "goals" | "personas" | "tools" | "tool_groups"
            | "references" | "guardrails" | "mcp_servers" | "providers" => Some(&section.value),
            _ => None,
        };
        let declared = table.and_then(Node::as_map).into_iter().flatten().map(|entry| &entry.key.value);
        names.extend(declared.filter(|name| !read.contains(name.as_str())).cloned());
    }
    names
}
