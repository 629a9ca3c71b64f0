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
    /// The ids of each path, in the order in which it was added; those of tables before this one too.
    ids: Arc<BTreeMap<String, Vec<FileId>>>,
    /// The files of the table before this one.
    before: Arc<[Arc<Source>]>,
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

    /// An empty table that gives each path the id which it has in this one, so that spans of both are the same.
    pub fn next(&self) -> Self {
        let nowhere = Arc::<Source>::default();
        Self {
            files: vec![nowhere.clone(); self.files.len()],
            by_path: BTreeMap::new(),
            nowhere,
            ids: self.ids.clone(),
            before: self.files.clone().into(),
        }
    }

    /// Adds a file. A path that is there already keeps its old id for old spans and is found under the new one.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<Arc<str>>) -> FileId {
        let (path, text) = (path.into(), text.into());
        let ids = self.ids.get(&path).map(Vec::as_slice).unwrap_or_default();
        let added =
            self.by_path.get(&path).and_then(|last| ids.iter().position(|id| id == last)).map_or(0, |at| at + 1);
        let id = match ids.get(added) {
            Some(id) => *id,
            None => {
                let id = FileId(self.files.len() as u32);
                Arc::make_mut(&mut self.ids).entry(path.clone()).or_default().push(id);
                self.files.push(self.nowhere.clone());
                id
            }
        };
        let at = id.0 as usize;
        let known = self.before.get(at).filter(|known| Arc::ptr_eq(&known.text, &text) && known.path == path);
        let source = known.cloned().unwrap_or_else(|| Arc::new(Source::new(path.clone(), text)));
        self.by_path.insert(path, id);
        if let Some(slot) = self.files.get_mut(at) {
            *slot = source;
        }
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
        let there = self.files.iter().enumerate().filter(|(_, source)| !Arc::ptr_eq(source, &self.nowhere));
        there.map(|(at, source)| (FileId(at as u32), source.as_ref()))
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

    #[test]
    fn the_next_table_gives_the_same_ids() {
        let mut sources = Sources::new();
        let text: Arc<str> = "a".into();
        let [a, b, again] = [("a", text.clone()), ("b", "b".into()), ("a", "x".into())].map(|(p, t)| sources.add(p, t));
        let mut next = sources.next();
        let c = next.add("c", "c");
        assert_eq!(next.iter().map(|(id, _)| id).collect::<Vec<_>>(), [c]);
        assert_eq!([next.add("a", text.clone()), next.add("a", "y"), next.add("a", "z")].map(|id| id == c), [false; 3]);
        assert_eq!((next.get(a).text(), next.get(again).text(), next.get(b).text()), ("a", "y", ""));
        assert!(std::ptr::eq(sources.get(a), next.get(a)));
        assert_eq!(next.find("b"), None);
        assert_eq!(next.next().add("c", ""), c);
    }
}
