//! A directory that files do not leave: paths relative to it, symbolic links followed within it only, hidden names not
//! there.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::action::context::Failure;
use crate::world::normal;

use super::failure;

/// The largest file that is read or written, in bytes.
pub(super) const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most files that are looked at for one call.
pub(super) const FILES_MAX: usize = 20_000;
/// The deepest directory that is looked into.
const DEPTH_MAX: usize = 32;
/// The project's own files, which say what is permitted: never written.
const PROJECT_FILES: &[&str] = &["agent-run.yaml", "agent-run.yml", "agent-run.toml"];

/// A directory that files do not leave, with all links of its own path followed.
#[derive(Clone)]
pub(crate) struct Root {
    dir: PathBuf,
    words: Words,
    /// The files that are there for whoever asks, by their path relative to the root; without it all.
    takes: Option<Takes>,
}

/// Which files of a directory are there, by their path relative to it.
pub(crate) type Takes = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// How messages speak of a root and of the tools that look into it.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    /// Such as `the project`.
    pub(crate) place: String,
    /// The tool that lists a directory.
    pub(crate) list: String,
    /// The tool that finds lines.
    pub(crate) search: String,
}

impl Default for Words {
    fn default() -> Words {
        let [place, list, search] = ["the project", "list_files", "search_files"].map(str::to_owned);
        Words { place, list, search }
    }
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Root").field("dir", &self.dir).field("takes", &self.takes.is_some()).finish_non_exhaustive()
    }
}

/// A file or directory that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Relative to the root, with `/`; a directory's ends with one.
    pub(crate) path: String,
    /// Its size; 0 for a directory.
    pub(crate) bytes: u64,
}

impl Root {
    /// The root at a directory.
    pub(crate) fn new(dir: &Path) -> Result<Root, Failure> {
        let found = fs::canonicalize(dir).map_err(|_| failure("the project's directory cannot be read"))?;
        Ok(Root { dir: found, words: Words::default(), takes: None })
    }

    /// The root at a directory below this one, of which only the files that `takes` says are there.
    pub(crate) fn below(&self, dir: &str, words: Words, takes: Option<Takes>) -> Result<Root, Failure> {
        let found = self.existing(dir)?;
        if !found.is_dir() {
            return Err(failure(format!("`{dir}` is a file, no directory")));
        }
        Ok(Root { dir: found, words, takes })
    }

    /// The root at a directory below this one, by a path that was found before: hidden names are taken as they are.
    pub(crate) fn to(&self, dir: &Path, words: Words) -> Result<Root, Failure> {
        let found = fs::canonicalize(self.dir.join(dir)).map_err(|_| failure("the directory is not there any more"))?;
        match found.starts_with(&self.dir) && found.is_dir() {
            true => Ok(Root { dir: found, words, takes: None }),
            false => Err(failure(format!("`{}` leads out of {}", dir.display(), self.words.place))),
        }
    }

    /// Where it is.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The same root, of which only the files that `takes` says are there.
    pub(crate) fn taking(self, words: Words, takes: Option<Takes>) -> Root {
        Root { words, takes, ..self }
    }

    /// The path relative to the root, its names checked: inside, none hidden.
    pub(super) fn relative(path: &str) -> Result<PathBuf, Failure> {
        Root::inside(path, &Words::default().place)
    }

    fn inside(path: &str, place: &str) -> Result<PathBuf, Failure> {
        let outside = || failure(format!("`{path}` leads out of {place}; give a path within it, such as `docs/a.md`"));
        if path.contains('\0') {
            return Err(failure("the path holds a NUL character"));
        }
        let inside = normal(Path::new(path.trim())).ok_or_else(outside)?;
        let hidden = |component: Component<'_>| component.as_os_str().to_string_lossy().starts_with('.');
        if inside.components().any(hidden) {
            return Err(failure(format!("`{path}` is hidden: names that begin with a dot are not read or written")));
        }
        Ok(inside)
    }

    /// Where a file or directory that is there leads.
    pub(crate) fn existing(&self, path: &str) -> Result<PathBuf, Failure> {
        let inside = Root::inside(path, &self.words.place)?;
        let found = fs::canonicalize(self.dir.join(&inside)).map_err(|why| self.reading(path, &why))?;
        self.within(found, path)
    }

