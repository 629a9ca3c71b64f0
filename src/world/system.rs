//! The real world: a directory, the process's environment, the system's clock, ULIDs.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(unix)]
use super::Stamp;
use super::{ReadError, World, normal};
use crate::source::{DEPTH_MAX, FILE_BYTES_MAX};

/// How long ago a file must have been changed for its stamp to be trusted, in nanoseconds.
const STAMP_SETTLES_NS: i128 = 100_000_000;

/// A directory of this machine, with its environment and clock.
#[derive(Debug)]
pub struct SystemWorld {
    root: PathBuf,
    /// The root with symbolic links followed, once it was needed.
    real_root: OnceLock<PathBuf>,
    fixed: Option<jiff::Timestamp>,
    ids: AtomicU64,
}

impl SystemWorld {
    /// The world whose root is `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), real_root: OnceLock::new(), fixed: None, ids: AtomicU64::new(0) }
    }

    /// The same world with its clock standing at `now` and ids counted `P1, P2, …` (scripted runs, cli.md).
    pub fn with_fixed_clock(mut self, now: jiff::Timestamp) -> Self {
        self.fixed = Some(now);
        self
    }

    fn real_root(&self) -> Result<&Path, ReadError> {
        if let Some(root) = self.real_root.get() {
            return Ok(root);
        }
        let root = fs::canonicalize(&self.root).map_err(read_error)?;
        Ok(self.real_root.get_or_init(|| root))
    }

    /// Where a path leads, symbolic links followed.
    fn resolve(&self, path: &Path) -> Result<PathBuf, ReadError> {
        let inside = normal(path).ok_or(ReadError::Escapes)?;
        let root = self.real_root()?;
        let found = fs::canonicalize(root.join(inside)).map_err(read_error)?;
        if found.starts_with(root) { Ok(found) } else { Err(ReadError::Escapes) }
    }

    /// Adds the files under a directory. Links to files are followed within the root, links to directories are not:
    /// what they lead to is listed where it is, and circles cannot arise.
    fn list_into(&self, real: &Path, dir: &Path, depth: usize, out: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(real) else { return };
        // What package managers and build tools put there is none of the project's own.
        if dir.ends_with("node_modules") || (depth > 0 && real.join("CACHEDIR.TAG").exists()) {
            return;
        }
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            if name.to_string_lossy().starts_with('.') {
                continue;
            }
            let path = dir.join(&name);
            if kind.is_symlink() {
                if self.resolve(&path).is_ok_and(|target| target.is_file()) {
                    out.push(path);
                }
            } else if kind.is_file() {
                out.push(path);
            } else if kind.is_dir() && depth < DEPTH_MAX {
                self.list_into(&entry.path(), &path, depth + 1, out);
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
        if let (Some(inside), Ok(real)) = (normal(dir), self.resolve(dir)) {
            self.list_into(&real, &inside, 0, &mut out);
        }
        out.sort();
        out
    }

    fn exists(&self, path: &Path) -> bool {
        self.resolve(path).is_ok()
    }

    #[cfg(unix)]
    fn stamp(&self, path: &Path) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let data = fs::metadata(self.real_root().ok()?.join(normal(path)?)).ok()?;
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        let times = (nanos(data.mtime(), data.mtime_nsec()), nanos(data.ctime(), data.ctime_nsec()));
        // Clocks of files tick slowly: what was changed just now may change again within the same tick.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
        let is_settled = i128::try_from(now.as_nanos()).ok()? - times.1 > STAMP_SETTLES_NS;
        is_settled.then_some(Stamp { file: (data.dev(), data.ino()), size: data.size(), times })
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

    fn numbers_ids(&self) -> bool {
        self.fixed.is_some()
    }

    fn new_id(&self) -> String {
        match self.fixed {
            Some(_) => format!("P{}", self.ids.fetch_add(1, Ordering::Relaxed) + 1),
            None => ulid::Ulid::generate().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> (tempfile::TempDir, SystemWorld) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        fs::create_dir_all(root.join("workflows/.hidden")).unwrap();
        for (path, text) in [("workflows/b.yaml", "b"), ("workflows/a.yaml", "a"), ("workflows/.hidden/c.yaml", "c")] {
            fs::write(root.join(path), text).unwrap();
        }
        fs::write(dir.path().join("secret.yaml"), "secret").unwrap();
        (dir, SystemWorld::new(root))
    }

    #[test]
    fn files_are_listed_in_order_without_hidden_ones() {
        let (_dir, world) = world();
        assert_eq!(world.list(Path::new("workflows")), [PathBuf::from("workflows/a.yaml"), "workflows/b.yaml".into()]);
        assert_eq!(world.list(Path::new("")).len(), 2);
        assert!(world.list(Path::new("nowhere")).is_empty());
        assert_eq!(world.read(Path::new("workflows/a.yaml")).as_deref(), Ok("a"));
        assert!(matches!(world.read(Path::new("workflows")), Err(ReadError::Io(_))));
        assert_eq!(world.read(Path::new("workflows/a.yaml/x")), Err(ReadError::NotFound));
    }

    #[cfg(unix)]
    #[test]
    fn paths_and_links_do_not_leave_the_root() {
        let (dir, world) = world();
        let link = |to: &Path, from: &str| std::os::unix::fs::symlink(to, world.root.join(from)).unwrap();
        link(&dir.path().join("secret.yaml"), "workflows/out.yaml");
        link(dir.path(), "up");
        link(&world.root.join("workflows"), "workflows/circle");
        link(&world.root.join("workflows/a.yaml"), "workflows/inside.yaml");
        for path in ["../secret.yaml", "workflows/out.yaml", "up/secret.yaml"] {
            assert_eq!(world.read(Path::new(path)), Err(ReadError::Escapes), "{path}");
        }
        assert_eq!(world.read(Path::new("workflows/inside.yaml")).as_deref(), Ok("a"));
        let names: Vec<_> = world.list(Path::new("")).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["workflows/a.yaml", "workflows/b.yaml", "workflows/inside.yaml"]);
    }

    #[test]
    fn large_files_are_refused_before_they_are_read() {
        let (_dir, world) = world();
        let file = fs::File::create(world.root.join("big")).unwrap();
        file.set_len(FILE_BYTES_MAX as u64 + 1).unwrap();
        assert_eq!(world.read(Path::new("big")), Err(ReadError::TooLarge { bytes: FILE_BYTES_MAX as u64 + 1 }));
    }

    #[test]
    fn a_fixed_clock_counts_ids() {
        let (_dir, world) = world();
        assert_ne!(world.new_id(), world.new_id());
        let world = world.with_fixed_clock(super::super::FIXED_NOW);
        assert_eq!((world.new_id(), world.new_id()), ("P1".to_owned(), "P2".to_owned()));
        assert_eq!(world.now(), super::super::FIXED_NOW);
        assert_eq!(world.env("="), None);
    }
}
