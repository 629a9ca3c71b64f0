//! `builtin:files`: files of the project, read, found and changed; none outside of it, none hidden.

use futures::FutureExt;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use crate::action::context::{Context, Failure};
use crate::tool::Tool;
use crate::value::ShapeKind;

use super::glob::{Glob, REGEX_BYTES_MAX};
use super::root::{FILES_MAX, Root};
use super::{Native, arguments, count, defaulted, failure, optional, required, text, tool};

/// The most entries that are listed, and lines that are found.
const ANSWERS_MAX: usize = 500;
/// The longest line that is shown of a file that was found, in characters.
const LINE_CHARS_MAX: usize = 400;

pub(super) fn tools() -> Vec<Tool> {
    let read = |run| Native { kind: "files", permissions: &["files:read"], run };
    let path = |what: &str| required(ShapeKind::String, what);
    vec![
        tool(
            "read_file",
            "Reads a text file of the project, the whole of it or a range of its lines.",
            vec![
                ("path", path("Relative to the project, such as docs/plan.md")),
                ("from_line", optional(ShapeKind::Integer, "The first line to give, from 1").least(1)),
                ("to_line", optional(ShapeKind::Integer, "The last line to give").least(1)),
            ],
            read(|cx| blocking(cx, "files:read", false, read_file).boxed()),
        ),
        tool(
            "list_files",
            "Lists a directory of the project, directories with a / at their end. With a pattern it lists all files at \
             any depth that fit.",
            vec![
                (
                    "path",
                    defaulted(ShapeKind::String, "", "The directory, relative to the project; all of it otherwise"),
                ),
                (
                    "pattern",
                    optional(ShapeKind::String, "Such as *.md or src/**/*.{yaml,yml}, relative to the directory"),
                ),
            ],
            read(|cx| blocking(cx, "files:read", false, list_files).boxed()),
        ),
        tool(
            "search_files",
            "Finds the lines of the project's text files that fit a regular expression, as path:line: text.",
            vec![
                ("pattern", path("A regular expression (RE2 syntax)")),
                (
                    "path",
                    defaulted(ShapeKind::String, "", "The directory, relative to the project; all of it otherwise"),
                ),
                ("files", optional(ShapeKind::String, "Only files that fit this, such as *.md")),
                ("ignore_case", defaulted(ShapeKind::Boolean, false, "Upper and lower case are the same")),
                ("max", defaulted(ShapeKind::Integer, 100, "The most lines to give").least(1)),
            ],
            read(|cx| blocking(cx, "files:read", false, search_files).boxed()),
        ),
        tool(
            "write_file",
            "Writes a text file of the project. What it held before is replaced; directories are created.",
            vec![
                ("path", path("Relative to the project, such as docs/plan.md")),
                ("content", required(ShapeKind::String, "The whole text of the file")),
            ],
            Native {
                kind: "files",
                permissions: &["files:write"],
                run: |cx| blocking(cx, "files:write", true, write_file).boxed(),
            },
        ),
        // A piece may be in what takes its place: done twice it would not be the same.
        Tool {
            idempotent: false,
            ..tool(
                "edit_file",
                "Replaces a piece of a text file of the project by another. The piece must be in the file exactly once, \
             unless all is true.",
                vec![
                    ("path", path("Relative to the project, such as docs/plan.md")),
                    (
                        "old",
                        required(ShapeKind::String, "The piece as it is in the file, white space included").short(1),
                    ),
                    ("new", required(ShapeKind::String, "What comes in its place")),
                    ("all", defaulted(ShapeKind::Boolean, false, "Replaces the piece wherever it is")),
                ],
                Native {
                    kind: "files",
                    permissions: &["files:read", "files:write"],
                    run: |cx| blocking(cx, "files:write", true, edit_file).boxed(),
                },
            )
        },
    ]
}

/// Limits of a parameter.
trait Limited {
    /// Numbers from `least` on.
    fn least(self, least: u64) -> Self;
    /// Texts from so many characters on.
    fn short(self, least: u64) -> Self;
}

