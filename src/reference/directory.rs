//! `directory`: the text files of a directory of the project, listed, read and searched; also those of a git checkout.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::action::context::{Context, Failure};
use crate::action::{Body, Needs};
use crate::tool::Tool;
use crate::tool::builtin::glob::Glob;
use crate::tool::builtin::root::{Root, Takes, Words};
use crate::tool::builtin::{arguments, defaulted, failure, files, optional, required, text};
use crate::value::ShapeKind;

use super::document::tool;
use super::{Content, Material, Mode, Reach};

/// The most bytes of files that `mode: prompt` puts into a prompt: about 100,000 tokens.
const PROMPT_BYTES_MAX: usize = 400_000;

/// Which files of a directory are taken: those that fit `include`, where there is one, and none of `exclude`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    include: Vec<Glob>,
    exclude: Vec<Glob>,
}

impl Filter {
    /// A filter of patterns such as `src/**/*.md`.
    ///
    /// # Errors
    /// The position among all patterns, `include` first, and what is wrong with the pattern.
    pub fn new(include: &[&str], exclude: &[&str]) -> Result<Filter, (usize, String)> {
        let globs = |patterns: &[&str], from: usize| -> Result<Vec<Glob>, (usize, String)> {
            let each = patterns.iter().enumerate();
            each.map(|(at, pattern)| Glob::new(pattern).map_err(|why| (from + at, why))).collect()
        };
        Ok(Filter { include: globs(include, 0)?, exclude: globs(exclude, include.len())? })
    }

    /// Whether a file is taken, by its path.
    pub(super) fn takes(&self, path: &str) -> bool {
        let fits = |globs: &[Glob]| globs.iter().any(|glob| glob.fits(path));
        (self.include.is_empty() || fits(&self.include)) && !fits(&self.exclude)
    }

    /// The same as a question, where it leaves anything out.
    pub(super) fn question(&self) -> Option<Takes> {
        let filter = (!self.include.is_empty() || !self.exclude.is_empty()).then(|| self.clone())?;
        Some(Arc::new(move |path| filter.takes(path)))
    }
}

/// Files below one directory.
#[async_trait]
pub(super) trait Tree: std::fmt::Debug + Send + Sync {
    /// The directory, with only the files that are taken.
    async fn root(&self, cx: &dyn Context) -> Result<Root, Failure>;
    /// What looking into it touches.
    fn permission(&self) -> &'static str;
    /// For what.
    fn subject(&self) -> String;
}

/// How messages speak of the files of a reference.
pub(super) fn words(prefix: &str) -> Words {
    Words {
        place: format!("the reference `{prefix}`"),
        list: format!("{prefix}_list"),
        search: format!("{prefix}_search"),
    }
}

/// A directory of the project.
#[derive(Debug)]
pub struct Directory {
    name: String,
    path: String,
    filter: Filter,
}

impl Directory {
    /// The directory at a path relative to the project, as the reference `name`.
    pub fn new(name: &str, path: &str, filter: Filter) -> Directory {
        Directory { name: name.to_owned(), path: path.to_owned(), filter }
    }
}

#[async_trait]
impl Tree for Directory {
    async fn root(&self, cx: &dyn Context) -> Result<Root, Failure> {
        let Some(project) = cx.world().root().map(Path::to_owned) else {
            return Err(failure("the project is not on disk, so its files cannot be reached"));
        };
        Root::new(&project)?.below(&self.path, words(&self.name), self.filter.question())
    }

    fn permission(&self) -> &'static str {
        "files:read"
    }

    fn subject(&self) -> String {
        self.path.clone()
    }
}

#[async_trait]
impl Material for Directory {
    fn kind(&self) -> &'static str {
        "directory"
    }

    fn place(&self) -> String {
        self.path.clone()
    }

    fn is_own(&self) -> bool {
        false
    }

    async fn content(&self, cx: &dyn Context, mode: Mode, _: Reach) -> Result<Content, Failure> {
        match mode {
            Mode::Prompt => whole(self, cx).await,
            Mode::Auto | Mode::Tools => Ok(Content::Nothing),
        }
    }

    fn tools(self: Arc<Self>, prefix: &str) -> Vec<Tool> {
        looks(self, prefix)
    }

    async fn ping(&self, cx: &dyn Context) -> Result<String, Failure> {
        counted(self, cx).await
    }
}

/// All files of a tree as one text.
pub(super) async fn whole(tree: &dyn Tree, cx: &dyn Context) -> Result<Content, Failure> {
    cx.permit(tree.permission(), &tree.subject())?;
    let root = tree.root(cx).await?;
    let read = tokio::task::spawn_blocking(move || all(&root)).await;
    read.unwrap_or_else(|_| Err(failure("the files could not be reached")))
}

