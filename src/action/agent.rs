//! `agent`: another agent, run to its goal as a sub-process.

use std::sync::Arc;

use serde_json::Value;

use crate::decl::{Data as WrittenData, Defs, Name, Read, ReadCx, Table};
use crate::diag::{Diagnostic, suggest};
use crate::prompt::Data;
use crate::record;
use crate::source::Node;

use super::context::{Context, Failure};
use super::lower::{AgentRef, LowerCx, Needs};
use super::shared::{lower_table, render_table};
use super::{ActionKind, Body, Written};

/// The kind `agent`.
pub(super) struct Agent;

impl ActionKind for Agent {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn summary(&self) -> &'static str {
        "Runs another agent as a sub-process; its result becomes the output"
    }

    fn example(&self) -> &'static str {
        "agent: storyteller"
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        AgentDecl::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        AgentDecl::read(node, cx).map(|agent| Arc::new(agent) as Arc<dyn Written>)
    }
}

record! {
    /// Another agent as a sub-process.
    pub(super) struct AgentDecl = "a sub-agent" [short: name] {
        /// The agent's name.
        req name: Name,
        /// Its inputs by name or type; without it they come from the blackboard.
        opt with: Table<WrittenData>,
    }
}

impl Written for AgentDecl {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        let agent = cx.agent(&self.name)?;
        let with = match &self.with {
            Some(with) => {
                refuse_unknown_inputs(with, &agent, cx);
                Some(lower_table(with, cx, &[])?)
            }
            None => None,
        };
        Some(Arc::new(AgentBody { agent: agent.name, with }))
    }
}

fn refuse_unknown_inputs(with: &Table<WrittenData>, agent: &AgentRef, cx: &mut dyn LowerCx) {
    if agent.inputs.is_empty() {
        return;
    }
    let known = |name: &str| agent.inputs.iter().any(|(input, of, _)| input == name || of == name);
    for (name, _) in with.iter().filter(|(name, _)| !known(&name.value)) {
        let names: Vec<&str> = agent.inputs.iter().map(|(input, _, _)| input.as_str()).collect();
        let message = format!("the agent `{}` has no input `{}`", agent.name, name.value);
        let diagnostic = Diagnostic::error("unknown-input", name.span, message);
        let near = suggest::nearest(&name.value, names.iter().copied());
        cx.report(match near.first() {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
            None => diagnostic.help(format!("its inputs are {}", crate::decl::read::listed(&names))),
        });
    }
    // A misspelt name is told once, not also as one that is missing.
    let all_known = with.names().all(known);
    for (input, of, _) in agent.inputs.iter().filter(|(_, _, required)| *required && all_known) {
        if with.get(input).is_none() && with.get(of).is_none() {
            let message = format!("the agent `{}` needs the input `{input}` (`{of}`)", agent.name);
            let place = with.entries.first().map(|(name, _)| name.span);
            cx.report(Diagnostic::error("missing-argument", place, message).help(format!("add `{input}: …`")));
        }
    }
}

#[derive(Debug)]
struct AgentBody {
    agent: String,
    with: Option<Vec<(String, Data)>>,
}

#[async_trait::async_trait]
impl Body for AgentBody {
    fn kind(&self) -> &'static str {
        "agent"
    }

    fn needs(&self) -> Needs {
        Needs { agents: vec![self.agent.clone()], ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let inputs = match &self.with {
            Some(with) => Some(render_table(cx, with)?),
            None => None,
        };
        cx.run_agent(&self.agent, inputs).await
    }
}