impl Limited for crate::value::Field {
    fn least(mut self, least: u64) -> Self {
        self.shape = self.shape.with("minimum", least);
        self
    }
    fn short(mut self, least: u64) -> Self {
        self.shape = self.shape.with("minLength", least);
        self
    }
}

/// What a tool of this group does once it is permitted; `dry` when nothing may be changed.
type Does = fn(&Root, &Map<String, Value>, dry: bool) -> Result<Value, Failure>;

/// Asks for the permissions and does the work where it does not hold up others.
async fn blocking(cx: &dyn Context, permission: &str, writes: bool, does: Does) -> Result<Value, Failure> {
    let arguments = arguments(cx).clone();
    let path = text(&arguments, "path");
    let shown = Root::relative(path)?.to_string_lossy().replace('\\', "/");
    let shown = if shown.is_empty() { ".".to_owned() } else { shown };
    if writes && arguments.contains_key("old") {
        cx.permit("files:read", &shown)?;
    }
    cx.permit(permission, &shown)?;
    let Some(dir) = cx.world().root().map(std::path::Path::to_owned) else {
        return Err(failure("the project is not on disk, so its files cannot be reached"));
    };
    let dry = cx.dry_run();
    let done = tokio::task::spawn_blocking(move || does(&Root::new(&dir)?, &arguments, dry)).await;
    done.unwrap_or_else(|_| Err(failure("the files could not be reached")))
}

pub(crate) fn read_file(root: &Root, arguments: &Map<String, Value>, _: bool) -> Result<Value, Failure> {
    let path = text(arguments, "path");
    let content = root.text(path)?;
    read_text(&content, path, arguments)
}

pub(crate) fn list_files(root: &Root, arguments: &Map<String, Value>, _: bool) -> Result<Value, Failure> {
    let dir = text(arguments, "path");
    let glob = pattern(arguments, "pattern")?;
    let (entries, is_cut) = root.list(dir, glob.is_some())?;
    let prefix = prefix(dir)?;
    let fits = |path: &str| glob.as_ref().is_none_or(|glob| glob.fits(path.strip_prefix(&*prefix).unwrap_or(path)));
    let found: Vec<String> = entries
        .into_iter()
        .filter(|entry| fits(&entry.path))
        .map(
            |entry| {
                if entry.path.ends_with('/') { entry.path } else { format!("{} ({} bytes)", entry.path, entry.bytes) }
            },
        )
        .collect();
    Ok(answer(found, ANSWERS_MAX, is_cut, "no file fits"))
}

/// What all paths under a directory begin with.
fn prefix(dir: &str) -> Result<String, Failure> {
    let inside = Root::relative(dir)?.to_string_lossy().replace('\\', "/");
    Ok(if inside.is_empty() { inside } else { format!("{inside}/") })
}

fn pattern(arguments: &Map<String, Value>, name: &str) -> Result<Option<Glob>, Failure> {
    let written = arguments.get(name).and_then(Value::as_str).filter(|written| !written.trim().is_empty());
    written.map(Glob::new).transpose().map_err(failure)
}

pub(crate) fn search_files(root: &Root, arguments: &Map<String, Value>, _: bool) -> Result<Value, Failure> {
    let regex = sought(arguments)?;
    let (dir, glob) = (text(arguments, "path"), pattern(arguments, "files")?);
    let most = count(arguments, "max").unwrap_or(100).min(ANSWERS_MAX);
    let (entries, mut is_cut) = root.list(dir, true)?;
    let prefix = prefix(dir)?;
    let mut found = Vec::new();
    for entry in entries {
        let inside = entry.path.strip_prefix(&*prefix).unwrap_or(&entry.path);
        if glob.as_ref().is_some_and(|glob| !glob.fits(inside)) {
            continue;
        }
        // Binary, large and unreadable files are none that text is looked for in.
        let Ok(content) = root.text(&entry.path) else { continue };
        found.extend(fitting(&regex, &content).map(|(line, text)| format!("{}:{line}: {text}", entry.path)));
        if found.len() > most {
            is_cut = false;
            break;
        }
    }
    Ok(answer(found, most, is_cut, "no line fits"))
}

