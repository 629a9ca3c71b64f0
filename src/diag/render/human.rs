//! Diagnostics for people: the source line, carets, other places, cures.

use super::super::Diagnostic;
use crate::source::Sources;

/// How diagnostics are shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to color (ANSI).
    pub color: bool,
    /// The terminal's width in columns.
    pub width: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { color: false, width: 120 }
    }
}

/// All diagnostics for a terminal, each followed by an empty line.
pub fn human(diagnostics: &[Diagnostic], sources: &Sources, options: Options) -> String {
    let _ = options;
    super::short(diagnostics, sources)
}
