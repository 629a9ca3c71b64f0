//! Agent Skills: directories with a `SKILL.md` (agentskills.io), found, read and judged.
//!
//! A skill that is wrong is left out with its findings; the others work.

pub mod front;
pub mod material;
pub mod name;

use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use crate::diag::{Diagnostic, Severity};
use crate::source::{FileId, Sources};
use crate::world::{ReadError, World};

pub use front::{Finding, Front};

/// The names of the file that makes a directory a skill; the first is looked for first.
pub const FILE_NAMES: [&str; 2] = ["SKILL.md", "skill.md"];
/// How many directories deep skills are looked for.
const DEPTH_MAX: usize = 6;
/// The most skills of one directory.
pub const SKILLS_MAX: usize = 1000;

/// A skill that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// What its `SKILL.md` says.
    pub front: Front,
    /// Its directory, relative to the root that it was looked for in.
    pub dir: PathBuf,
    /// Its `SKILL.md`, likewise.
    pub file: PathBuf,
    /// Whether it has scripts.
    pub has_scripts: bool,
}

/// A directory that was meant to be a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The directory.
    pub dir: PathBuf,
    /// The `SKILL.md` in it, when there is one.
    pub file: Option<PathBuf>,
    /// What is wrong with it; then it is no skill that can be used.
    pub findings: Vec<Finding>,
}

/// The skills of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Skills that can be used, by name, in the order of their directories.
    pub skills: IndexMap<String, Skill>,
    /// The directories that are left out, and why.
    pub wrong: Vec<Candidate>,
    /// The files that were read or looked for.
    pub read: Vec<PathBuf>,
}

/// Finds the skills of a directory: itself when it holds a `SKILL.md`, else the directories below that do. Of two
/// skills with one name the first is taken.
pub fn discover(world: &dyn World, dir: &Path, sources: &mut Sources) -> Found {
    let mut found = Found::default();
    let dirs = dirs(world, dir);
    found.read.extend(FILE_NAMES.iter().map(|name| dir.join(name)));
    for dir in dirs {
        let (skill, candidate) = check(world, &dir, None, sources);
        found.read.extend(candidate.file.clone());
        match skill {
            None => found.wrong.push(candidate),
            Some(skill) => match found.skills.get(&skill.front.name) {
                Some(first) => {
                    let message = format!(
                        "the skill `{}` is in `{}` already; this one is left out",
                        skill.front.name,
                        first.dir.display()
                    );
                    let place = sources.find(&shown(&skill.file)).map(|file| crate::source::Span::empty(file, 0));
                    let diagnostic =
                        Diagnostic::error("duplicate-name", place, message).help("rename one of the two, or remove it");
                    let findings = vec![Finding { rule: "duplicate-name", diagnostic }];
                    found.wrong.push(Candidate { findings, ..candidate });
                }
                None => {
                    found.skills.insert(skill.front.name.clone(), skill);
                }
            },
        }
    }
    found
}

/// Reads and judges the skill in a directory. `name` is the directory's name where the path does not tell it.
pub fn check(world: &dyn World, dir: &Path, name: Option<&str>, sources: &mut Sources) -> (Option<Skill>, Candidate) {
    let mut candidate = Candidate { dir: dir.to_owned(), file: skill_file(world, dir), findings: Vec::new() };
    let Some(file) = candidate.file.clone() else {
        let message = format!("there is no `SKILL.md` in `{}`", shown(dir));
        let diagnostic = Diagnostic::error("bad-skill", None, message)
            .help("write one that begins with `name` and `description` between two lines `---`");
        candidate.findings.push(Finding { rule: "no-file", diagnostic });
        return (None, candidate);
    };
    let text = match world.read(&file) {
        Ok(text) => text,
        Err(error) => {
            let mut diagnostic = error.diagnostic(&shown(&file), None);
            if matches!(error, ReadError::TooLarge { .. }) {
                diagnostic.help =
                    vec!["move parts of it into files beside it, which are read when they are needed".to_owned()];
            }
            candidate.findings.push(Finding { rule: "unreadable", diagnostic });
            return (None, candidate);
        }
    };
    let own = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let id: FileId = sources.add(shown(&file), text);
    let (front, findings) = front::check(id, sources.get(id), name.unwrap_or(&own));
    candidate.findings = findings;
    let has_scripts = world.exists(&dir.join("scripts"));
    (front.map(|front| Skill { front, dir: dir.to_owned(), file, has_scripts }), candidate)
}

