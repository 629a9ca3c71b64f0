//! Where the journals of processes are kept (runtime.md 5).
//!
//! A [`Store`] keeps lines of text by process, and one row about each process; what the lines mean is `process`'s
//! business. [`SqliteStore`] is a file, `PostgresStore` (feature `postgres`) tables of a server, [`MemoryStore`] forgets
//! with the program. Everything is asynchronous, appends are batches. `tests/durability/stores.rs` says what all of them
//! must hold.

mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod schema;
mod sqlite;
mod writer;

use futures::future::BoxFuture;
use serde_json::Value;

pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// `event` or `record`.
    pub kind: &'static str,
    /// JSON without line breaks.
    pub body: String,
}

/// What is known of a process without its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its id.
    pub process: String,
    /// The process it belongs to.
    pub parent: Option<String>,
    /// The agent.
    pub agent: String,
    /// What was asked to be run: a file relative to the project, or an agent.
    pub target: String,
    /// A status of cli.md 2.
    pub status: String,
    /// The goal, once it is known.
    pub goal: Option<String>,
    /// US dollars so far, sub-processes included.
    pub cost_usd: f64,
    /// When it was created, RFC 3339.
    pub started_at: String,
    /// When something happened last, RFC 3339.
    pub updated_at: String,
    /// What it has used, for whoever rebuilds it, as JSON.
    pub used: String,
    /// Lines in its journal.
    pub lines: u64,
}

impl Row {
    /// Whether nothing more happens in the process.
    pub fn has_ended(&self) -> bool {
        ENDED.contains(&self.status.as_str())
    }
}

/// Statuses of processes in which nothing more happens.
const ENDED: [&str; 5] = ["completed", "failed", "terminated", "killed", "stuck"];

/// The same as a list of SQL.
fn ended_in_sql() -> String {
    format!("('{}')", ENDED.join("', '"))
}

/// Replies that come between two looks for those that are too many.
const REPLIES_PER_LOOK: i64 = 16;

/// An object that a context keeps from one process to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Its type's name.
    pub type_name: String,
    /// The name it is bound under.
    pub name: Option<String>,
    /// Its value.
    pub value: Value,
}

/// Lines that are kept together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// What is known of the process from then on. A process that is not there yet is made; `lines` is how many there
    /// were before: a batch that does not follow what is there is refused.
    pub row: Row,
    /// The lines.
    pub lines: Vec<Line>,
    /// What a context holds from then on: its id and all its objects.
    pub context: Option<(String, Vec<Kept>)>,
}

/// How many replies of models are kept. A store may hold a few more for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// So many.
    pub count: u64,
    /// Of so many bytes together.
    pub bytes: u64,
}

/// Why a store did not do what was asked. Nothing that it had kept before is lost.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be opened, read or written.
    #[error("{0}")]
    Failed(String),
    /// There is no such process.
    #[error("there is no process `{0}` in the store")]
    Unknown(String),
    /// Another program runs the process.
    #[error("the process {0} is being run by another program")]
    Held(String),
}

/// Keeps journals.
pub trait Store: Send + Sync {
    /// Takes a batch at once, in order; the future says when it is durable. It need not be waited for.
    fn append(&self, batch: Batch) -> BoxFuture<'static, Result<(), StoreError>>;

    /// The lines of a kind of a process's journal, oldest first.
    fn lines<'a>(&'a self, process: &'a str, kind: &'static str) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// What is known of a process.
    fn row<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Option<Row>, StoreError>>;

    /// Processes that belong to no other, the newest last.
    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, StoreError>>;

    /// Processes that belong to a process.
    fn children<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// Takes the lease of a process: this program alone may append to it. The lease of a program that is gone is taken
    /// over. A process that this program makes is its own from the first batch.
    fn claim<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Gives the lease of a process back.
    fn release<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Asks the program that runs a process to end it.
    fn ask_to_end<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Calls `end` when another program asks for the end of a process of this one.
    fn on_asked_to_end(&self, process: &str, end: Box<dyn Fn() + Send + Sync>);

    /// The next free number for ids such as `P1`; it is taken.
    fn next_number(&self) -> Result<u64, StoreError>;

    /// The objects of a context, oldest first; none for one that is not known.
    fn context<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<Kept>, StoreError>>;

    /// The reply of a model that was kept under a key, unless it was kept before `since` (RFC 3339).
    fn reply<'a>(&'a self, key: &'a str, since: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>>;

    /// Keeps a reply of a model under a key, in place of one that is there; `at` is the time, RFC 3339. The oldest
    /// replies are forgotten when there are more than `limits` say.
    fn keep_reply<'a>(
        &'a self,
        key: &'a str,
        body: String,
        at: &'a str,
        limits: ReplyLimits,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Forgets the oldest processes that have ended, with those that belong to them, until at most `keep` are left that
    /// have ended.
    fn prune(&self, keep: u64) -> BoxFuture<'_, Result<(), StoreError>>;
}
