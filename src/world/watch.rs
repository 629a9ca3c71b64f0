//! Watching the files of a program for edits.
//!
//! Directories are watched, not files: that sees a file replaced by a rename, written in place, swapped by a symbolic
//! link, and one that was missing appear. What is heard is only a reason to look: whether something has changed is asked
//! of the [`Snapshot`](super::Snapshot), so an event too many costs a look, and one that the system has lost is made up
//! for by the next.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::Snapshot;
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// How long it must be quiet before files are looked at: a burst of writes is one reload.
pub const QUIET: Duration = Duration::from_millis(50);
/// How long it must be quiet when a file looks as if only a part of it was there.
const LONG_QUIET: Duration = Duration::from_millis(250);
/// The longest wait for quiet; in a directory that is never quiet files are looked at all the same.
const QUIET_MAX: Duration = Duration::from_secs(1);
/// Most symbolic links that a path may lead through; the system refuses more.
const LINKS_MAX: usize = 40;
/// Deepest directory that is watched below one that was listed.
const DEPTH_MAX: usize = 64;

/// Why files cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("files cannot be watched: {0}")]
pub struct WatchError(String);

/// What has happened while one waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Something near the files, and then nothing for [`QUIET`].
    Something,
    /// Nothing, until the time was over.
    Nothing,
}

/// Paths that matter, absolute.
#[derive(Debug, Default)]
struct Aim {
    /// Files, links on the way to them, and the directories above them.
    names: BTreeSet<PathBuf>,
    /// Directories in which every name matters.
    listed: BTreeSet<PathBuf>,
}

impl Aim {
    fn matters(&self, event: &Event) -> bool {
        let is_near = |path: &PathBuf| {
            self.names.contains(path) || path.parent().is_some_and(|parent| self.listed.contains(parent))
        };
        // An event without a path says that some were lost.
        event.paths.is_empty() || event.paths.iter().any(is_near)
    }
}

/// Watches the files of one project.
pub struct Watch {
    root: PathBuf,
    watcher: RecommendedWatcher,
    aim: Arc<RwLock<Aim>>,
    heard: Receiver<()>,
    wake: SyncSender<()>,
    /// Directories that are watched, with what tells one from another that has taken its place.
    watched: BTreeMap<PathBuf, Option<u64>>,
}

impl Watch {
    /// Watches nothing yet. `root` is what paths are relative to.
    ///
    /// # Errors
    /// When the system offers no way to watch, or no more of it.
    pub fn new(root: &Path) -> Result<Watch, WatchError> {
        let root = fs::canonicalize(root).map_err(|error| WatchError(format!("`{}`: {error}", root.display())))?;
        let (wake, heard) = sync_channel::<()>(1);
        let aim: Arc<RwLock<Aim>> = Arc::default();
        let (tell, of) = (wake.clone(), aim.clone());
        let hear = move |event: notify::Result<Event>| {
            let matters = match &event {
                // Reading files is what a look at them does.
                Ok(event) if matches!(event.kind, EventKind::Access(_)) => false,
                Ok(event) => of.read().unwrap_or_else(PoisonError::into_inner).matters(event),
                Err(_) => true,
            };
            if matters {
                // One that waits already is enough.
                let _ = tell.try_send(());
            }
        };
        let config = Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(hear, config).map_err(|error| WatchError(error.to_string()))?;
        Ok(Watch { root, watcher, aim, heard, wake, watched: BTreeMap::new() })
    }

    /// A handle that ends a wait from elsewhere, as an event would.
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let wake = self.wake.clone();
        move || {
            let _ = wake.try_send(());
        }
    }

    /// Watches these files, there or missing, and directories (`true`), relative to the root, and nothing else.
    ///
    /// # Errors
    /// When a directory cannot be watched: most often the system's limit on watches is reached.
    pub fn aim(&mut self, asked: &[(PathBuf, bool)]) -> Result<(), WatchError> {
        let mut places = Places::at(&self.root);
        for (path, is_dir) in asked {
            if *is_dir { places.listed(path) } else { places.file(path) }
        }
        let Places { aim, dirs, .. } = places;
        *self.aim.write().unwrap_or_else(PoisonError::into_inner) = aim;
        let gone: Vec<PathBuf> = self
            .watched
            .iter()
            .filter(|(dir, id)| !dirs.contains(*dir) || identity(dir) != **id)
            .map(|(dir, _)| dir.clone())
            .collect();
        for dir in gone {
            // A directory that is gone is no longer watched by itself.
            let _ = self.watcher.unwatch(&dir);
            self.watched.remove(&dir);
        }
        for dir in dirs {
            if self.watched.contains_key(&dir) {
                continue;
            }
            let id = identity(&dir);
            match self.watcher.watch(&dir, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(dir, id);
                }
                // It has gone in between; the one above tells of that.
                Err(_) if !dir.exists() => {}
                Err(error) => return Err(WatchError(format!("`{}`: {error}", dir.display()))),
            }
        }
        Ok(())
    }

    /// Waits until something has happened and it has been quiet since.
    pub fn wait(&self, at_most: Option<Duration>) -> Heard {
        let first = match at_most {
            None => self.heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => self.heard.recv_timeout(limit),
        };
        if first.is_err() {
            return Heard::Nothing;
        }
        self.settle();
        Heard::Something
    }

    /// Waits until it is quiet.
    pub fn settle(&self) {
        self.quiet_for(QUIET);
    }

    /// Waits until it has been quiet for longer: a file is being written in pieces.
    pub fn settle_well(&self) {
        self.quiet_for(LONG_QUIET);
    }

    fn quiet_for(&self, quiet: Duration) {
        let end = Instant::now() + QUIET_MAX;
        while Instant::now() < end && self.heard.recv_timeout(quiet).is_ok() {}
    }

    /// Watches what a snapshot has seen, and waits until it is no longer so and looks whole.
    ///
    /// # Errors
    /// When a directory cannot be watched.
    pub fn wait_for_edit(&mut self, seen: &Snapshot) -> Result<(), WatchError> {
        self.aim(&seen.asked())?;
        while seen.is_current() {
            self.wait(None);
        }
        if seen.looks_cut() {
            self.settle_well();
        }
        Ok(())
    }
}

