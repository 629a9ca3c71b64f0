//! The text of a file with its line index, and the table of all files of a compilation.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{FileId, Span};

/// One file: its path, its text exactly as it was read (a byte order mark included), and where its lines begin.
#[derive(Clone, Debug)]
pub struct Source {
    path: String,
    text: Arc<str>,
    line_starts: Vec<u32>,
}

impl Source {
    /// A file at `path` (relative to the project root, separated by `/`) that holds `text`.
    pub fn new(path: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at as u32 + 1);
        let line_starts = std::iter::once(0).chain(breaks).collect();
        Self { path: path.into(), text, line_starts }
    }

    /// The path relative to the project root, separated by `/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The whole text, shared.
    pub fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// The text that `span` covers; empty when the span does not fit this file.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// The file's extension in lower case, without the dot; empty when there is none.
    pub fn extension(&self) -> String {
        let name = self.path.rsplit('/').next().unwrap_or("");
        name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default()
    }

    /// How many lines the file has; an empty file has one.
    pub fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    /// Line and column of a byte offset, both from 1, the column in characters. An offset past the end is the end.
    pub fn line_column(&self, offset: u32) -> (usize, usize) {
        let offset = offset.min(self.text.len() as u32);
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_start(line) as usize;
        let before = self.text.as_bytes().get(start..offset as usize).unwrap_or_default();
        // Characters are counted by their first bytes, so an offset inside a character cannot panic.
        (line, 1 + before.iter().filter(|byte| (**byte & 0xC0) != 0x80).count())
    }

    /// The byte offset where line `line` (from 1) begins, after a byte order mark; the end for lines past the last.
    pub fn line_start(&self, line: usize) -> u32 {
        match self.line_starts.get(line.saturating_sub(1)) {
            Some(0) => self.content_start(),
            Some(start) => *start,
            None => self.text.len() as u32,
        }
    }

    /// The text of line `line` (from 1) without its line break; empty for lines past the last.
    pub fn line_text(&self, line: usize) -> &str {
        let start = self.line_start(line) as usize;
        let end = self.line_starts.get(line).map_or(self.text.len(), |next| *next as usize);
        let text = self.text.get(start..end).unwrap_or("");
        text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text))
    }

    /// Where the content begins: 3 after a byte order mark, else 0.
    pub fn content_start(&self) -> u32 {
        if self.text.starts_with('\u{feff}') { 3 } else { 0 }
    }
}

/// All files that a compilation has read. Cloning is cheap: the files themselves are shared.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<Arc<Source>>,
    by_path: BTreeMap<String, FileId>,
    nowhere: Arc<Source>,
}

impl Default for Source {
    fn default() -> Self {
        Self::new("", "")
    }
}

impl Sources {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file. A path that is there already keeps its old id for old spans and is found under the new one.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<Arc<str>>) -> FileId {
        let source = Source::new(path, text);
        let id = FileId(self.files.len() as u32);
        self.by_path.insert(source.path.clone(), id);
        self.files.push(Arc::new(source));
        id
    }

    /// The file of an id; an empty file without a path for an id of another table.
    pub fn get(&self, id: FileId) -> &Source {
        self.files.get(id.0 as usize).unwrap_or(&self.nowhere)
    }

    /// The newest file at `path`.
    pub fn find(&self, path: &str) -> Option<FileId> {
        self.by_path.get(path).copied()
    }

    /// All files in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &Source)> {
        self.files.iter().enumerate().map(|(at, source)| (FileId(at as u32), source.as_ref()))
    }

    /// The text that a span covers.
    pub fn slice(&self, span: Span) -> &str {
        self.get(span.file).slice(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_skip_the_byte_order_mark() {
        let source = Source::new("a.yaml", "\u{feff}é: x\r\nb: ü\n");
        assert_eq!(source.line_column(source.text().find(':').unwrap() as u32), (1, 2));
        assert_eq!(source.line_column(source.text().find('ü').unwrap() as u32), (2, 4));
        assert_eq!(source.line_column(9999), (3, 1));
        assert_eq!(source.line_text(1), "é: x");
        assert_eq!(source.line_text(2), "b: ü");
        assert_eq!(source.line_text(7), "");
    }

    #[test]
    fn a_file_added_twice_is_found_under_its_new_id() {
        let mut sources = Sources::new();
        let old = sources.add("a.yaml", "x");
        let new = sources.add("a.yaml", "y");
        assert_eq!(sources.find("a.yaml"), Some(new));
        assert_eq!(sources.get(old).text(), "x");
        assert_eq!(sources.get(FileId(99)).path(), "");
    }
}
