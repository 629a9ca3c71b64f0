//! The body of a tool that an MCP server has.

use serde_json::Value;

use crate::action::context::ServerCall;
use crate::action::{Body, Context, Failure, Needs};

/// Calls a tool of an MCP server with the arguments of the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBody {
    /// The server, of `mcp_servers`.
    pub server: String,
    /// The tool, as the server calls it.
    pub tool: String,
    /// Whether a call may be repeated when the server ended before it answered.
    pub idempotent: bool,
}

impl ServerBody {
    /// What calling a tool of a server needs (runtime.md 8).
    pub fn permission(server: &str) -> String {
        format!("mcp:{server}")
    }
}

#[async_trait::async_trait]
impl Body for ServerBody {
    fn kind(&self) -> &'static str {
        "mcp"
    }

    fn needs(&self) -> Needs {
        let permissions = vec![ServerBody::permission(&self.server)];
        Needs { permissions, endpoints: vec![format!("{} of {}", self.tool, self.server)], ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        cx.permit(&ServerBody::permission(&self.server), &self.tool)?;
        let arguments = cx.arguments().cloned().unwrap_or_default();
        if cx.dry_run() {
            return Ok(Value::from(format!(
                "--dry-run: {} of {} with {}",
                self.tool,
                self.server,
                Value::Object(arguments)
            )));
        }
        let call = ServerCall {
            server: self.server.clone(),
            tool: self.tool.clone(),
            arguments,
            idempotent: self.idempotent,
            within: cx.time_left(),
        };
        cx.call_server(call).await
    }
}