/// The regular expression of a search.
fn sought(arguments: &Map<String, Value>) -> Result<Regex, Failure> {
    let written = text(arguments, "pattern");
    let ignore_case = arguments.get("ignore_case").and_then(Value::as_bool).unwrap_or_default();
    let regex = RegexBuilder::new(written).case_insensitive(ignore_case).size_limit(REGEX_BYTES_MAX).build();
    regex.map_err(|why| failure(format!("`{written}` is no regular expression: {}", last_line(&why))))
}

/// Finds the lines of one text that fit, as line: text; the arguments are those of [`search_files`].
pub(crate) fn search_text(content: &str, arguments: &Map<String, Value>) -> Result<Value, Failure> {
    let regex = sought(arguments)?;
    let most = count(arguments, "max").unwrap_or(100).min(ANSWERS_MAX);
    let found = fitting(&regex, content).take(most + 1).map(|(line, text)| format!("{line}: {text}"));
    Ok(answer(found.collect(), most, false, "no line fits"))
}

/// A text, or a range of its lines; the arguments are those of [`read_file`].
pub(crate) fn read_text(content: &str, shown: &str, arguments: &Map<String, Value>) -> Result<Value, Failure> {
    let (from, to) = (count(arguments, "from_line"), count(arguments, "to_line"));
    if from.is_none() && to.is_none() {
        return Ok(Value::from(content));
    }
    let (from, to) = (from.unwrap_or(1), to.unwrap_or(usize::MAX));
    let total = content.lines().count();
    if from > to {
        return Err(failure(format!("`from_line` is {from}, which is after `to_line`, {to}")));
    }
    if from > total {
        return Err(failure(format!("`{shown}` has {total} lines, so there is no line {from}")));
    }
    let lines = content.split_inclusive('\n').skip(from - 1).take(to - from + 1);
    Ok(Value::from(lines.collect::<String>()))
}

/// Lines that fit, with their numbers, shortened.
fn fitting<'a>(regex: &'a Regex, content: &'a str) -> impl Iterator<Item = (usize, String)> + 'a {
    let lines = content.lines().enumerate().filter(|(_, line)| regex.is_match(line));
    lines.map(|(index, line)| {
        let line = line.trim_end();
        let shown = match line.char_indices().nth(LINE_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        };
        (index + 1, shown)
    })
}

/// What a regular expression's complaint says in its last line, which is the reason.
fn last_line(why: &regex::Error) -> String {
    let text = why.to_string();
    text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
}

/// Lines of an answer as one text, which says where it was cut.
fn answer(mut lines: Vec<String>, most: usize, is_cut: bool, none: &str) -> Value {
    if lines.is_empty() && !is_cut {
        return json!(none);
    }
    if lines.len() > most {
        lines.truncate(most);
        lines.push(format!("… only the first {most} are given; narrow the path or the pattern"));
    } else if is_cut {
        lines.push(format!("… only the first {FILES_MAX} files were looked at; narrow the path"));
    }
    Value::from(lines.join("\n"))
}

fn write_file(root: &Root, arguments: &Map<String, Value>, dry: bool) -> Result<Value, Failure> {
    let (path, content) = (text(arguments, "path"), text(arguments, "content"));
    if dry {
        return Ok(json!(format!("dry run: {} bytes would be written to `{path}`", content.len())));
    }
    root.write(path, content)?;
    Ok(json!(format!("{} bytes are written to `{path}`", content.len())))
}

