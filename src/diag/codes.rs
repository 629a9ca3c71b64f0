//! The names of all diagnostics. Each has a page `codes/<name>.md`: what and why, an example that gives it, the cure.
//!
//! To add one: one line here in alphabetical order, and its page beside the others.

/// A diagnostic that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its name, such as `duplicate-key`.
    pub name: &'static str,
    /// What it says, in one line.
    pub summary: &'static str,
    /// Its page, in Markdown.
    pub page: &'static str,
}

macro_rules! codes {
    ($($name:literal: $summary:literal,)*) => {
        /// All diagnostics, alphabetically.
        pub const CODES: &[Code] = &[
            $(Code { name: $name, summary: $summary, page: include_str!(concat!("codes/", $name, ".md")) },)*
        ];
    };
}

codes! {
    "alias-bomb": "aliases make the file expand past a million values",
    "bad-indentation": "a line begins in a column that does not fit",
    "colon-in-text": "`: ` within a text without quotes",
    "comma-in-text": "a comma within brackets splits a text in two",
    "comment-in-text": "` #` within a text without quotes begins a comment",
    "duplicate-key": "a mapping has a key twice",
    "escape-in-quotes": "a backslash in double quotes that is no escape",
    "file-not-found": "a file that is named is not there",
    "list-brackets": "`Person[]` where the language has `list<Person>`",
    "merge-key": "a YAML merge key (`<<`)",
    "missing-colon": "a line without `: ` where a key is expected",
    "missing-space": "a `:` without a space after it",
    "non-finite-number": "infinity or not-a-number",
    "non-string-key": "a key that YAML does not read as a string",
    "not-utf8": "a file that is not UTF-8 text",
    "path-escapes": "a path that leads out of the project",
    "quotes-in-quotes": "quotes within quotes of the same kind",
    "several-documents": "more than one YAML document in a file",
    "syntax": "something that is not YAML",
    "tab-indentation": "tabs as indentation",
    "text-after-quotes": "a text that goes on after its quotes",
    "too-deep": "lists and mappings nested deeper than 64",
    "too-large": "a file of more than 4 MiB",
    "too-many-nodes": "a file with more than a million values",
    "toml-key": "a TOML key that needs quotes",
    "toml-syntax": "something that is not TOML",
    "unclosed-bracket": "a `[` or `{` that is not closed",
    "unclosed-quotes": "a quote that is not closed",
    "unknown-alias": "a YAML alias without its anchor",
    "unquoted-start": "a text that starts with a character of YAML's own",
    "unquoted-template": "a template without quotes",
    "unreadable-file": "a file that the system does not let us read",
    "yaml-tag": "a YAML tag (`!x`)",
}

/// The diagnostic of a name.
pub fn find(name: &str) -> Option<&'static Code> {
    CODES.iter().find(|code| code.name == name)
}

/// The page of a diagnostic, in Markdown: what and why, an example, the cure.
pub fn explain(name: &str) -> Option<&'static str> {
    find(name).map(|code| code.page)
}