/// How many files a tree has, in words.
pub(super) async fn counted(tree: &dyn Tree, cx: &dyn Context) -> Result<String, Failure> {
    cx.permit(tree.permission(), &tree.subject())?;
    let root = tree.root(cx).await?;
    let listed = tokio::task::spawn_blocking(move || root.list("", true)).await;
    let (entries, is_cut) = listed.unwrap_or_else(|_| Err(failure("the files could not be reached")))?;
    let more = if is_cut { " and more" } else { "" };
    Ok(format!("{} file{}{more}", entries.len(), if entries.len() == 1 { "" } else { "s" }))
}

fn all(root: &Root) -> Result<Content, Failure> {
    let (entries, is_cut) = root.list("", true)?;
    let mut out = String::new();
    for entry in entries {
        // Binary, large and unreadable files are no text for a prompt.
        let Ok(content) = root.text(&entry.path) else { continue };
        out.push_str(&format!("## {}\n\n{}\n\n", entry.path, content.trim_end()));
        if out.len() > PROMPT_BYTES_MAX {
            break;
        }
    }
    if is_cut || out.len() > PROMPT_BYTES_MAX {
        return Err(failure(format!(
            "its files have more than the {PROMPT_BYTES_MAX} bytes that a prompt may hold; narrow `include`, or say \
             `mode: tools`"
        )));
    }
    Ok(match out.trim_end() {
        "" => Content::Text(Arc::from("(there are no text files)")),
        out => Content::Text(Arc::from(out)),
    })
}

/// What is done with the files of a tree: the functions of `builtin:files`.
type Does = fn(&Root, &Map<String, Value>, bool) -> Result<Value, Failure>;

/// The tools that look into a tree.
pub(super) fn looks(of: Arc<dyn Tree>, prefix: &str) -> Vec<Tool> {
    let body = |does: Does| Looking { of: Arc::clone(&of), does };
    let place = format!("the reference `{prefix}`");
    let path = |about: &str| format!("{about}, relative to {place}");
    let directory = || defaulted(ShapeKind::String, "", &format!("{}; all of it otherwise", path("The directory")));
    vec![
        tool(
            prefix,
            "list",
            format!(
                "Lists a directory of {place}, directories with a / at their end. With a pattern it lists all files \
                 at any depth that fit."
            ),
            vec![
                ("path", directory()),
                (
                    "pattern",
                    optional(ShapeKind::String, "Such as *.md or src/**/*.{yaml,yml}, relative to the directory"),
                ),
            ],
            body(files::list_files),
        ),
        tool(
            prefix,
            "search",
            format!("Finds the lines of the text files of {place} that fit a regular expression, as path:line: text."),
            vec![
                ("pattern", required(ShapeKind::String, "A regular expression (RE2 syntax)")),
                ("path", directory()),
                ("files", optional(ShapeKind::String, "Only files that fit this, such as *.md")),
                ("ignore_case", defaulted(ShapeKind::Boolean, true, "Upper and lower case are the same")),
                ("max", defaulted(ShapeKind::Integer, 100, "The most lines to give")),
            ],
            body(files::search_files),
        ),
        tool(
            prefix,
            "read",
            format!("Reads a text file of {place}, the whole of it or a range of its lines."),
            vec![
                ("path", required(ShapeKind::String, &path("The file"))),
                ("from_line", optional(ShapeKind::Integer, "The first line to give, from 1")),
                ("to_line", optional(ShapeKind::Integer, "The last line to give")),
            ],
            body(files::read_file),
        ),
    ]
}

#[derive(Debug)]
struct Looking {
    of: Arc<dyn Tree>,
    does: Does,
}

#[async_trait]
impl Body for Looking {
    fn kind(&self) -> &'static str {
        "reference"
    }

    fn needs(&self) -> Needs {
        Needs { permissions: vec![self.of.permission().to_owned()], ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let (arguments, does) = (arguments(cx).clone(), self.does);
        let subject = match (self.of.permission(), text(&arguments, "path")) {
            ("files:read", path) if !path.is_empty() => format!("{}/{path}", self.of.subject()),
            _ => self.of.subject(),
        };
        cx.permit(self.of.permission(), &subject)?;
        let root = self.of.root(cx).await?;
        let done = tokio::task::spawn_blocking(move || does(&root, &arguments, false)).await;
        done.unwrap_or_else(|_| Err(failure("the files could not be reached")))
    }
}
