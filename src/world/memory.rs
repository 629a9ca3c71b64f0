//! A world in memory, for tests: files as a map, a fixed clock, ids `P1, P2, …`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{FIXED_NOW, ReadError, World, normal};
use crate::source::FILE_BYTES_MAX;

/// A world in memory.
#[derive(Debug)]
pub struct MemoryWorld {
    files: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    env: BTreeMap<String, String>,
    now: jiff::Timestamp,
    ids: AtomicU64,
}

impl Default for MemoryWorld {
    fn default() -> Self {
        Self { files: Mutex::default(), env: BTreeMap::new(), now: FIXED_NOW, ids: AtomicU64::new(0) }
    }
}

impl MemoryWorld {
    /// A world without files whose clock stands at [`FIXED_NOW`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A world with these files.
    pub fn with_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut world = Self::new();
        for (path, text) in files {
            world.write(path, text);
        }
        world
    }

    /// Puts a file there.
    pub fn write(&mut self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) {
        self.save(path, content);
    }

    /// Takes a file away.
    pub fn remove(&mut self, path: impl AsRef<Path>) {
        self.delete(path);
    }

    /// Puts a file there while others look on, as an editor does.
    pub fn save(&self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) {
        let path = path.as_ref();
        self.files().insert(normal(path).unwrap_or_else(|| path.to_owned()), content.into());
    }

    /// Takes a file away while others look on.
    pub fn delete(&self, path: impl AsRef<Path>) {
        self.files().remove(path.as_ref());
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Vec<u8>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets an environment variable.
    pub fn set_env(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.env.insert(name.into(), value.into());
    }

    /// Sets the clock.
    pub fn set_now(&mut self, now: jiff::Timestamp) {
        self.now = now;
    }
}

impl World for MemoryWorld {
    fn read_bytes(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        let path = normal(path).ok_or(ReadError::Escapes)?;
        let files = self.files();
        let bytes = files.get(&path).ok_or(ReadError::NotFound)?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(ReadError::TooLarge { bytes: bytes.len() as u64 });
        }
        Ok(bytes.clone())
    }

    fn list(&self, dir: &Path) -> Vec<PathBuf> {
        let Some(dir) = normal(dir) else { return Vec::new() };
        let hidden = |path: &Path| {
            let inside = path.strip_prefix(&dir).unwrap_or(path);
            inside.iter().any(|name| name.to_string_lossy().starts_with('.'))
        };
        self.files().keys().filter(|path| path.starts_with(&dir) && !hidden(path)).cloned().collect()
    }

    fn exists(&self, path: &Path) -> bool {
        normal(path).is_some_and(|path| self.files().keys().any(|file| file.starts_with(&path)))
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn now(&self) -> jiff::Timestamp {
        self.now
    }

    fn new_id(&self) -> String {
        format!("P{}", self.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_ids_and_clock_are_what_tests_need() {
        let world = MemoryWorld::with_files([("workflows/b.yaml", "x"), ("workflows/a.yaml", "y"), ("c.yaml", "z")]);
        assert_eq!(world.list(Path::new("workflows")), [PathBuf::from("workflows/a.yaml"), "workflows/b.yaml".into()]);
        assert_eq!(world.read(Path::new("workflows/../c.yaml")).as_deref(), Ok("z"));
        assert_eq!(world.read(Path::new("../c.yaml")), Err(ReadError::Escapes));
        assert_eq!(world.read(Path::new("d.yaml")), Err(ReadError::NotFound));
        assert!(world.exists(Path::new("workflows")) && !world.exists(Path::new("work")));
        assert_eq!((world.new_id(), world.new_id()), ("P1".to_owned(), "P2".to_owned()));
        assert_eq!(world.now(), FIXED_NOW);
    }

    #[test]
    fn text_must_be_utf_8_and_small() {
        let mut world = MemoryWorld::new();
        world.write("bad", vec![b'a', 0xff]);
        world.write("big", vec![b'a'; FILE_BYTES_MAX + 1]);
        assert_eq!(world.read(Path::new("bad")), Err(ReadError::NotUtf8 { offset: 1 }));
        assert!(matches!(world.read(Path::new("big")), Err(ReadError::TooLarge { .. })));
    }
}
