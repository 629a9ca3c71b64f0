//! Snapshots in insta's own format: a header between two lines `---`, then the text. A text that differs is left beside it as
//! `.snap.new`, which `agent-run test --review` and `cargo insta review` accept or reject.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::source::{FileId, Source, read};

/// A snapshot as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// The test file that it belongs to, relative to the root.
    pub source: String,
    /// What it shows.
    pub description: String,
    /// The action's name.
    pub expression: String,
    /// The text.
    pub text: String,
}

/// Why a snapshot cannot be used. The file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It is empty.
    #[error("the file is empty; it was cut off")]
    Empty,
    /// It does not begin with a header.
    #[error("the first line is not `---`; a snapshot begins with a header")]
    NoHeader,
    /// The header has no end.
    #[error("the header has no second line `---`; the file was cut off")]
    OpenHeader,
    /// The header cannot be read.
    #[error("line {line} of the header cannot be read: {message}")]
    BadHeader {
        /// Line of the file, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// Git left both sides of a conflict in it.
    #[error("line {line} is a conflict marker of git; both sides are in the file")]
    Conflict {
        /// Line of the file, from 1.
        line: usize,
    },
    /// The system refused.
    #[error("{0}")]
    Io(String),
}

impl SnapshotFile {
    /// Reads the text of a snapshot file.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn parse(text: &str) -> Result<SnapshotFile, SnapshotError> {
        if text.trim().is_empty() {
            return Err(SnapshotError::Empty);
        }
        let conflict = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
        if let Some(at) = text.lines().position(conflict) {
            return Err(SnapshotError::Conflict { line: at + 1 });
        }
        let mut lines = text.lines();
        if lines.next().map(str::trim_end) != Some("---") {
            return Err(SnapshotError::NoHeader);
        }
        let header: Vec<&str> = lines.by_ref().take_while(|line| line.trim_end() != "---").collect();
        let ended = text.lines().skip(1).any(|line| line.trim_end() == "---");
        if !ended {
            return Err(SnapshotError::OpenHeader);
        }
        let source = Source::new("header.yaml", format!("{}\n", header.join("\n")));
        let (node, errors) = read(FileId(0), &source);
        if let Some(error) = errors.first() {
            let line = source.line_column(error.span.start).0 + 1;
            return Err(SnapshotError::BadHeader { line, message: error.message.clone() });
        }
        let header = node.map(|node| node.to_json()).unwrap_or_default();
        let of = |key: &str| header[key].as_str().unwrap_or_default().to_owned();
        let body: Vec<&str> = lines.collect();
        Ok(SnapshotFile {
            source: of("source"),
            description: of("description"),
            expression: of("expression"),
            text: normal(&body.join("\n")),
        })
    }

    /// Reads a file; `None` when there is none.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(path: &Path) -> Result<Option<SnapshotFile>, SnapshotError> {
        match std::fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SnapshotError::Io(error.to_string())),
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => SnapshotFile::parse(&text).map(Some),
                Err(_) => Err(SnapshotError::Io("the file is not UTF-8 text".to_owned())),
            },
        }
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        format!(
            "---\nsource: {}\ndescription: {}\nexpression: {}\n---\n{}\n",
            quoted(&self.source),
            quoted(&self.description),
            quoted(&self.expression),
            normal(&self.text)
        )
    }

    /// Writes the file as a whole or not at all.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let dir = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir)?;
        let beside = path.with_extension(format!("tmp{}", std::process::id()));
        let mut file = std::fs::File::create(&beside)?;
        let written = file.write_all(self.to_text().as_bytes()).and_then(|()| file.sync_data());
        drop(file);
        match written.and_then(|()| std::fs::rename(&beside, path)) {
            Ok(()) => Ok(()),
            Err(error) => {
                let _ = std::fs::remove_file(&beside);
                Err(error)
            }
        }
    }
}

/// Texts are compared without white space at the end, as insta does.
fn normal(text: &str) -> String {
    text.replace("\r\n", "\n").trim_end().to_owned()
}

/// Whether two texts are the same to a snapshot.
pub(super) fn same(a: &str, b: &str) -> bool {
    normal(a) == normal(b)
}

/// A snapshot that waits for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The snapshot's file, `….snap`.
    pub path: PathBuf,
    /// What it holds; `None`: it is new.
    pub old: Option<SnapshotFile>,
    /// What it would hold.
    pub new: SnapshotFile,
}

impl Pending {
    /// Where the new text lies.
    pub fn new_path(&self) -> PathBuf {
        pending_path(&self.path)
    }

    /// Takes the new text over.
    ///
    /// # Errors
    /// When the system refuses; nothing is lost then.
    pub fn accept(&self) -> std::io::Result<()> {
        self.new.write(&self.path)?;
        self.reject()
    }

    /// Throws the new text away.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn reject(&self) -> std::io::Result<()> {
        remove(&self.new_path())
    }
}

/// `….snap.new`.
pub(super) fn pending_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// Removes a file that may not be there.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A name as a part of a file's name.
pub(super) fn file_part(name: &str) -> String {
    let part = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '.' | '_') { c } else { '_' };
    name.chars().map(part).collect()
}

/// The directory of a test file's snapshots, relative to the root, and how their names begin.
pub(super) fn place(test_file: &str) -> (PathBuf, String) {
    let path = Path::new(test_file);
    let dir = path.parent().unwrap_or(Path::new("")).join("snapshots");
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = if path.extension().is_some_and(|end| end == "toml") { format!("{stem}_toml") } else { stem };
    (dir, file_part(&stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> SnapshotFile {
        SnapshotFile {
            source: "tests/a.yaml".into(),
            description: "one: \"two\"".into(),
            expression: "find".into(),
            text: text.into(),
        }
    }

    #[test]
    fn what_is_written_is_read_back_by_us_and_by_insta() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("snapshots/a__one__find.snap");
        let written = snapshot("first\n---\n\nlast: {a: 1}");
        written.write(&path).expect("written");
        assert_eq!(SnapshotFile::read(&path), Ok(Some(written.clone())));
        let insta = insta::Snapshot::from_file(&path).expect("insta reads it");
        assert_eq!(insta.as_text().expect("text").to_string(), written.text);
        assert_eq!(insta.metadata().source(), Some("tests/a.yaml"));
        assert_eq!(insta.metadata().expression(), Some("find"));
        assert_eq!(insta.metadata().description(), Some("one: \"two\""));
        assert_eq!(std::fs::read_dir(dir.path().join("snapshots")).expect("listed").count(), 1, "nothing is left over");
    }

    #[test]
    fn broken_files_are_told_with_their_line() {
        let parse = |text: &str| SnapshotFile::parse(text).expect_err("broken");
        assert_eq!(parse(" \n"), SnapshotError::Empty);
        assert_eq!(parse("hello"), SnapshotError::NoHeader);
        assert_eq!(parse("---\nsource: a\n"), SnapshotError::OpenHeader);
        assert_eq!(parse("---\nsource: a\n---\na\n<<<<<<< HEAD\nb\n"), SnapshotError::Conflict { line: 5 });
        assert!(matches!(parse("---\nsource: [a\n---\nb"), SnapshotError::BadHeader { line: 2, .. }));
    }
}
