//! The static type check of templates and exprs against declared types (language.md 2).

use super::files::Files;
use super::finding::Checked;
use super::scope::Scope;
use crate::value::Types;

/// Checks a template and the files it draws in.
pub fn check_template(files: &Files, types: &Types, scope: &Scope, text: &str) -> Checked {
    let _ = (files, types, scope, text);
    Checked::default()
}

/// Checks a bare expr.
pub fn check_expr(types: &Types, scope: &Scope, text: &str) -> Checked {
    let _ = (types, scope, text);
    Checked::default()
}