fn edit_file(root: &Root, arguments: &Map<String, Value>, dry: bool) -> Result<Value, Failure> {
    let (path, old, new) = (text(arguments, "path"), text(arguments, "old"), text(arguments, "new"));
    let all = arguments.get("all").and_then(Value::as_bool).unwrap_or_default();
    let content = root.text(path)?;
    let places = content.matches(old).count();
    if old == new {
        return Err(failure("`old` and `new` are the same"));
    }
    match places {
        0 => return Err(failure(format!("`old` is not in `{path}`; read_file shows its text as it is now"))),
        1 => {}
        _ if all => {}
        many => {
            let message =
                format!("`old` is in `{path}` {many} times; give more of what stands around it, or `all: true`");
            return Err(failure(message));
        }
    }
    let changed = content.replace(old, new);
    let (times, would) = (
        if places == 1 { "one place".to_owned() } else { format!("{places} places") },
        if dry { "would be" } else { "is" },
    );
    if !dry {
        root.write(path, &changed)?;
    }
    let start = if dry { "dry run: " } else { "" };
    Ok(json!(format!("{start}`{path}` {would} changed in {times}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn project() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        for (path, text) in [
            ("docs/a.md", "# One\nstars\nmoon\n"),
            ("docs/deep/b.md", "Stars again\n"),
            ("src/c.txt", "no star here"),
            (".env", "KEY=secret"),
            (".git/config", "token"),
            ("agent-run.yaml", "permissions: {}\n"),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(root.join("image.png"), [0x89, b'P', 0xff, 0]).unwrap();
        fs::write(dir.path().join("outside.txt"), "secret").unwrap();
        let root = Root::new(&root).unwrap();
        (dir, root)
    }

    fn given(arguments: Value) -> Map<String, Value> {
        arguments.as_object().cloned().unwrap_or_default()
    }

    fn said(result: Result<Value, Failure>) -> String {
        match result {
            Ok(value) => value.as_str().unwrap_or_default().to_owned(),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn files_are_read_whole_and_by_lines() {
        let (_dir, root) = project();
        let read = |arguments: Value| said(read_file(&root, &given(arguments), false));
        assert_eq!(read(json!({"path": "docs/a.md"})), "# One\nstars\nmoon\n");
        assert_eq!(read(json!({"path": "./docs/a.md", "from_line": 2, "to_line": 2})), "stars\n");
        assert_eq!(
            read(json!({"path": "docs/a.md", "from_line": 9})),
            "`docs/a.md` has 3 lines, so there is no line 9"
        );
        assert!(read(json!({"path": "docs"})).contains("is a directory"));
        assert!(read(json!({"path": "docs/none.md"})).contains("there is no `docs/none.md`"));
        assert_eq!(read(json!({"path": "image.png"})), "`image.png` is a binary file of 4 bytes, no text");
    }

    #[test]
    fn what_is_outside_or_hidden_is_not_there() {
        let (_dir, root) = project();
        for path in ["../outside.txt", "/etc/passwd", "docs/../../outside.txt", ".env", ".git/config", "docs/.x"] {
            let read = said(read_file(&root, &given(json!({ "path": path })), false));
            assert!(read.contains("leads out of the project") || read.contains("hidden"), "{path}: {read}");
            let write = said(write_file(&root, &given(json!({"path": path, "content": "x"})), false));
            assert!(write.contains("leads out of the project") || write.contains("hidden"), "{path}: {write}");
        }
        let list = said(list_files(&root, &given(json!({"path": ""})), false));
        assert_eq!(list, "agent-run.yaml (16 bytes)\ndocs/\nimage.png (4 bytes)\nsrc/");
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_leave_the_project() {
        let (dir, root) = project();
        let base = dir.path().join("project");
        let link = |to: &std::path::Path, from: &str| std::os::unix::fs::symlink(to, base.join(from)).unwrap();
        link(&dir.path().join("outside.txt"), "out.txt");
        link(dir.path(), "up");
        link(&dir.path().join("new.txt"), "dangling.txt");
        link(&base.join(".env"), "env.txt");
        link(&base.join("agent-run.yaml"), "mine.yaml");
        for path in ["out.txt", "up/outside.txt", "env.txt"] {
            assert!(said(read_file(&root, &given(json!({ "path": path })), false)).contains("leads "), "{path}");
        }
        for path in
            ["out.txt", "up/new.txt", "up/dir/new.txt", "dangling.txt", "env.txt", "mine.yaml", "agent-run.yaml"]
        {
            let result = write_file(&root, &given(json!({"path": path, "content": "x"})), false);
            assert!(result.is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(dir.path().join("outside.txt")).unwrap(), "secret");
        assert!(!dir.path().join("new.txt").exists() && !dir.path().join("dir").exists());
        assert!(!said(list_files(&root, &given(json!({"path": ""})), false)).contains("out.txt"));
    }

    #[test]
    fn lists_and_searches_take_patterns() {
        let (_dir, root) = project();
        let list = |arguments: Value| said(list_files(&root, &given(arguments), false));
        assert_eq!(list(json!({"path": "", "pattern": "*.md"})), "docs/a.md (17 bytes)\ndocs/deep/b.md (12 bytes)");
        assert_eq!(list(json!({"path": "docs", "pattern": "deep/*.md"})), "docs/deep/b.md (12 bytes)");
        assert_eq!(list(json!({"path": "", "pattern": "*.rs"})), "no file fits");
        let search = |arguments: Value| said(search_files(&root, &given(arguments), false));
        assert_eq!(search(json!({"pattern": "^stars"})), "docs/a.md:2: stars");
        assert_eq!(
            search(json!({"pattern": "stars?", "ignore_case": true})),
            "docs/a.md:2: stars\ndocs/deep/b.md:1: Stars again\nsrc/c.txt:1: no star here"
        );
        assert_eq!(search(json!({"pattern": "star", "files": "*.txt"})), "src/c.txt:1: no star here");
        let cut = search(json!({"pattern": "star", "max": 1}));
        assert!(cut.starts_with("docs/a.md:2: stars\n… only the first 1 are given"), "{cut}");
        assert!(search(json!({"pattern": "(a"})).contains("no regular expression: unclosed group"));
        assert!(search(json!({"pattern": "secret|token"})) == "no line fits");
    }

    #[test]
    fn files_are_written_and_edited_as_a_whole() {
        let (dir, root) = project();
        let on_disk = |path: &str| fs::read_to_string(dir.path().join("project").join(path)).unwrap();
        let write = given(json!({"path": "new/dir/x.md", "content": "hello\n"}));
        assert!(said(write_file(&root, &write, true)).starts_with("dry run: 6 bytes"));
        assert!(!dir.path().join("project/new").exists());
        assert_eq!(said(write_file(&root, &write, false)), "6 bytes are written to `new/dir/x.md`");
        assert_eq!(on_disk("new/dir/x.md"), "hello\n");
        let edit = |arguments: Value, dry| said(edit_file(&root, &given(arguments), dry));
        let change = json!({"path": "docs/a.md", "old": "stars\nmoon", "new": "sun"});
        assert_eq!(edit(change.clone(), true), "dry run: `docs/a.md` would be changed in one place");
        assert_eq!(on_disk("docs/a.md"), "# One\nstars\nmoon\n");
        assert_eq!(edit(change, false), "`docs/a.md` is changed in one place");
        assert_eq!(on_disk("docs/a.md"), "# One\nsun\n");
        assert!(edit(json!({"path": "docs/a.md", "old": "mars", "new": "x"}), false).contains("is not in"));
        assert!(edit(json!({"path": "docs/a.md", "old": "n", "new": "x"}), false).contains("2 times"));
        assert!(edit(json!({"path": "docs/a.md", "old": "n", "new": "N", "all": true}), false).contains("2 places"));
        assert_eq!(on_disk("docs/a.md"), "# ONe\nsuN\n");
        let names: Vec<_> =
            fs::read_dir(dir.path().join("project/docs")).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn large_files_are_refused() {
        let (dir, root) = project();
        let file = fs::File::create(dir.path().join("project/big.txt")).unwrap();
        file.set_len(5 * 1024 * 1024).unwrap();
        let read = said(read_file(&root, &given(json!({"path": "big.txt"})), false));
        assert_eq!(read, "`big.txt` has 5242880 bytes, more than the 4 MiB that are read");
        let content = "x".repeat(5 * 1024 * 1024);
        assert!(write_file(&root, &given(json!({"path": "y.txt", "content": content})), false).is_err());
    }
}
