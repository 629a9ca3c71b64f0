//! Hand-offs: another agent as a tool, its inputs the parameters (language.md 8).

use std::sync::Arc;

use serde_json::Value;

use crate::action::context::{Context, Failure};
use crate::action::lower::AgentRef;
use crate::action::{Body, Needs};
use crate::value::{ObjectDef, Open, RawSchema};

use super::Tool;

/// How long a hand-off may take: an agent has limits of its own.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60 * 60);

/// The tool that an agent is.
pub fn tool(agent: &AgentRef) -> Tool {
    let description = match agent.description.is_empty() {
        true => format!("Hands over to the agent `{}`", agent.name),
        false => agent.description.clone(),
    };
    let parameters = ObjectDef { open: Open::Any, ..ObjectDef::default() };
    let body: Arc<dyn Body> = Arc::new(HandOff { agent: agent.name.clone() });
    Tool {
        schema: RawSchema::new(agent.input_schema.clone()).map(Arc::new).ok(),
        timeout: TIMEOUT,
        ..Tool::new(agent.name.clone(), description, parameters, Some(body))
    }
}

/// Runs the agent as a sub-process; the arguments are its inputs.
#[derive(Debug)]
struct HandOff {
    agent: String,
}

#[async_trait::async_trait]
impl Body for HandOff {
    fn kind(&self) -> &'static str {
        "agent"
    }

    fn needs(&self) -> Needs {
        Needs { agents: vec![self.agent.clone()], ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        cx.run_agent(&self.agent, cx.arguments().cloned()).await
    }
}