/// What tells a directory from another of the same path.
#[cfg(unix)]
fn identity(dir: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(dir).ok().map(|data| data.ino())
}

#[cfg(not(unix))]
fn identity(dir: &Path) -> Option<u64> {
    dir.exists().then_some(0)
}

/// Where to watch for a set of paths.
struct Places<'a> {
    root: &'a Path,
    aim: Aim,
    dirs: BTreeSet<PathBuf>,
    /// Directories whose way was followed already, and where it leads.
    followed: BTreeMap<PathBuf, PathBuf>,
}

impl<'a> Places<'a> {
    fn at(root: &'a Path) -> Places<'a> {
        Places { root, aim: Aim::default(), dirs: BTreeSet::new(), followed: BTreeMap::new() }
    }

    fn file(&mut self, path: &Path) {
        let path = self.root.join(path);
        self.follow(&path);
    }

    fn listed(&mut self, dir: &Path) {
        let dir = if dir.as_os_str().is_empty() { self.root.to_owned() } else { self.root.join(dir) };
        let real = if dir == self.root { dir } else { self.follow(&dir) };
        self.below(&real, 0);
    }

    /// A directory that was listed, with what is below it.
    fn below(&mut self, dir: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        if !self.aim.listed.insert(dir.to_owned()) {
            return;
        }
        self.dirs.insert(dir.to_owned());
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_own = !name.to_string_lossy().starts_with('.') && name != "node_modules";
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && is_own && depth < DEPTH_MAX && !path.join("CACHEDIR.TAG").exists() => {
                    self.below(&path, depth + 1);
                }
                Ok(kind) if kind.is_symlink() => {
                    self.follow(&path);
                }
                _ => {}
            }
        }
    }

    /// Takes note of a path and of everything on the way to it: directories, links and where they lead. Returns where
    /// it leads in the end, as far as that is there.
    fn follow(&mut self, path: &Path) -> PathBuf {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return path };
            let real = self.directory(parent);
            let at = real.join(name);
            self.aim.names.insert(at.clone());
            match fs::read_link(&at) {
                // Relative to where the link stands.
                Ok(target) => path = tidy(&real.join(target)),
                Err(_) => return at,
            }
        }
        path
    }

    /// Where a directory leads; it is watched, or the nearest above it that is there.
    fn directory(&mut self, dir: &Path) -> PathBuf {
        if let Some(real) = self.followed.get(dir) {
            return real.clone();
        }
        // Above the root nothing is looked for: it is there, its links were followed.
        let real = if dir == self.root || dir.parent().is_none() { dir.to_owned() } else { self.follow(dir) };
        self.followed.insert(dir.to_owned(), real.clone());
        if real.is_dir() && (real.starts_with(self.root) || dir.starts_with(self.root)) {
            self.dirs.insert(real.clone());
        }
        real
    }
}

