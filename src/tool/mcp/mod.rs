//! MCP servers of other programs as sources of tools: over standard input and output of a child process, or over
//! streamable HTTP. Spoken with the protocol's own SDK; `engine` keeps the servers of a run.

mod body;
mod client;
mod config;
mod convert;
mod http;
mod stdio;

pub use body::ServerBody;
pub use client::{CallError, Client, Progress, START_TIMEOUT};
pub use config::{RESTARTS, Reach, ServerConfig};
pub use convert::{LeftOut, ServerTools};

/// The longest message that is read from a server (runtime.md 7).
pub const RESULT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The code of an error that stands for an answer that could not be read.
const UNREADABLE: i32 = -32_099;
