//! The template files under `prompts/`, by name, each parsed once.

use super::ast::{self, Stmt};
use super::syntax::SyntaxFault;
use indexmap::IndexMap;
use std::sync::{Arc, OnceLock};

/// A template file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) source: String,
    parsed: OnceLock<Result<Vec<Stmt>, SyntaxFault>>,
}

impl File {
    /// Its syntax tree, or what is wrong with it.
    pub(super) fn parsed(&self) -> Result<&[Stmt], &SyntaxFault> {
        self.parsed.get_or_init(|| ast::parse_template(&self.source)).as_deref()
    }
}

/// The template files that includes, extends and imports may name: paths below `prompts/`, with `/`, with `.jinja`.
#[derive(Clone, Debug, Default)]
pub struct Files {
    files: IndexMap<String, Arc<File>>,
}

impl Files {
    /// No files.
    pub fn new() -> Files {
        Files::default()
    }

    /// Adds a file; one of that name that is already there is replaced.
    pub fn insert(&mut self, name: &str, source: &str) {
        let file = File { source: source.to_owned(), parsed: OnceLock::new() };
        self.files.insert(name.to_owned(), Arc::new(file));
    }

    /// The text of a file.
    pub fn source(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(|file| file.source.as_str())
    }

    /// All names, in the order they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<File>> {
        self.files.get(name)
    }

    /// The files that a computed name may come to, given what it surely begins and ends with.
    pub(super) fn matching<'a>(&'a self, prefix: &'a str, suffix: &'a str) -> impl Iterator<Item = &'a str> {
        let fits = move |name: &&str| {
            name.len() >= prefix.len() + suffix.len() && name.starts_with(prefix) && name.ends_with(suffix)
        };
        self.names().filter(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_names_are_matched_by_what_is_literal() {
        let mut files = Files::new();
        for name in ["a/x.jinja", "a/y.jinja", "b/x.jinja", "a.jinja"] {
            files.insert(name, "");
        }
        assert_eq!(files.matching("a/", ".jinja").collect::<Vec<_>>(), ["a/x.jinja", "a/y.jinja"]);
        assert_eq!(files.matching("", "/x.jinja").count(), 2);
        assert_eq!(files.matching("a/x.jinj", "x.jinja").count(), 0);
    }
}
