//! `check [PATH…]`: every error and warning of the project; no model is called.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compile::{Checked, Entry, Memories};
use crate::diag::{Diagnostic, Diagnostics, Severity, fix, render};
use crate::program::Program;
use crate::source::Sources;
use crate::testing::{Suite, SuiteFile, is_test_file};
use crate::world::watch::Watch;
use crate::world::{Snapshot, SystemWorld, World};

use super::args::{CheckArgs, Format, Global};
use super::loaded::render_options;
use super::output::{BOLD, DIM, GREEN, RED, YELLOW};
use super::project::{Located, Target, locate, root_of_command};
use super::{Exit, Fault, Out};

/// Checks, and with `--fix` corrects what is sure and checks again.
pub(super) fn check(args: &CheckArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let (root, scopes) = scopes(args, global)?;
    if args.watch {
        return watched(args, &root, &scopes, out);
    }
    let world = SystemWorld::new(&root);
    let mut report = Report::of(&world, &scopes, args.strict, &mut Memories::default());
    let mut fixed = 0;
    // A correction may uncover the next one (a misspelt key hid its value), so a few rounds are made.
    for _ in 0..FIX_ROUNDS_MAX {
        let applied = if args.fix { report.apply_fixes(&root)? } else { 0 };
        if applied == 0 {
            break;
        }
        fixed += applied;
        report = Report::of(&world, &scopes, args.strict, &mut Memories::default());
    }
    report.show(args.format, fixed, out);
    let exit = if report.errors() > 0 { Exit::Wrong } else { Exit::Done };
    // The command ends here: taking a large program apart would be a tenth of its time.
    std::mem::forget(report);
    Ok(exit)
}

/// Checks, and checks again at each edit, until the command is interrupted.
fn watched(args: &CheckArgs, root: &Path, scopes: &Scopes, out: &Out) -> Result<Exit, Fault> {
    let mut watch = Watch::new(root)?;
    let mut snapshot = Snapshot::new(Arc::new(SystemWorld::new(root)));
    let mut memories = Memories::default();
    loop {
        Report::of(&snapshot, scopes, args.strict, &mut memories).show(args.format, 0, out);
        watch.wait_for_edit(&snapshot)?;
        snapshot = snapshot.next();
        memories.next_round();
        // Rounds are told apart; on a terminal each begins on an empty screen.
        out.note(if out.live { "\x1b[2J\x1b[H" } else { "" });
    }
}

/// How often `--fix` corrects and checks again.
const FIX_ROUNDS_MAX: usize = 5;

/// What is checked: the project and, when paths were given, the places whose findings are shown.
struct Scopes {
    entries: Vec<Entry>,
    /// Test files; empty: all of the project. `None`: none are looked at.
    tests: Option<Vec<PathBuf>>,
    /// Findings of other files are left out; empty: none are.
    only: Vec<PathBuf>,
}

fn scopes(args: &CheckArgs, global: &Global) -> Result<(PathBuf, Scopes), Fault> {
    let Some(first) = args.paths.first() else {
        return Ok((root_of_command(global)?, Scopes::project()));
    };
    let (mut entries, mut tests, mut only) = (Vec::new(), Vec::new(), Vec::new());
    let mut root: Option<PathBuf> = None;
    for path in &args.paths {
        let located = locate_path(path, global)?;
        if root.get_or_insert_with(|| located.root.clone()) != &located.root {
            return Err(Fault::wrong(format!(
                "`{}` and `{}` belong to different projects",
                first.display(),
                path.display()
            ))
            .help("check them one by one"));
        }
        match located.target {
            Target::File(file) if is_test_file(&SystemWorld::new(&located.root), &file) => tests.push(file),
            Target::File(file) => entries.push(Entry::File(file)),
            Target::Agent(name) => entries.push(Entry::Agent(name)),
            Target::Directory(dir) => {
                if !dir.as_os_str().is_empty() {
                    only.push(dir);
                }
                entries.push(Entry::Project);
            }
        }
    }
    let tests = match entries.contains(&Entry::Project) {
        true => Some(Vec::new()),
        false => Some(tests).filter(|tests| !tests.is_empty()),
    };
    Ok((root.unwrap_or_default(), Scopes { entries, tests, only }))
}

impl Scopes {
    fn project() -> Scopes {
        Scopes { entries: vec![Entry::Project], tests: Some(Vec::new()), only: Vec::new() }
    }
}

/// A file, a directory of a project, or an agent's name.
fn locate_path(path: &Path, global: &Global) -> Result<Located, Fault> {
    if !path.is_dir() {
        return locate(&path.to_string_lossy(), global);
    }
    let dir = std::fs::canonicalize(path)
        .map_err(|error| Fault::wrong(format!("`{}` cannot be read: {error}", path.display())))?;
    let root = match &global.project {
        Some(_) => root_of_command(global)?,
        None => super::project::root_of(&dir, true),
    };
    let below = dir.strip_prefix(&root).unwrap_or(Path::new("")).to_owned();
    Ok(Located { root, target: Target::Directory(below) })
}

/// Everything that was found.
#[derive(Default)]
struct Report {
    parts: Vec<Part>,
    checked: Checked,
    /// What was made on the way. It is kept so that it need not be taken apart.
    programs: Vec<Option<Arc<Program>>>,
    files: Vec<SuiteFile>,
}

/// Findings, and the files that they point into.
struct Part {
    found: Vec<Diagnostic>,
    sources: Sources,
}

impl Report {
    fn of(world: &dyn World, scopes: &Scopes, strict: bool, memories: &mut Memories) -> Report {
        let mut report = Report::default();
        for entry in &scopes.entries {
            let compiled = memories.compile(world, entry.clone());
            report.checked.extend(compiled.checked);
            report.programs.push(compiled.program);
            report.add(compiled.diagnostics, compiled.sources, scopes, strict);
        }
        if let Some(paths) = &scopes.tests {
            report.add_tests(world, paths, scopes, strict, memories);
        }
        report
    }

