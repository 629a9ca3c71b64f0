//! The real world: a directory, the process's environment, the system's clock, ULIDs.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{ReadError, World, normal};
use crate::source::{DEPTH_MAX, FILE_BYTES_MAX};

/// A directory of this machine, with its environment and clock.
#[derive(Debug)]
pub struct SystemWorld {
    root: PathBuf,
    fixed: Option<jiff::Timestamp>,
    ids: AtomicU64,
}

impl SystemWorld {
    /// The world whose root is `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), fixed: None, ids: AtomicU64::new(0) }
    }

    /// The same world with its clock standing at `now` and ids counted `P1, P2, …` (scripted runs, cli.md).
    pub fn with_fixed_clock(mut self, now: jiff::Timestamp) -> Self {
        self.fixed = Some(now);
        self
    }

    /// Where a path leads, symbolic links followed.
    fn resolve(&self, path: &Path) -> Result<PathBuf, ReadError> {
        let inside = normal(path).ok_or(ReadError::Escapes)?;
        let root = fs::canonicalize(&self.root).map_err(read_error)?;
        let found = fs::canonicalize(root.join(inside)).map_err(read_error)?;
        if found.starts_with(&root) { Ok(found) } else { Err(ReadError::Escapes) }
    }

    fn list_into(&self, dir: &Path, depth: usize, out: &mut Vec<PathBuf>) {
        let Ok(found) = self.resolve(dir) else { return };
        let Ok(entries) = fs::read_dir(found) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with('.') {
                continue;
            }
            let path = dir.join(&name);
            let Ok(target) = self.resolve(&path) else { continue };
            let linked = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if target.is_file() {
                out.push(path);
            } else if target.is_dir() && !linked && depth < DEPTH_MAX {
                self.list_into(&path, depth + 1, out);
            }
        }
    }
}

fn read_error(error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReadError::NotFound,
        _ => ReadError::Io(error.to_string()),
    }
}

impl World for SystemWorld {
    fn read_bytes(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        let found = self.resolve(path)?;
        let size = fs::metadata(&found).map_err(read_error)?;
        if !size.is_file() {
            return Err(ReadError::Io("it is not a file".to_owned()));
        }
        if size.len() > FILE_BYTES_MAX as u64 {
            return Err(ReadError::TooLarge { bytes: size.len() });
        }
        let mut bytes = Vec::with_capacity(size.len() as usize);
        // The file may grow while it is read, so the limit holds for what is read as well.
        let file = fs::File::open(&found).map_err(read_error)?;
        file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(read_error)?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(ReadError::TooLarge { bytes: bytes.len() as u64 });
        }
        Ok(bytes)
    }

    fn list(&self, dir: &Path) -> Vec<PathBuf> {
        let mut out = Vec::new();
        if let Some(dir) = normal(dir) {
            self.list_into(&dir, 0, &mut out);
        }
        out.sort();
        out
    }

    fn exists(&self, path: &Path) -> bool {
        self.resolve(path).is_ok()
    }

    fn root(&self) -> Option<&Path> {
        Some(&self.root)
    }

    fn env(&self, name: &str) -> Option<String> {
        // The standard library panics on such names.
        if name.is_empty() || name.contains(['=', '\0']) {
            return None;
        }
        std::env::var(name).ok()
    }

    fn now(&self) -> jiff::Timestamp {
        self.fixed.unwrap_or_else(jiff::Timestamp::now)
    }

    fn new_id(&self) -> String {
        match self.fixed {
            Some(_) => format!("P{}", self.ids.fetch_add(1, Ordering::Relaxed) + 1),
            None => ulid::Ulid::generate().to_string(),
        }
    }
}
