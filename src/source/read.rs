//! Reading a file by its extension, and the errors that reading gives.

use super::{FILE_BYTES_MAX, FileId, Node, Source, Span, toml, yaml};

/// Something in a file that is not YAML or TOML as the language wants it. It becomes a diagnostic as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Its name in the table of diagnostics.
    pub code: &'static str,
    /// What is wrong: one line, lower case, without a final period.
    pub message: String,
    /// Where.
    pub span: Span,
    /// What cures it, each one line.
    pub help: Vec<String>,
    /// Other places that matter, such as the first of two equal keys.
    pub related: Vec<(Span, String)>,
    /// A correction that is certainly right: the place and its new text.
    pub fix: Option<(Span, String)>,
}

impl SyntaxError {
    /// An error at a place.
    pub fn new(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), span, help: Vec::new(), related: Vec::new(), fix: None }
    }

    /// Adds a cure.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Adds another place.
    pub fn related(mut self, span: Span, message: impl Into<String>) -> Self {
        self.related.push((span, message.into()));
        self
    }

    /// Adds a correction that is certainly right.
    pub fn fix(mut self, span: Span, replacement: impl Into<String>) -> Self {
        self.fix = Some((span, replacement.into()));
        self
    }
}

/// Reads a file as its extension says: `.toml` as TOML, everything else as YAML. The tree holds all that could be
/// understood; it is `None` only when nothing could. An empty file is an empty mapping.
pub fn read(id: FileId, source: &Source) -> (Option<Node>, Vec<SyntaxError>) {
    if source.text().len() > FILE_BYTES_MAX {
        let message =
            format!("the file has {} bytes, more than the {FILE_BYTES_MAX} that are read", source.text().len());
        let error =
            SyntaxError::new("too-large", Span::empty(id, 0), message).help("split the file and `import` the parts");
        return (None, vec![error]);
    }
    match source.extension().as_str() {
        "toml" => toml::read(id, source),
        _ => yaml::read(id, source),
    }
}