    /// Test files are checked as `test` does; what is wrong in their workflows is told once.
    fn add_tests(
        &mut self,
        world: &dyn World,
        paths: &[PathBuf],
        scopes: &Scopes,
        strict: bool,
        memories: &mut Memories,
    ) {
        let loaded = Suite::load_in(world, world.root().unwrap_or(Path::new("")), paths, memories);
        self.checked.test_files += loaded.suite.files.len();
        self.checked.cases += loaded.suite.len();
        for broken in loaded.broken {
            let known: Vec<String> = self.parts.iter().flat_map(Part::lines).collect();
            let part = Part { found: broken.findings, sources: broken.sources };
            let lines = part.lines();
            let new = part.found.into_iter().zip(lines).filter(|(_, line)| !known.contains(line));
            self.add(new.map(|(found, _)| found).collect(), part.sources, scopes, strict);
        }
        self.add(loaded.findings.into_iter().collect(), loaded.suite.sources, scopes, strict);
        self.files = loaded.suite.files;
    }

    fn add(&mut self, mut found: Diagnostics, sources: Sources, scopes: &Scopes, strict: bool) {
        if strict {
            found.make_strict();
        }
        let mut found = found.sorted(&sources);
        found.retain(|found| scopes.only.is_empty() || scopes.only.iter().any(|dir| is_below(found, &sources, dir)));
        self.parts.push(Part { found, sources });
    }

    fn found(&self) -> impl Iterator<Item = &Diagnostic> {
        self.parts.iter().flat_map(|part| &part.found)
    }

    fn errors(&self) -> usize {
        self.count(Severity::Error)
    }

    fn count(&self, severity: Severity) -> usize {
        self.found().filter(|found| found.severity == severity).count()
    }

    /// Writes the sure corrections into their files; the number applied.
    fn apply_fixes(&self, root: &Path) -> Result<usize, Fault> {
        let mut applied = 0;
        let mut written: Vec<String> = Vec::new();
        for Part { found, sources } in &self.parts {
            for (id, source) in sources.iter() {
                let of_file = |d: &&Diagnostic| d.fix.as_ref().is_some_and(|fix| fix.span.file == id);
                let mut fixes: Vec<_> = found.iter().filter(of_file).filter_map(|d| d.fix.clone()).collect();
                fixes.dedup_by(|a, b| a.span == b.span && a.replacement == b.replacement);
                if fixes.is_empty() || written.iter().any(|path| path == source.path()) {
                    continue;
                }
                applied += fixes.len();
                let path = root.join(source.path());
                std::fs::write(&path, fix::apply(source.text(), &fixes))
                    .map_err(|error| Fault::failed(format!("`{}` cannot be written: {error}", path.display())))?;
                written.push(source.path().to_owned());
            }
        }
        Ok(applied)
    }

    fn show(&self, format: Format, fixed: usize, out: &Out) {
        if out.json {
            let document = |part: &Part| render::json(&part.found, &part.sources, self.checked.to_json());
            out.document(&merged(self.parts.iter().map(document).collect()));
            return;
        }
        for Part { found, sources } in &self.parts {
            let text = match format {
                Format::Human => render::human(found, sources, render_options(out.color_err)),
                Format::Short => render::short(found, sources),
            };
            if !text.is_empty() {
                // Findings are diagnostics: they go to stderr, and are shown when quiet too.
                Out { quiet: false, ..*out }.note(text.trim_end());
            }
        }
        if out.quiet {
            return;
        }
        if fixed > 0 {
            out.line(out.paint(GREEN, format!("corrected {fixed} mistake{}", plural(fixed))));
        }
        let (errors, warnings) = (self.errors(), self.count(crate::diag::Severity::Warning));
        let verdict = match (errors, warnings) {
            (0, 0) => out.paint(GREEN, "no mistakes found"),
            (0, n) => out.paint(YELLOW, format!("{n} warning{}", plural(n))),
            (n, 0) => out.paint(RED, format!("{n} error{}", plural(n))),
            (n, m) => out.paint(RED, format!("{n} error{}, {m} warning{}", plural(n), plural(m))),
        };
        out.line(out.paint(BOLD, verdict));
        for line in self.checked.lines() {
            out.line(out.paint(DIM, line));
        }
        let fixable = self.found().filter(|found| found.fix.is_some()).count();
        if fixable > 0 {
            out.line(out.paint(DIM, format!("{fixable} can be corrected by `agent-run check --fix`")));
        }
    }
}

impl Part {
    /// Each finding in one line.
    fn lines(&self) -> Vec<String> {
        self.found.iter().map(|found| render::short(std::slice::from_ref(found), &self.sources)).collect()
    }
}

fn is_below(diagnostic: &Diagnostic, sources: &Sources, dir: &Path) -> bool {
    diagnostic.span.is_none_or(|span| Path::new(sources.get(span.file).path()).starts_with(dir))
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// One document for several scopes: counts are added, findings follow one another.
fn merged(documents: Vec<serde_json::Value>) -> serde_json::Value {
    let mut documents = documents.into_iter();
    let mut all = documents.next().unwrap_or_default();
    for document in documents {
        for key in ["errors", "warnings"] {
            all[key] = (all[key].as_u64().unwrap_or(0) + document[key].as_u64().unwrap_or(0)).into();
        }
        if let (Some(to), Some(from)) = (all["diagnostics"].as_array_mut(), document["diagnostics"].as_array()) {
            to.extend(from.iter().cloned());
        }
    }
    all
}
