//! What the prompts of an agent may reach: tools, those behind facades and of objects too, and servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::tool::Tool;
use crate::tool::group::Source;
use crate::tool::offer::Use;
use crate::tool::unfold::NESTING_MAX;
use crate::value::TypeId;

use super::Agent;

/// What prompts may reach, each once, in the order in which it is offered.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// The tools.
    pub tools: Vec<Arc<Tool>>,
    /// Tool groups with the servers that have tools for them: the group, the server.
    pub servers: Vec<(String, String)>,
}

impl Agent {
    /// What its prompts offer beside references.
    pub fn reached(&self) -> Reached {
        let mut found = Reached::default();
        self.offers.iter().flat_map(|offer| &offer.uses).for_each(|of| self.reach(of, 0, &mut found));
        found
    }

    /// The agents that the tools of its prompts hand over to or run.
    pub fn handed_to(&self) -> BTreeSet<String> {
        self.reached().tools.iter().flat_map(|tool| tool.needs().agents).collect()
    }

    fn reach(&self, of: &Use, depth: usize, found: &mut Reached) {
        if depth > 2 * NESTING_MAX {
            return;
        }
        let tools: Vec<&Arc<Tool>> = match of {
            Use::Tool(name) => self.tools.get(name).into_iter().collect(),
            Use::Own(tool) => vec![tool],
            Use::BuiltIn(tools) => tools.iter().collect(),
            Use::Objects { type_id, .. } => {
                let is_kin = |of: &TypeId| self.types.is_subtype(*of, *type_id) || self.types.is_subtype(*type_id, *of);
                self.object_tools.iter().filter(|(of, _)| is_kin(of)).flat_map(|(_, tools)| tools).collect()
            }
            Use::Derived(of, _) => return self.reach(of, depth + 1, found),
            Use::Group { group, .. } => {
                for source in self.tool_groups.get(group).into_iter().flat_map(|group| &group.sources) {
                    match source {
                        Source::Tools { tools, .. } => tools.iter().for_each(|of| self.reach(of, depth + 1, found)),
                        Source::Server { server, .. } => {
                            let pair = (group.clone(), server.clone());
                            if !found.servers.contains(&pair) {
                                found.servers.push(pair);
                            }
                        }
                    }
                }
                return;
            }
        };
        for tool in tools {
            if !found.tools.iter().any(|known| Arc::ptr_eq(known, tool)) {
                found.tools.push(Arc::clone(tool));
            }
            if let Some(unfold) = &tool.unfold {
                let inner = unfold.tools.iter().chain(unfold.categories.values().flatten()).chain(&unfold.shared);
                inner.for_each(|of| self.reach(of, depth + 1, found));
            }
        }
    }
}
