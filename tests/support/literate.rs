//! Literate cases: Markdown files in which a heading opens a case, and fenced blocks are its files and expectations.
//!
//! A block is a *file* when the line before it is a name in backticks and a colon (`` `workflow.yaml`: ``), or when it is
//! the first YAML or TOML block without one (then it is `workflow.yaml` or `workflow.toml`). Every other block is an
//! *expectation* named by the words after the fence, such as `plan` or `prompt writeup`. A line `word: text` outside
//! blocks, with a word of [`NOTES`], is a *note*.

use std::path::Path;

/// Words that open a note.
const NOTES: &[&str] = &["first", "found", "ends", "run", "known"];

/// One case.
#[derive(Debug, Default, Clone)]
pub(crate) struct Case {
    /// The heading.
    pub(crate) name: String,
    /// The line of the heading, from 1.
    pub(crate) line: usize,
    /// Its files: path and block.
    pub(crate) files: Vec<(String, Block)>,
    /// What is expected: the words after the fence and the block.
    pub(crate) expected: Vec<(String, Block)>,
    /// Its notes: word and text.
    pub(crate) notes: Vec<(String, String)>,
}

/// A fenced block.
#[derive(Debug, Default, Clone)]
pub(crate) struct Block {
    /// Its text, with a line break at its end.
    pub(crate) text: String,
    /// The line in the Markdown file of the block's first line, from 1.
    pub(crate) line: usize,
}

impl Case {
    /// The text of a note.
    pub(crate) fn note(&self, word: &str) -> Option<&str> {
        self.notes.iter().find(|(name, _)| name == word).map(|(_, text)| text.as_str())
    }
}

/// The cases of a Markdown file. Headings without a block are prose.
pub(crate) fn cases(path: &Path) -> Vec<Case> {
    let text = super::text(path);
    let mut cases: Vec<Case> = Vec::new();
    let mut before = "";
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(name) = line.strip_prefix('#') {
            let name = name.trim_start_matches('#').trim().to_owned();
            cases.push(Case { name, line: index + 1, ..Case::default() });
        } else if let Some(info) = line.strip_prefix("```") {
            let mut block = Block { line: index + 2, ..Block::default() };
            for (_, line) in lines.by_ref().take_while(|(_, line)| *line != "```") {
                block.text.push_str(line);
                block.text.push('\n');
            }
            let case = cases.last_mut().unwrap_or_else(|| panic!("{}: a block before any heading", path.display()));
            let named = before.strip_prefix('`').and_then(|name| name.strip_suffix("`:"));
            match (named, info) {
                (Some(name), _) => case.files.push((name.to_owned(), block)),
                (None, "yaml" | "toml") if case.files.is_empty() => {
                    case.files.push((format!("workflow.{info}"), block));
                }
                (None, _) => case.expected.push((info.to_owned(), block)),
            }
        } else if let Some((word, rest)) = line.split_once(": ")
            && NOTES.contains(&word)
            && let Some(case) = cases.last_mut()
        {
            case.notes.push((word.to_owned(), rest.trim().to_owned()));
        }
        if !line.is_empty() {
            before = line;
        }
    }
    cases.retain(|case| !case.files.is_empty() || !case.expected.is_empty());
    cases
}
