//! Diagnostics: what is wrong in a file, where, and what cures it.
//!
//! One structure serves every surface; [`render`] turns it into text for people, one-liners and JSON. The names of
//! all diagnostics are a table in [`codes`], each with a page that `agent-run explain` prints.

pub mod codes;
pub mod diff;
pub mod fix;
pub mod render;
pub mod suggest;

use crate::source::{Sources, Span, SyntaxError};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing can run until it is cured.
    Error,
    /// Probably a mistake; it does not stop a run.
    Warning,
}

impl Severity {
    /// `error` or `warning`, as JSON and messages spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// Another place that matters, such as the first of two declarations of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Where.
    pub span: Span,
    /// Why it matters, one line.
    pub message: String,
}

/// A correction that is certainly right: `check --fix` applies it without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What is replaced; empty to insert.
    pub span: Span,
    /// The new text.
    pub replacement: String,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its name in the table of [`codes`].
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong: one line, lower-case start, names in backticks, no final period.
    pub message: String,
    /// Where; `None` only for what has no place, such as a missing file that was named on the command line.
    pub span: Option<Span>,
    /// A few words that stand beside the carets.
    pub label: Option<String>,
    /// Cures, most likely first, one line each.
    pub help: Vec<String>,
    /// Other places that matter.
    pub related: Vec<Related>,
    /// A correction that is certainly right.
    pub fix: Option<Fix>,
}

impl Diagnostic {
    /// An error; `span` is a [`Span`] or an `Option<Span>`.
    pub fn error(code: &'static str, span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, span.into(), message.into())
    }

    /// A warning; `span` is a [`Span`] or an `Option<Span>`.
    pub fn warning(code: &'static str, span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, span.into(), message.into())
    }

    fn new(severity: Severity, code: &'static str, span: Option<Span>, message: String) -> Self {
        Self { code, severity, message, span, label: None, help: Vec::new(), related: Vec::new(), fix: None }
    }

    /// Sets the words beside the carets.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds a cure; an `Option<String>` such as a did-you-mean is taken as it is.
    pub fn help(mut self, help: impl IntoHelp) -> Self {
        self.help.extend(help.into_help());
        self
    }

    /// Adds another place.
    pub fn related(mut self, span: Span, message: impl Into<String>) -> Self {
        self.related.push(Related { span, message: message.into() });
        self
    }

    /// Sets a correction that is certainly right.
    pub fn fix(mut self, span: Span, replacement: impl Into<String>) -> Self {
        self.fix = Some(Fix { span, replacement: replacement.into() });
        self
    }
}

/// What [`Diagnostic::help`] takes: a line, or perhaps a line.
pub trait IntoHelp {
    /// The line, when there is one.
    fn into_help(self) -> Option<String>;
}

impl IntoHelp for &str {
    fn into_help(self) -> Option<String> {
        Some(self.to_owned())
    }
}

impl IntoHelp for String {
    fn into_help(self) -> Option<String> {
        Some(self)
    }
}

impl IntoHelp for Option<String> {
    fn into_help(self) -> Option<String> {
        self
    }
}

impl From<SyntaxError> for Diagnostic {
    fn from(error: SyntaxError) -> Self {
        let mut diagnostic = Diagnostic::error(error.code, error.span, error.message);
        diagnostic.help = error.help;
        diagnostic.related = error.related.into_iter().map(|(span, message)| Related { span, message }).collect();
        diagnostic.fix = error.fix.map(|(span, replacement)| Fix { span, replacement });
        diagnostic
    }
}

/// Everything that was found wrong, in the order in which it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Nothing wrong so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: impl Into<Diagnostic>) {
        self.items.push(diagnostic.into());
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.items.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// How many errors there are.
    pub fn error_count(&self) -> usize {
        self.items.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count()
    }

    /// How many warnings there are.
    pub fn warning_count(&self) -> usize {
        self.items.len() - self.error_count()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All of them, in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }

    /// Makes errors of all warnings (`check --strict`).
    pub fn make_strict(&mut self) {
        self.items.iter_mut().for_each(|diagnostic| diagnostic.severity = Severity::Error);
    }

    /// All of them by file (by path), position and code, each once; those without a place come first.
    pub fn sorted(mut self, sources: &Sources) -> Vec<Diagnostic> {
        let place =
            |diagnostic: &Diagnostic| diagnostic.span.map(|span| (sources.get(span.file).path(), span.start, span.end));
        self.items.sort_by(|a, b| (place(a), a.severity, a.code).cmp(&(place(b), b.severity, b.code)));
        let mut kept: Vec<Diagnostic> = Vec::with_capacity(self.items.len());
        for diagnostic in self.items {
            let same = |other: &&Diagnostic| place(other) == place(&diagnostic) && other.code == diagnostic.code;
            if !kept.iter().rev().take_while(same).any(|other| other.message == diagnostic.message) {
                kept.push(diagnostic);
            }
        }
        kept
    }
}

impl<D: Into<Diagnostic>> Extend<D> for Diagnostics {
    fn extend<I: IntoIterator<Item = D>>(&mut self, items: I) {
        self.items.extend(items.into_iter().map(Into::into));
    }
}

impl<D: Into<Diagnostic>> FromIterator<D> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = D>>(items: I) -> Self {
        Self { items: items.into_iter().map(Into::into).collect() }
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_is_by_path_and_place_and_drops_repeats() {
        let mut sources = Sources::new();
        let b = sources.add("b.yaml", "x: 1\ny: 2\n");
        let a = sources.add("a.yaml", "x: 1\n");
        let error = |file, at| Diagnostic::error("syntax", Span::new(file, at, at + 1), "wrong");
        let found: Diagnostics = [error(b, 5), error(b, 0), error(a, 0), error(b, 5)].into_iter().collect();
        let places: Vec<_> = found.sorted(&sources).iter().filter_map(|d| d.span).map(|s| (s.file, s.start)).collect();
        assert_eq!(places, [(a, 0), (b, 0), (b, 5)]);
    }

    #[test]
    fn warnings_are_errors_when_strict() {
        let mut found = Diagnostics::new();
        found.push(Diagnostic::warning("syntax", None, "odd").help(None).help("so"));
        assert!(!found.has_errors());
        found.make_strict();
        assert_eq!((found.error_count(), found.warning_count()), (1, 0));
    }
}
