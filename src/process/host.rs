//! What a process needs of the program around it. `engine` implements it.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use indexmap::IndexMap;
use serde_json::Value;

use crate::action::context::{Question, ServerCall};
use crate::action::{Failure, FailureKind};
use crate::llm::{Catalog, Cooldowns, Llm, Options};
use crate::program::Agent;
use crate::tool::mcp::Progress;
use crate::tool::mcp::ServerTools;
use crate::world::World;

use super::event::Event;
use super::index::AgentIndex;
use super::journal::Journal;

/// The program around a process.
pub trait Host: Send + Sync {
    /// The provider of this name.
    ///
    /// # Errors
    /// Says why there is none.
    fn provider(&self, name: &str) -> Result<Arc<dyn Llm>, String>;

    /// Another agent of the program, with its tables.
    fn agent(&self, name: &str) -> Option<(Arc<Agent>, Arc<AgentIndex>)>;

    /// The program that has taken the place of this one, as far as a process of `agent` needs it; `None` while this one
    /// is the newest. `is_top`: what the run sets on the command line counts for the process.
    fn newer(&self, _agent: &str, _run: &RunSettings, _is_top: bool) -> Option<Result<Newer, Refused>> {
        None
    }

    /// Prices and abilities of models.
    fn catalog(&self) -> &Catalog;

    /// Whether there is something to reach this provider with, such as a key.
    fn can_ask(&self, provider: &str) -> bool;

    /// Models that failed a moment ago.
    fn cooldowns(&self) -> &Cooldowns;

    /// Files, clock and ids.
    fn world(&self) -> &dyn World;

    /// The tools of an MCP server of the project file, as it offers them now; the server is started when it has to be.
    /// Their names are the server's own.
    ///
    /// # Errors
    /// A failure of kind `tool` that names the server.
    fn mcp_tools<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Arc<ServerTools>, Failure>> {
        let message = format!("there is no MCP server `{server}`");
        Box::pin(async move { Err(Failure::new(FailureKind::Tool, message)) })
    }

    /// Calls a tool of an MCP server of the project file; the server is started when it has to be. `on_progress` hears
    /// how far the call has come. Dropped before it ends, the server is told to stop.
    ///
    /// # Errors
    /// A failure that names the server: its own complaint, or why it cannot be called.
    fn call_server<'a>(
        &'a self,
        call: &'a ServerCall,
        _on_progress: &'a (dyn Fn(Progress) + Send + Sync),
    ) -> BoxFuture<'a, Result<Value, Failure>> {
        let message = format!("there is no MCP server `{}`", call.server);
        Box::pin(async move { Err(Failure::new(FailureKind::Tool, message)) })
    }

    /// An id for a process that was never given before.
    ///
    /// # Errors
    /// A failure of kind `store` when ids are numbers of a store that cannot be used.
    fn new_id(&self) -> Result<String, Failure> {
        Ok(self.world().new_id())
    }

    /// Refuses unless `permission` is granted for `subject` (runtime.md 8), which the body of a tool of these names needs,
    /// or of an action; may ask a person.
    ///
    /// # Errors
    /// A failure of kind `permission`.
    fn permit(&self, permission: &str, subject: &str, tools: &[&str], run: &RunSettings) -> Result<(), Failure>;

    /// Refuses a tool that the project denies by one of its names, of which the first is told; asks a person where the
    /// project wants that, if `asks`.
    ///
    /// # Errors
    /// A failure of kind `permission`.
    fn permit_tool(&self, tools: &[&str], asks: bool, run: &RunSettings) -> Result<(), Failure>;

    /// Whether `permission` is granted for `subject` without asking anyone.
    fn is_allowed(&self, permission: &str, subject: &str) -> bool;

    /// Whether this is the first time that `key` is to be told of.
    fn is_first(&self, key: &str) -> bool;

    /// Asks a person who can answer now: at a terminal, or a script of answers. `None`: there is no one, and the process
    /// waits. The answer need not fit the question's form; that is looked at afterwards.
    fn answer<'a>(&'a self, question: &'a Question, run: &'a RunSettings) -> BoxFuture<'a, Option<Value>>;
}

/// A program that has taken the place of another, for a process of one agent.
pub struct Newer {
    /// The program around the process.
    pub host: Arc<dyn Host>,
    /// The agent as it is now.
    pub agent: Arc<Agent>,
    /// Its tables.
    pub index: Arc<AgentIndex>,
    /// Which program it is: programs of an engine are counted.
    pub number: u64,
}

/// Why a process does not go on with what the files say now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Which refusal it is; a process tells of each once.
    pub number: u64,
    /// The reasons, one line each.
    pub reasons: Vec<String>,
}

/// Stands in for the outside: results that are given instead of being got (test files, cli.md 5).
pub trait Stubs: Send + Sync {
    /// The result of a tool with validated arguments; `None`: the tool is really called.
    fn tool(&self, name: &str, arguments: &Value) -> Option<Result<Value, Failure>>;

    /// The output of an action; `None`: its body is really performed.
    fn action(&self, name: &str) -> Option<Result<Value, Failure>>;

    /// What a person answers; `None`: no one does, and the process waits.
    fn answer(&self, question: &Question) -> Option<Value>;
}

/// Puts something between a process and its models, such as a recorder.
pub type WrapLlm = Arc<dyn Fn(Arc<dyn Llm>) -> Arc<dyn Llm> + Send + Sync>;

/// Hears of everything that happens.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// What a run sets for its process and all sub-processes.
#[derive(Clone, Default)]
pub struct RunSettings {
    /// What would write, send or execute shows its arguments and returns a stub.
    pub dry_run: bool,
    /// Confirmations are given.
    pub yes: bool,
    /// Answers for all models, as under `--script`.
    pub script: Option<Arc<dyn Llm>>,
    /// Stands around every model that is asked.
    pub wrap_llm: Option<WrapLlm>,
    /// Settings of every call to a model that go before those of the action.
    pub llm_options: Option<Options>,
    /// Stands in for tools and actions.
    pub stubs: Option<Arc<dyn Stubs>>,
    /// Models by role (`--llm ROLE=MODEL`).
    pub models: IndexMap<String, String>,
    /// Replies come in pieces, as events.
    pub stream: bool,
    /// The system message says which day it is; left out in tests.
    pub date_line: bool,
    /// Hears of everything that happens.
    pub observer: Option<Observer>,
    /// Keeps the journals of the process and its sub-processes.
    pub journal: Option<Arc<dyn Journal>>,
    /// What the program around the process needs to resume it, in its own words; kept with the process.
    pub kept: Value,
    /// Entries of `config` that the run has changed.
    pub config: IndexMap<String, Value>,
    /// What a process does when its program changes, where its agent does not say; `Pin` unless a surface says otherwise.
    pub reload: ReloadPolicy,
}

/// What a process does when its program changes (runtime.md 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReloadPolicy {
    /// It takes the new program at its next planning step.
    Adopt,
    /// It keeps the one that it started with.
    #[default]
    Pin,
}

impl fmt::Debug for RunSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunSettings")
            .field("dry_run", &self.dry_run)
            .field("yes", &self.yes)
            .field("script", &self.script.is_some())
            .field("stubs", &self.stubs.is_some())
            .field("models", &self.models)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}
