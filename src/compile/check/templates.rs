//! Template files: those that nothing draws in are still checked for their syntax.

use indexmap::IndexSet;

use crate::diag::{Diagnostic, Diagnostics};
use crate::source::Span;

use super::super::agent::Shared;

/// Warns of files under `prompts/` that nothing uses, and reports those that are no templates.
pub(crate) fn unused(shared: &Shared<'_>, used: &IndexSet<String>, findings: &mut Diagnostics) {
    for (name, file) in shared.file_ids {
        if used.contains(name) {
            continue;
        }
        let source = shared.files.source(name).unwrap_or_default();
        if let Err(fault) = crate::prompt::ast::parse_template(source) {
            let span = Span::new(*file, fault.range.start as u32, fault.range.end as u32);
            findings.push(Diagnostic::error(fault.code, span, fault.message));
        }
    }
}
