//! The document of `run --json` (cli.md 2).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything about one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Its id.
    pub process: String,
    /// The agent.
    pub agent: String,
    /// Its status.
    pub status: Status,
    /// The goal that was reached.
    pub goal: Option<String>,
    /// The result.
    pub output: Option<Typed>,
    /// What was done, in order.
    pub history: Vec<HistoryEntry>,
    /// The first plan, and each replan that differs from the rest of the one before it.
    pub plans: Vec<Vec<String>>,
    /// The visible objects, oldest first.
    pub blackboard: Vec<BoardEntry>,
    /// What was used.
    pub usage: UsageTotals,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// Why it did not get to a goal.
    pub failure: Option<FailureNote>,
}

/// The status of a process (runtime.md 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Created, nothing done yet.
    NotStarted,
    /// At work.
    Running,
    /// A goal holds.
    Completed,
    /// An action failed for good and no other way was left.
    Failed,
    /// A limit was reached.
    Terminated,
    /// Someone ended it.
    Killed,
    /// No plan leads to a goal.
    Stuck,
    /// It waits for a person.
    Waiting,
    /// Someone paused it.
    Paused,
}

impl Status {
    /// The word of cli.md 2.
    pub fn word(self) -> &'static str {
        match self {
            Status::NotStarted => "not_started",
            Status::Running => "running",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Terminated => "terminated",
            Status::Killed => "killed",
            Status::Stuck => "stuck",
            Status::Waiting => "waiting",
            Status::Paused => "paused",
        }
    }
}

/// How an action ended, in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It gave its output.
    Succeeded,
    /// It failed for good.
    Failed,
    /// It failed, and `on_error` gave the output.
    Recovered,
    /// Nothing came.
    Empty,
    /// It was not run.
    Skipped,
    /// It waits for a person.
    Waiting,
}

impl Ending {
    /// The word of cli.md 2.
    pub fn word(self) -> &'static str {
        match self {
            Ending::Succeeded => "succeeded",
            Ending::Failed => "failed",
            Ending::Recovered => "recovered",
            Ending::Empty => "empty",
            Ending::Skipped => "skipped",
            Ending::Waiting => "waiting",
        }
    }
}

/// A value with its type's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Typed {
    /// The type's name; `list<T>` for a list.
    pub r#type: String,
    /// The value.
    pub value: Value,
}

/// One action that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The action.
    pub action: String,
    /// How it ended.
    pub status: Ending,
    /// Tries.
    pub attempts: u32,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// Calls to models, in order.
    pub llm: Vec<LlmNote>,
    /// Calls to tools, in order.
    pub tools: Vec<ToolNote>,
}

/// One call to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LlmNote {
    /// `provider/id`.
    pub model: String,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// US dollars; 0 where the price is not known.
    pub cost_usd: f64,
}

/// One call to a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolNote {
    /// The tool.
    pub name: String,
    /// `ok` or `error`.
    pub status: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// One visible object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardEntry {
    /// Its type.
    pub r#type: String,
    /// The name it is bound under.
    pub name: Option<String>,
    /// Its value.
    pub value: Value,
}

/// What a process used, its sub-processes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// Calls to models.
    pub llm_calls: u64,
    /// Calls to tools.
    pub tool_calls: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// US dollars.
    pub cost_usd: f64,
}

/// What a process waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The JSON Schema of the answer.
    pub form: Value,
    /// What the person is asked.
    pub prompt: String,
    /// The action that asks.
    pub action: String,
}

/// Why a process did not get to a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureNote {
    /// The action that failed, when one did.
    pub action: Option<String>,
    /// A kind of cli.md 2.
    pub kind: String,
    /// What went wrong.
    pub message: String,
}