/// The findings as warnings at their places: a project goes on without the skills that are wrong.
pub fn warnings(candidate: &Candidate) -> impl Iterator<Item = Diagnostic> + '_ {
    candidate.findings.iter().map(|finding| {
        let mut diagnostic = finding.diagnostic.clone();
        diagnostic.severity = Severity::Warning;
        diagnostic.message = format!("{}; the skill is left out", diagnostic.message);
        diagnostic
    })
}

/// The `SKILL.md` of a directory.
fn skill_file(world: &dyn World, dir: &Path) -> Option<PathBuf> {
    FILE_NAMES.iter().map(|name| dir.join(name)).find(|file| world.exists(file))
}

/// The directories that are meant to be skills: `dir` itself when it holds a `SKILL.md`, else those below it that do,
/// in order. A skill's own directories are its resources.
pub fn dirs(world: &dyn World, dir: &Path) -> Vec<PathBuf> {
    if skill_file(world, dir).is_some() {
        return vec![dir.to_owned()];
    }
    let is_skill = |file: &Path| file.file_name().is_some_and(|name| FILE_NAMES.iter().any(|own| name == *own));
    let depth = dir.components().count();
    let files = world.list(dir);
    let mut dirs: Vec<PathBuf> =
        files.iter().filter(|file| is_skill(file)).filter_map(|file| file.parent().map(Path::to_owned)).collect();
    dirs.retain(|found| found.components().count() <= depth + DEPTH_MAX);
    dirs.sort();
    dirs.dedup();
    let mut kept: Vec<PathBuf> = Vec::new();
    for found in dirs {
        if !kept.last().is_some_and(|last| found.starts_with(last)) {
            kept.push(found);
        }
    }
    kept.truncate(SKILLS_MAX);
    kept
}

/// A path with `/` between its names.
fn shown(path: &Path) -> String {
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MemoryWorld;

    fn skill(name: &str) -> String {
        format!("---\nname: {name}\ndescription: Does {name}\n---\n\nDo it.\n")
    }

    #[test]
    fn skills_are_found_below_a_directory_and_their_own_directories_are_theirs() {
        let mut world = MemoryWorld::new();
        world.write("skills/b/SKILL.md", skill("b"));
        world.write("skills/more/a/skill.md", skill("a"));
        world.write("skills/b/assets/SKILL.md", skill("inner"));
        world.write("skills/README.md", "no skill");
        let found = discover(&world, Path::new("skills"), &mut Sources::new());
        assert_eq!(found.skills.keys().collect::<Vec<_>>(), ["b", "a"]);
        assert!(found.wrong.is_empty(), "{:?}", found.wrong);
        let one = discover(&world, Path::new("skills/b"), &mut Sources::new());
        assert_eq!(one.skills["b"].front.body, "Do it.");
    }

    #[test]
    fn a_wrong_skill_is_left_out_with_its_place_and_the_rest_works() {
        let mut world = MemoryWorld::new();
        world.write("skills/good/SKILL.md", skill("good"));
        world.write("skills/bad/SKILL.md", "---\nname: Bad\ndescription: Use when: asked\n---\n");
        world.write("skills/other/good/SKILL.md", skill("good"));
        let mut sources = Sources::new();
        let found = discover(&world, Path::new("skills"), &mut sources);
        assert_eq!(found.skills.keys().collect::<Vec<_>>(), ["good"]);
        let rules: Vec<_> = found.wrong.iter().flat_map(|wrong| &wrong.findings).map(|finding| finding.rule).collect();
        assert_eq!(rules, ["front-matter", "duplicate-name"]);
        let diagnostic = &found.wrong[0].findings[0].diagnostic;
        let span = diagnostic.span.expect("a place");
        assert_eq!(sources.get(span.file).line_column(span.start), (3, 22));
        assert!(warnings(&found.wrong[0]).all(|warning| warning.severity == Severity::Warning));
    }
}
