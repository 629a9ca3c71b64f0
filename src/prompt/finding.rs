//! What the static check reports, in offsets of the checked text; the caller maps them to the file.

use super::scope::Ty;
use crate::diag::Severity;
use indexmap::IndexSet;
use std::ops::Range;

/// A place in a checked text or in a file that it includes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// `None`: the checked text itself; else the name of the file under `prompts/`.
    pub file: Option<String>,
    /// Byte offsets in that text.
    pub range: Range<usize>,
}

/// One thing that is wrong in a template or expr.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The diagnostic's name, such as `unknown-field`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// What is wrong, in one line.
    pub message: String,
    /// Cures, most likely first.
    pub help: Vec<String>,
    /// Other places that matter, such as the `include` that led here.
    pub related: Vec<(Place, String)>,
    /// What certainly belongs at `place` instead.
    pub fix: Option<String>,
}

/// What a check found out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// What is wrong, in the order of the text.
    pub findings: Vec<Finding>,
    /// The static type of an expr, or of a template that is exactly one `{{ … }}`; `None` for text.
    pub ty: Option<Ty>,
    /// Root variables that must have a value for this to work.
    pub mentions: IndexSet<String>,
    /// Root variables that are looked at only where a guard (`is defined`, `default`, `has`) allows them to be absent.
    pub guarded: IndexSet<String>,
    /// Types that are mentioned: by a variable of a default name, or in `last("T")`, `all`, `count`, `has`.
    pub types: IndexSet<String>,
    /// Those of `types` of which an object must be there: mentioned without a guard, and not only in `has`, `count` or
    /// `all`.
    pub needs: IndexSet<String>,
    /// Conditions that are mentioned by name.
    pub conditions: IndexSet<String>,
    /// Actions named in `ran("…")`.
    pub ran: IndexSet<String>,
    /// Files under `prompts/` that are included, extended or imported, directly or not.
    pub files: IndexSet<String>,
    /// Whether other files under `prompts/` would be drawn in if they were there: names are computed, or may be missing.
    pub looks_around: bool,
}

impl Checked {
    /// True when nothing is an error.
    pub fn is_ok(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }
}
