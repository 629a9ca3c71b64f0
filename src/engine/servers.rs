//! The MCP servers of an engine: each is started when it is first needed, shared by all processes, started again when
//! it has ended, and killed with the engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::action::context::ServerCall;
use crate::action::{Failure, FailureKind, lasting};
use crate::program::Program;
use crate::tool::mcp::{CallError, Client, Progress, START_TIMEOUT, ServerConfig, ServerTools};

/// The pause before a server that failed once is started again; it doubles with each failure in a row.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The servers of an engine.
pub(super) struct Servers {
    program: Arc<Program>,
    root: PathBuf,
    slots: IndexMap<String, Arc<Mutex<Slot>>>,
}

/// One server.
#[derive(Default)]
struct Slot {
    client: Option<Arc<Client>>,
    /// Failures in a row: since the last call that was answered.
    failures: u32,
    /// The last of them: when, and in which words.
    last: Option<(Instant, String)>,
}

impl Slot {
    fn fail(&mut self, why: &str) {
        self.client = None;
        self.failures = self.failures.saturating_add(1);
        self.last = Some((Instant::now(), why.to_owned()));
    }
}

fn tool_failure(message: String) -> Failure {
    Failure::new(FailureKind::Tool, message)
}

impl Servers {
    /// The servers of a program; none is started. `root` is the directory of the project.
    pub(super) fn new(program: Arc<Program>, root: PathBuf) -> Servers {
        let slots = program.mcp_servers.keys().map(|name| (name.clone(), Arc::default())).collect();
        Servers { program, root, slots }
    }

    /// The servers of the program that takes the place of this one's: those with the same declaration run on.
    pub(super) fn under(&self, program: Arc<Program>) -> Servers {
        let slot = |name: &String, config: &ServerConfig| {
            let same = self.program.mcp_servers.get(name).is_some_and(|before| before == config);
            self.slots.get(name).filter(|_| same).cloned().unwrap_or_default()
        };
        let slots = program.mcp_servers.iter().map(|(name, config)| (name.clone(), slot(name, config))).collect();
        Servers { root: self.root.clone(), program, slots }
    }

    fn server(&self, name: &str) -> Result<(&ServerConfig, &Arc<Mutex<Slot>>), Failure> {
        let config = self.program.mcp_servers.get(name);
        let Some((config, slot)) = config.zip(self.slots.get(name)) else {
            let names = self.program.mcp_servers.keys().map(String::as_str);
            let help = crate::diag::suggest::near_or_all(name, names, "the servers");
            return Err(tool_failure(format!("there is no MCP server `{name}`; {help}")));
        };
        let mut missing = self.program.missing_env.iter();
        match missing.find(|missing| missing.section == "mcp_servers" && missing.name == name) {
            Some(missing) => Err(tool_failure(format!(
                "the MCP server `{name}` needs the environment variable `{}`, which is not set ({})",
                missing.variable, missing.place
            ))),
            None => Ok((config, slot)),
        }
    }

    /// The running server; started when it does not run.
    async fn client(&self, name: &str, within: Option<Duration>) -> Result<Arc<Client>, Failure> {
        let (config, slot) = self.server(name)?;
        // Held while the server starts: whoever else needs it waits for the same start.
        let mut slot = slot.lock().await;
        if let Some(client) = &slot.client {
            if !client.is_gone() {
                return Ok(client.clone());
            }
            slot.client = None;
        }
        if let Some((at, why)) = &slot.last
            && slot.failures > 0
        {
            if slot.failures > config.restarts {
                let times = slot.failures;
                return Err(tool_failure(format!("the MCP server `{name}` failed {times} times in a row: {why}")));
            }
            let pause = PAUSE.saturating_mul(1 << (slot.failures - 1).min(10)).min(PAUSE_MAX);
            tokio::time::sleep_until(*at + pause).await;
        }
        // A little less than the call has, so that the server's last words are heard before the call's time is over.
        let limit = within.map_or(START_TIMEOUT, |within| START_TIMEOUT.min(within.mul_f64(0.9)));
        match Client::start(name, config, &self.root, limit).await {
            Ok(client) => {
                let client = Arc::new(client);
                slot.client = Some(client.clone());
                Ok(client)
            }
            Err(why) => {
                slot.fail(&why);
                let endpoint = config.endpoint();
                Err(tool_failure(format!("the MCP server `{name}` cannot be started (`{endpoint}`): {why}")))
            }
        }
    }

    /// Takes note that a call of this client was answered, or that its server is gone.
    async fn note(&self, name: &str, client: &Arc<Client>, gone: Option<&str>) {
        let Some(slot) = self.slots.get(name) else { return };
        let mut slot = slot.lock().await;
        match gone {
            None => slot.failures = 0,
            // Several calls may find the same server gone; that is one failure.
            Some(why) if slot.client.as_ref().is_some_and(|current| Arc::ptr_eq(current, client)) => slot.fail(why),
            Some(_) => {}
        }
    }

    /// The tools of a server, as it offers them now.
    pub(super) async fn tools(&self, name: &str) -> Result<Arc<ServerTools>, Failure> {
        let mut again = true;
        loop {
            let client = self.client(name, None).await?;
            let why = match client.tools().await {
                Ok(tools) => return Ok(tools),
                Err(CallError::Refused(why)) => return Err(tool_failure(format!("the MCP server `{name}`: {why}"))),
                Err(CallError::Gone(why)) => why,
            };
            self.note(name, &client, Some(&why)).await;
            if !again {
                return Err(tool_failure(format!("the MCP server `{name}` ended before it listed its tools: {why}")));
            }
            again = false;
        }
    }

    /// Calls a tool of a server. A server that has ended is started again; a call that it took along is repeated once,
    /// when that is safe.
    pub(super) async fn call(
        &self,
        call: &ServerCall,
        on_progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<serde_json::Value, Failure> {
        let name = &call.server;
        let limit = self.server(name)?.0.timeout;
        let mut again = call.idempotent;
        loop {
            let client = self.client(name, call.within).await?;
            let answer = client.call(&call.tool, call.arguments.clone(), on_progress);
            let answer = match limit {
                None => answer.await,
                Some(limit) => match tokio::time::timeout(limit, answer).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        let (tool, limit) = (&call.tool, lasting(limit));
                        let message = format!("the MCP server `{name}` did not answer `{tool}` within {limit}");
                        return Err(Failure::new(FailureKind::Timeout, message));
                    }
                },
            };
            let why = match answer {
                Ok(value) => {
                    self.note(name, &client, None).await;
                    return Ok(value);
                }
                Err(CallError::Refused(why)) => {
                    self.note(name, &client, None).await;
                    return Err(tool_failure(format!("`{}` of the MCP server `{name}`: {why}", call.tool)));
                }
                Err(CallError::Gone(why)) => why,
            };
            self.note(name, &client, Some(&why)).await;
            if !again {
                let tool = &call.tool;
                return Err(tool_failure(format!("the MCP server `{name}` ended before it answered `{tool}`: {why}")));
            }
            again = false;
        }
    }

    /// Asks every server to end, and waits a moment for it.
    pub(super) async fn close(&self) {
        let mut closing = Vec::new();
        for slot in self.slots.values() {
            if let Some(client) = slot.lock().await.client.take().and_then(Arc::into_inner) {
                closing.push(client.close());
            }
        }
        futures::future::join_all(closing).await;
    }
}
