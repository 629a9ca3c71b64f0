//! `version`: the program's version.

use serde_json::json;

use super::{Exit, Fault, Out};

/// Prints the version.
pub(super) fn version(out: &Out) -> Result<Exit, Fault> {
    let version = env!("CARGO_PKG_VERSION");
    if out.json {
        out.document(&json!({"name": "agent-run", "version": version}));
    } else {
        out.line(format!("agent-run {version}"));
    }
    Ok(Exit::Done)
}
