//! Source text, places in it, and the one tree that YAML and TOML files are read into.
//!
//! Reading never fails and never panics: [`read`] gives a tree with everything that could be understood and a list
//! of [`SyntaxError`]s. What was left out is a [`NodeKind::Hole`], which later readers skip without a word, so that
//! nothing is reported that only follows from an earlier error.

mod explain;
mod file;
mod limit;
mod mask;
mod node;
mod place;
mod read;
mod scalar;
mod span;
mod text;
mod toml;
pub mod traps;
mod yaml;

pub use file::{Source, Sources};
pub use limit::{DEPTH_MAX, ERRORS_MAX, FILE_BYTES_MAX, NODES_MAX};
pub use node::{Entry, Map, Node, NodeKind};
pub use read::{SyntaxError, read};
pub use span::{FileId, Span, Spanned};
pub use text::{Segment, Style, Text};

#[cfg(test)]
mod tests;