/// A path without `.` and `..`, by its names alone: those before were followed.
fn tidy(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::world::{Snapshot, SystemWorld, World};

    /// Longer than any event takes; reached only when one is missing.
    const LATEST: Duration = Duration::from_secs(30);

    struct Scene {
        dir: tempfile::TempDir,
        watch: Watch,
        snapshot: Snapshot,
    }

    impl Scene {
        fn new() -> Scene {
            let dir = tempfile::tempdir().unwrap();
            let root = fs::canonicalize(dir.path()).unwrap();
            fs::create_dir_all(root.join("workflows")).unwrap();
            fs::write(root.join("workflows/a.yaml"), "one").unwrap();
            let snapshot = Snapshot::new(Arc::new(SystemWorld::new(&root)));
            let mut scene = Scene { watch: Watch::new(&root).unwrap(), dir, snapshot };
            scene.look(&["workflows/a.yaml"]);
            scene
        }

        fn at(&self, path: &str) -> PathBuf {
            fs::canonicalize(self.dir.path()).unwrap().join(path)
        }

        /// Reads files anew and watches them; what they hold.
        fn look(&mut self, files: &[&str]) -> Vec<Option<String>> {
            self.snapshot = self.snapshot.next();
            let texts = files.iter().map(|file| self.snapshot.read(Path::new(file)).ok().map(|text| text.to_string()));
            let texts = texts.collect();
            let _ = self.snapshot.list(Path::new("workflows"));
            self.watch.aim(&self.snapshot.asked()).unwrap();
            texts
        }

        /// Waits until what was read is no longer so, and reads it again.
        fn after_edit(&mut self, files: &[&str]) -> Vec<Option<String>> {
            while self.snapshot.is_current() {
                assert_eq!(self.watch.wait(Some(LATEST)), Heard::Something, "no event came");
            }
            self.look(files)
        }
    }

    #[test]
    fn every_way_of_saving_is_heard() {
        let file = "workflows/a.yaml";
        let mut scene = Scene::new();
        // In place: truncated, then written.
        fs::write(scene.at(file), "two").unwrap();
        assert_eq!(scene.after_edit(&[file]), [Some("two".to_owned())]);
        // Written beside and renamed over.
        fs::write(scene.at("workflows/.a.yaml.swp"), "three").unwrap();
        fs::rename(scene.at("workflows/.a.yaml.swp"), scene.at(file)).unwrap();
        assert_eq!(scene.after_edit(&[file]), [Some("three".to_owned())]);
        // Moved away, and written anew.
        fs::rename(scene.at(file), scene.at("workflows/a.yaml~")).unwrap();
        fs::write(scene.at(file), "four").unwrap();
        while scene.after_edit(&[file]) != [Some("four".to_owned())] {}
        // Deleted.
        fs::remove_file(scene.at(file)).unwrap();
        assert_eq!(scene.after_edit(&[file]), [None]);
        // The whole directory is another.
        fs::create_dir(scene.at("next")).unwrap();
        fs::write(scene.at("next/a.yaml"), "five").unwrap();
        fs::rename(scene.at("workflows"), scene.at("previous")).unwrap();
        fs::rename(scene.at("next"), scene.at("workflows")).unwrap();
        while scene.after_edit(&[file]) != [Some("five".to_owned())] {}
        fs::write(scene.at(file), "six").unwrap();
        assert_eq!(scene.after_edit(&[file]), [Some("six".to_owned())]);
    }

    #[test]
    fn what_was_missing_is_heard_of_when_it_comes() {
        let files = ["workflows/a.yaml", "deep/er/b.yaml"];
        let mut scene = Scene::new();
        assert_eq!(scene.look(&files), [Some("one".to_owned()), None]);
        fs::create_dir_all(scene.at("deep/er")).unwrap();
        fs::write(scene.at("deep/er/b.yaml"), "b").unwrap();
        // Directories that were made in one go are found by looking again.
        while scene.after_edit(&files)[1] != Some("b".to_owned()) {}
        fs::write(scene.at("workflows/new.yaml"), "new").unwrap();
        scene.after_edit(&files);
    }

    #[cfg(unix)]
    #[test]
    fn a_swapped_link_is_heard_of() {
        use std::os::unix::fs::symlink;
        let mut scene = Scene::new();
        for (version, text) in [("v1", "one"), ("v2", "two")] {
            fs::create_dir(scene.at(version)).unwrap();
            fs::write(scene.at(version).join("c.yaml"), text).unwrap();
        }
        // As configuration is mounted: a file is a link through a link to a directory, which is swapped as a whole.
        symlink("v1", scene.at("..data")).unwrap();
        symlink("..data/c.yaml", scene.at("c.yaml")).unwrap();
        assert_eq!(scene.look(&["c.yaml"]), [Some("one".to_owned())]);
        symlink("v2", scene.at("..next")).unwrap();
        fs::rename(scene.at("..next"), scene.at("..data")).unwrap();
        assert_eq!(scene.after_edit(&["c.yaml"]), [Some("two".to_owned())]);
        // And the file that it leads to now is watched.
        fs::write(scene.at("v2/c.yaml"), "three").unwrap();
        assert_eq!(scene.after_edit(&["c.yaml"]), [Some("three".to_owned())]);
    }

    #[test]
    fn a_waker_ends_a_wait() {
        let scene = Scene::new();
        let wake = scene.watch.waker();
        let waiting = std::thread::spawn(move || {
            let heard = scene.watch.wait(None);
            (scene, heard)
        });
        wake();
        assert_eq!(waiting.join().unwrap().1, Heard::Something);
    }
}