    /// Where a file to be written is or will be; its directories are created.
    pub(super) fn to_write(&self, path: &str) -> Result<PathBuf, Failure> {
        let inside = Root::relative(path)?;
        let (Some(name), Some(parent)) = (inside.file_name(), inside.parent()) else {
            return Err(failure(format!("`{path}` is no file")));
        };
        if parent.as_os_str().is_empty() && PROJECT_FILES.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(failure(format!("`{path}` says what is permitted, so tools do not write it")));
        }
        self.make_dirs(parent, path)?;
        let parent = fs::canonicalize(self.dir.join(parent)).map_err(|why| writing(path, &why))?;
        let target = self.within(parent, path)?.join(name);
        match fs::canonicalize(&target) {
            Ok(found) => {
                if found.is_dir() {
                    return Err(failure(format!("`{path}` is a directory")));
                }
                let found = self.within(found, path)?;
                let is_project = found.parent() == Some(&*self.dir)
                    && found
                        .file_name()
                        .is_some_and(|name| PROJECT_FILES.iter().any(|own| name.eq_ignore_ascii_case(own)));
                if is_project {
                    Err(failure(format!("`{path}` leads to the project file, which tools do not write")))
                } else {
                    Ok(found)
                }
            }
            // A link that leads nowhere yet could lead out.
            Err(_) if target.is_symlink() => Err(failure(format!("`{path}` is a symbolic link that leads nowhere"))),
            Err(_) => Ok(target),
        }
    }

    /// Creates directories one by one, so that none is made behind a link that leaves the root.
    fn make_dirs(&self, dir: &Path, path: &str) -> Result<(), Failure> {
        let mut at = self.dir.clone();
        for component in dir.components() {
            at.push(component);
            match fs::canonicalize(&at) {
                Ok(found) => at = self.within(found, path)?,
                Err(_) if at.is_symlink() => return Err(failure(format!("`{path}` passes a link that leads nowhere"))),
                Err(_) => fs::create_dir(&at).map_err(|why| writing(path, &why))?,
            }
        }
        Ok(())
    }

    /// Refuses what is not in the root, or is hidden there.
    fn within(&self, found: PathBuf, path: &str) -> Result<PathBuf, Failure> {
        let Ok(inside) = found.strip_prefix(&self.dir) else {
            return Err(failure(format!("`{path}` leads out of {} by a symbolic link", self.words.place)));
        };
        if inside.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.')) {
            return Err(failure(format!("`{path}` leads to a hidden file")));
        }
        if self.takes.as_ref().is_some_and(|takes| found.is_file() && !takes(&slashed(inside))) {
            return Err(failure(format!("`{path}` is none of the files that {} takes", self.words.place)));
        }
        Ok(found)
    }

    /// The bytes of a file.
    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let found = self.existing(path)?;
        let about = fs::metadata(&found).map_err(|why| self.reading(path, &why))?;
        if about.is_dir() {
            return Err(failure(format!("`{path}` is a directory; {} shows what is in it", self.words.list)));
        }
        if !about.is_file() {
            return Err(failure(format!("`{path}` is no ordinary file")));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(&found).map_err(|why| self.reading(path, &why))?;
        file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|why| self.reading(path, &why))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(failure(format!("`{path}` has {} bytes, more than the 4 MiB that are read", about.len())));
        }
        Ok(bytes)
    }

    fn reading(&self, path: &str, why: &io::Error) -> Failure {
        match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                let Words { list, search, .. } = &self.words;
                failure(format!("there is no `{path}`; {list} and {search} find what there is"))
            }
            io::ErrorKind::PermissionDenied => failure(format!("the system does not let `{path}` be read")),
            _ => failure(format!("`{path}` cannot be read: {}", why.kind())),
        }
    }

    /// The text of a file.
    pub(crate) fn text(&self, path: &str) -> Result<String, Failure> {
        let bytes = self.bytes(path)?;
        let size = bytes.len();
        String::from_utf8(bytes).map_err(|_| failure(format!("`{path}` is a binary file of {size} bytes, no text")))
    }

    /// Writes a file as a whole: it is there with the old or the new text, never with half of it.
    pub(super) fn write(&self, path: &str, content: &str) -> Result<(), Failure> {
        if content.len() > FILE_BYTES_MAX {
            let message =
                format!("the text for `{path}` has {} bytes, more than the 4 MiB that are written", content.len());
            return Err(failure(message));
        }
        let target = self.to_write(path)?;
        let wrong = |why: io::Error| writing(path, &why);
        let (Some(dir), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(failure(format!("`{path}` is no file")));
        };
        let beside = dir.join(format!(".{}.{}.part", name.to_string_lossy(), ulid::Ulid::generate()));
        let written = (|| {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
            file.write_all(content.as_bytes())?;
            if let Ok(about) = fs::metadata(&target) {
                file.set_permissions(about.permissions())?;
            }
            fs::rename(&beside, &target)
        })();
        if written.is_err() {
            // What is left of the attempt is of no use; that it cannot be removed is not worse than the failure itself.
            let _ = fs::remove_file(&beside);
        }
        written.map_err(wrong)
    }

    /// The entries of a directory, or all files below it, in order; and whether there were more than are looked at.
    pub(crate) fn list(&self, dir: &str, deep: bool) -> Result<(Vec<Entry>, bool), Failure> {
        let found = self.existing(dir)?;
        if !found.is_dir() {
            return Err(failure(format!("`{dir}` is a file, no directory")));
        }
        let mut entries = Vec::new();
        let is_cut = self.list_into(&found, deep || self.takes.is_some(), 0, &mut entries);
        if let Some(takes) = &self.takes {
            entries.retain(|entry| takes(&entry.path));
            if !deep {
                let inside = found.strip_prefix(&self.dir).map(slashed).unwrap_or_default();
                entries = first_level(entries, &inside);
            }
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((entries, is_cut))
    }

    fn list_into(&self, dir: &Path, deep: bool, depth: usize, out: &mut Vec<Entry>) -> bool {
        // What package managers and build tools put there is none of the project's own.
        if deep && depth > 0 && (dir.ends_with("node_modules") || dir.join("CACHEDIR.TAG").exists()) {
            return false;
        }
        let Ok(entries) = fs::read_dir(dir) else { return false };
        let mut found: Vec<fs::DirEntry> = entries.flatten().collect();
        found.sort_by_key(fs::DirEntry::file_name);
        for entry in found {
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if out.len() >= FILES_MAX {
                return true;
            }
            let path = entry.path();
            // A link is listed when what it leads to is within the root; links to directories are not looked into.
            let Some(target) = fs::canonicalize(&path).ok().filter(|target| target.starts_with(&self.dir)) else {
                continue;
            };
            let (Ok(about), Ok(inside)) = (fs::metadata(&target), path.strip_prefix(&self.dir)) else { continue };
            let shown = slashed(inside);
            if about.is_file() {
                out.push(Entry { path: shown, bytes: about.len() });
            } else if about.is_dir() && !deep {
                out.push(Entry { path: format!("{shown}/"), bytes: 0 });
            } else if about.is_dir()
                && !path.is_symlink()
                && depth < DEPTH_MAX
                && self.list_into(&path, deep, depth + 1, out)
            {
                return true;
            }
        }
        false
    }
}

/// Entries of one directory, of files at any depth below it.
fn first_level(entries: Vec<Entry>, dir: &str) -> Vec<Entry> {
    let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
    let mut found: Vec<Entry> = Vec::new();
    for entry in entries {
        let rest = entry.path.strip_prefix(&prefix).unwrap_or(&entry.path);
        let entry = match rest.split_once('/') {
            Some((name, _)) => Entry { path: format!("{prefix}{name}/"), bytes: 0 },
            None => entry,
        };
        if !found.contains(&entry) {
            found.push(entry);
        }
    }
    found
}

/// A path with `/` on every system.
fn slashed(path: &Path) -> String {
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn writing(path: &str, why: &io::Error) -> Failure {
    match why.kind() {
        io::ErrorKind::PermissionDenied => failure(format!("the system does not let `{path}` be written")),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            failure(format!("a part of `{path}` is a file, no directory"))
        }
        _ => failure(format!("`{path}` cannot be written: {}", why.kind())),
    }
}
