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
    "syntax": "the file is not YAML",
    "too-large": "the file is larger than 4 MiB",
}

/// The diagnostic of a name.
pub fn find(name: &str) -> Option<&'static Code> {
    CODES.iter().find(|code| code.name == name)
}

/// The page of a diagnostic, in Markdown: what and why, an example, the cure.
pub fn explain(name: &str) -> Option<&'static str> {
    find(name).map(|code| code.page)
}
