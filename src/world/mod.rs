//! The one seam to files, environment, clock and randomness.
//!
//! Everything that compiles or runs takes a [`World`]: [`SystemWorld`] is the real one, [`MemoryWorld`] serves tests.
//! Paths are relative to the world's root, the project; a path that leaves the root is refused, through symbolic
//! links too (runtime.md 7). Nothing is cached here: who reads twice may see two states.

mod memory;
mod snapshot;
mod system;
pub mod watch;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::diag::Diagnostic;
use crate::source::Span;

pub use memory::MemoryWorld;
pub use snapshot::Snapshot;
pub use system::SystemWorld;

/// The moment at which the clock of tests and scripted runs stands: 2025-01-01T00:00:00Z.
pub const FIXED_NOW: jiff::Timestamp = jiff::Timestamp::constant(1_735_689_600, 0);

/// Why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no such file.
    #[error("there is no such file")]
    NotFound,
    /// The file is larger than what is read.
    #[error("the file has {bytes} bytes, more than the 4 MiB that are read")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The file is not UTF-8 text.
    #[error("the file is not UTF-8 text: byte {offset} is wrong")]
    NotUtf8 {
        /// The first byte that is wrong.
        offset: usize,
    },
    /// The path leads out of the root.
    #[error("the path leads out of the project")]
    Escapes,
    /// The system refused.
    #[error("{0}")]
    Io(String),
}

impl ReadError {
    /// The diagnostic of a file that was not read: `path` as it was written, `span` where it is named.
    pub fn diagnostic(&self, path: &str, span: impl Into<Option<Span>>) -> Diagnostic {
        let (code, help) = match self {
            ReadError::NotFound => ("file-not-found", "correct the path, or create the file"),
            ReadError::TooLarge { .. } => ("too-large", "split the file and `import` the parts"),
            ReadError::NotUtf8 { .. } => ("not-utf8", "save the file as UTF-8"),
            ReadError::Escapes => ("path-escapes", "paths stay within the project, symbolic links included"),
            ReadError::Io(_) => ("unreadable-file", "correct the path, or the file's permissions"),
        };
        Diagnostic::error(code, span, format!("`{path}` cannot be read: {self}")).help(help)
    }
}

/// What the system says of a file: when it differs, the file may; when it is the same, the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Device and number of the file: a file that replaced another has others.
    pub file: (u64, u64),
    /// Its size in bytes.
    pub size: u64,
    /// When it was written, and when anything of it was changed, in nanoseconds.
    pub times: (i128, i128),
}

/// Files, environment, clock and ids. All paths are relative to the root.
pub trait World: Send + Sync {
    /// The text of a file of at most 4 MiB.
    fn read(&self, path: &Path) -> Result<Arc<str>, ReadError> {
        let bytes = self.read_bytes(path)?;
        String::from_utf8(bytes)
            .map(Arc::from)
            .map_err(|error| ReadError::NotUtf8 { offset: error.utf8_error().valid_up_to() })
    }

    /// The bytes of a file of at most 4 MiB.
    fn read_bytes(&self, path: &Path) -> Result<Vec<u8>, ReadError>;

    /// All files under a directory, at every depth, sorted, relative to the root; empty when there is no such
    /// directory. Hidden names (`.git`) are left out.
    fn list(&self, dir: &Path) -> Vec<PathBuf>;

    /// Whether there is a file or directory.
    fn exists(&self, path: &Path) -> bool;

    /// What tells two states of a file apart without reading it; `None` when only reading it does.
    fn stamp(&self, _path: &Path) -> Option<Stamp> {
        None
    }

    /// Whether everything that was asked about a path before this state of the world would be answered in the same way;
    /// it counts as asked again then. `false` where nothing is remembered.
    fn is_as_before(&self, _path: &Path) -> bool {
        false
    }

    /// Where the root is on this machine; `None` for a world that is not on disk. For programs that are run there.
    fn root(&self) -> Option<&Path> {
        None
    }

    /// An environment variable.
    fn env(&self, name: &str) -> Option<String>;

    /// The time.
    fn now(&self) -> jiff::Timestamp;

    /// An id that was never given before.
    fn new_id(&self) -> String;

    /// Whether ids are numbers in order (`P1`, `P2`), as under a fixed clock; a store then counts them.
    fn numbers_ids(&self) -> bool {
        false
    }
}

/// A path relative to the root without `.` and `..`; `None` when it leads out of the root or is absolute.
pub fn normal(path: &Path) -> Option<PathBuf> {
    use std::path::Component;
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_error_has_its_code() {
        let all = [
            ReadError::NotFound,
            ReadError::TooLarge { bytes: 5 },
            ReadError::NotUtf8 { offset: 1 },
            ReadError::Escapes,
            ReadError::Io("no".to_owned()),
        ];
        let codes: Vec<_> = all.iter().map(|error| error.diagnostic("a.yaml", None).code).collect();
        assert_eq!(codes, ["file-not-found", "too-large", "not-utf8", "path-escapes", "unreadable-file"]);
    }

    #[test]
    fn normal_paths_stay_inside() {
        assert_eq!(normal(Path::new("a/./b/../c.yaml")), Some(PathBuf::from("a/c.yaml")));
        assert_eq!(normal(Path::new("a/../../c.yaml")), None);
        assert_eq!(normal(Path::new("/etc/passwd")), None);
        assert_eq!(FIXED_NOW.to_string(), "2025-01-01T00:00:00Z");
    }
}
