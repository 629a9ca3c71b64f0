//! One line a diagnostic, for editors and logs: `path:line:column: severity[code]: message`.

use std::fmt::Write;

use super::super::Diagnostic;
use crate::source::Sources;

/// One line for each diagnostic, each ended by a line break. The first help follows in brackets.
pub fn short(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        if let Some(span) = diagnostic.span {
            let source = sources.get(span.file);
            let (line, column) = source.line_column(span.start);
            let _ = write!(out, "{}:{line}:{column}: ", source.path());
        }
        let _ = write!(out, "{}[{}]: {}", diagnostic.severity.as_str(), diagnostic.code, diagnostic.message);
        if let Some(help) = diagnostic.help.first() {
            let _ = write!(out, " ({help})");
        }
        out.push('\n');
    }
    out
}
