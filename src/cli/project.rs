//! Which project and which of its files a command line means (language.md 1).

use std::path::{Component, Path, PathBuf};

use crate::compile::{Entry, PROJECT_FILES, project_root};

use super::Fault;
use super::args::Global;

/// What a command line names: a project, and in it a file, an agent, or everything.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located {
    /// The project's root.
    pub root: PathBuf,
    /// What in it is meant.
    pub target: Target,
}

/// What in a project is meant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    /// A file, relative to the root.
    File(PathBuf),
    /// An agent by name.
    Agent(String),
    /// A directory, relative to the root; the root itself is the empty path.
    Directory(PathBuf),
}

/// Finds the project of a file or agent.
pub(super) fn locate(target: &str, global: &Global) -> Result<Located, Fault> {
    let path = Path::new(target);
    let has_ending = path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "toml");
    if !has_ending && !path.is_file() {
        let root = root_of_command(global)?;
        return Ok(Located { root, target: Target::Agent(target.to_owned()) });
    }
    if !path.is_file() {
        return Err(missing_file(path));
    }
    let file = absolute(path)?;
    let root = match &global.project {
        Some(_) => root_of_command(global)?,
        None => root_of(&file, false),
    };
    let inside = file.strip_prefix(&root).map_err(|_| {
        Fault::wrong(format!("`{target}` is not in the project `{}`", root.display()))
            .help("leave `--project` out, or name the project that the file belongs to")
    })?;
    Ok(Located { target: Target::File(inside.to_owned()), root })
}

impl Located {
    /// What is compiled for it.
    pub(super) fn entry(&self) -> Entry {
        match &self.target {
            Target::File(file) => Entry::File(file.clone()),
            Target::Agent(name) => Entry::Agent(name.clone()),
            Target::Directory(_) => Entry::Project,
        }
    }
}

/// The root of a command that is about one target, or about the whole project without one, and what it compiles.
pub(super) fn root_and_entry(target: Option<&str>, global: &Global) -> Result<(PathBuf, Entry), Fault> {
    let Some(target) = target else { return Ok((root_of_command(global)?, Entry::Project)) };
    let located = locate(target, global)?;
    let entry = located.entry();
    Ok((located.root, entry))
}

/// The root that `--project` names, else the one that the current directory belongs to.
pub(super) fn root_of_command(global: &Global) -> Result<PathBuf, Fault> {
    if let Some(dir) = &global.project {
        if !dir.is_dir() {
            return Err(Fault::wrong(format!("`--project {}` is not a directory", dir.display())));
        }
        return absolute(dir);
    }
    let here = absolute(Path::new("."))?;
    let with_file = here.ancestors().find(|dir| PROJECT_FILES.iter().any(|name| dir.join(name).is_file()));
    let with_workflows = || here.ancestors().find(|dir| dir.join("workflows").is_dir());
    Ok(with_file.or_else(with_workflows).unwrap_or(&here).to_owned())
}

/// The root of a file's (or directory's) project.
pub(super) fn root_of(path: &Path, is_dir: bool) -> PathBuf {
    project_root(path, is_dir, &|file| file.is_file())
}

/// An absolute path with its symbolic links followed, so that roots and files compare.
fn absolute(path: &Path) -> Result<PathBuf, Fault> {
    std::fs::canonicalize(path).map_err(|error| Fault::wrong(format!("`{}` cannot be read: {error}", path.display())))
}

pub(super) fn missing_file(path: &Path) -> Fault {
    let fault = Fault::wrong(format!("there is no file `{}`", path.display()));
    let dir = path.parent().filter(|dir| dir.components().next() != Some(Component::CurDir)).unwrap_or(Path::new(""));
    let here = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let names: Vec<String> = std::fs::read_dir(here)
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    let wanted = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match crate::diag::suggest::nearest(&wanted, names.iter().map(String::as_str)).first() {
        Some(near) => fault.help(format!("did you mean `{}`?", dir.join(near).display())),
        None => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_nearest_project_file_then_the_parent_of_workflows() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path();
        std::fs::create_dir_all(top.join("p/workflows/deep")).expect("made");
        let file = top.join("p/workflows/deep/a.yaml");
        std::fs::write(&file, "agent: a").expect("written");
        assert_eq!(root_of(&file, false), top.join("p"));
        std::fs::write(top.join("agent-run.toml"), "").expect("written");
        assert_eq!(root_of(&file, false), top);
        assert_eq!(root_of(Path::new("/x/y.yaml"), false), Path::new("/x"));
    }

    #[test]
    fn a_misspelt_file_gets_the_nearest_name() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("star-news.yaml"), "").expect("written");
        let wrong = dir.path().join("star-nws.yaml");
        let fault = locate(&wrong.to_string_lossy(), &Global::default()).expect_err("no such file");
        assert!(fault.help[0].contains("star-news.yaml"), "{fault:?}");
    }
}
