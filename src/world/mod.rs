//! The one seam to files, environment, clock and randomness.
//!
//! Everything that compiles or runs takes a [`World`]: [`SystemWorld`] is the real one, [`MemoryWorld`] serves tests.
//! Paths are relative to the world's root, the project; a path that leaves the root is refused, through symbolic
//! links too (runtime.md 7). Nothing is cached here: who reads twice may see two states.

mod memory;
mod system;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

pub use memory::MemoryWorld;
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
    fn normal_paths_stay_inside() {
        assert_eq!(normal(Path::new("a/./b/../c.yaml")), Some(PathBuf::from("a/c.yaml")));
        assert_eq!(normal(Path::new("a/../../c.yaml")), None);
        assert_eq!(normal(Path::new("/etc/passwd")), None);
        assert_eq!(FIXED_NOW.to_string(), "2025-01-01T00:00:00Z");
    }
}
