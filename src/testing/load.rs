//! From paths to a suite: which files are test files, reading them with what they import, compiling their workflows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::compile::{Compiled, Entry, Memories};
use crate::decl::test_file::{CaseDecl, CaseEntry, Fixture, Rows, TestFile};
use crate::decl::{Name, Read, ReadCx};
use crate::diag::{Diagnostic, Diagnostics, render, suggest};
use crate::program::{Agent, Program};
use crate::prompt::{Templates, TemplatesBuilder};
use crate::source::{Node, Sources, Span, read};
use crate::world::{SystemWorld, World, normal};

use super::case::{Case, Parts, row_name};
use super::check::{Known, check_case};
use super::exprs::compile_checks;
use super::fill::Filler;
use super::find::test_files;
use super::snapshot::file_part;

/// How deep test files may import one another.
const IMPORTS_MAX: usize = 16;

/// Test files, read and checked.
pub struct Suite {
    /// The project's root.
    pub root: PathBuf,
    /// The files that places point into.
    pub sources: Sources,
    /// The test files in the order of their paths.
    pub files: Vec<SuiteFile>,
}

/// One test file.
pub struct SuiteFile {
    /// Its path, relative to the root.
    pub path: String,
    /// Its cases in order; one with parameters is there for each row.
    pub cases: Vec<Case>,
    /// The program that its cases run.
    pub program: Arc<Program>,
    /// The agent that its cases run.
    pub agent: Arc<Agent>,
    /// What the places of the program point into.
    pub(super) program_sources: Arc<Sources>,
    /// The exprs of its cases.
    pub(super) templates: Arc<Templates>,
}

/// A workflow that cannot be compiled.
pub struct Broken {
    /// What is wrong.
    pub findings: Vec<Diagnostic>,
    /// What its places point into.
    pub sources: Sources,
}

/// What loading gave.
pub struct Loaded {
    /// The files that could be read.
    pub suite: Suite,
    /// What is wrong in the test files.
    pub findings: Vec<Diagnostic>,
    /// Workflows with errors.
    pub broken: Vec<Broken>,
}

impl Loaded {
    /// Whether something is an error, so that nothing should run.
    pub fn has_errors(&self) -> bool {
        let error = |found: &Diagnostic| found.severity == crate::diag::Severity::Error;
        !self.broken.is_empty() || self.findings.iter().any(error)
    }

    /// What is wrong, for people; `None` when nothing is.
    pub fn findings_text(&self) -> Option<String> {
        if !self.has_errors() {
            return None;
        }
        let mut text = render::human(&self.findings, &self.suite.sources, render::Options::default());
        for broken in &self.broken {
            text += &render::human(&broken.findings, &broken.sources, render::Options::default());
        }
        Some(text)
    }
}

impl Suite {
    /// Reads the test files at `paths` (files or directories, relative to `root`); all of the project without any.
    pub fn load(root: &Path, paths: &[PathBuf]) -> Loaded {
        Suite::load_in(&SystemWorld::new(root), root, paths, &mut Memories::default())
    }

    /// [`Suite::load`] with the files as `world` has them; workflows that a round before compiled are compiled again.
    pub fn load_in(world: &dyn World, root: &Path, paths: &[PathBuf], memories: &mut Memories) -> Loaded {
        let mut loader = Loader {
            world,
            memories,
            sources: Sources::new(),
            findings: Diagnostics::new(),
            read: IndexMap::new(),
            programs: IndexMap::new(),
            broken: Vec::new(),
        };
        let files = test_files(world, paths);
        let files: Vec<SuiteFile> = files.iter().filter_map(|path| loader.file(path)).collect();
        let findings = loader.findings.sorted(&loader.sources);
        let suite = Suite { root: root.to_owned(), sources: loader.sources, files };
        Loaded { suite, findings, broken: loader.broken }
    }

    /// Where a span begins, as `file:line:column`.
    pub fn place(&self, span: Span) -> String {
        let source = self.sources.get(span.file);
        let (line, column) = source.line_column(span.start);
        format!("{}:{line}:{column}", source.path())
    }

    /// How many cases there are.
    pub fn len(&self) -> usize {
        self.files.iter().map(|file| file.cases.len()).sum()
    }

    /// Whether there is no case.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A file that was read, and the fixtures and defaults that hold in it.
#[derive(Clone)]
struct ReadFile {
    decl: Arc<TestFile>,
    fixtures: IndexMap<String, Fixture>,
    defaults: Vec<Fixture>,
}

/// What a test file is about: a program, its first agent, and the files that it was made of.
type Subject = (Arc<Program>, Arc<Agent>, Arc<Sources>);

struct Loader<'w> {
    world: &'w dyn World,
    memories: &'w mut Memories,
    sources: Sources,
    findings: Diagnostics,
    read: IndexMap<String, Option<ReadFile>>,
    programs: IndexMap<PathBuf, Option<Subject>>,
    broken: Vec<Broken>,
}

impl Loader<'_> {
    fn file(&mut self, path: &Path) -> Option<SuiteFile> {
        let path = path.to_string_lossy().replace('\\', "/");
        let file = self.read_file(&path, None, &mut Vec::new())?;
        let decl = file.decl.clone();
        let Some(workflow) = &decl.workflow else {
            if !decl.partial.0 {
                let span = Span::empty(decl.place.0.file, decl.place.0.start);
                self.findings.push(
                    Diagnostic::error("missing-key", span, "a test file with cases needs the key `workflow`")
                        .help("add `workflow: ../workflows/….yaml`, relative to this file"),
                );
            }
            return None;
        };
        let (program, agent, program_sources) = self.program(&path, workflow)?;
        let mut builder = TemplatesBuilder::new(agent.types.clone());
        let known = Known::of(&program, &agent);
        let mut cases: Vec<Case> = Vec::new();
        let mut snapshot_names: BTreeSet<String> = BTreeSet::new();
        for (name, entry) in decl.cases.iter() {
            for (row, parameters, case) in self.rows(entry) {
                let used = self.fixtures(&file, &case);
                let mut found = Vec::new();
                let parts = Parts::of(&Case::layers(&file.defaults, used, &case), &mut found);
                let full = row_name(&name.value, row.as_ref().map(|row| row.value.as_str()));
                if !snapshot_names.insert(file_part(&full)) {
                    let span = row.map_or(name.span, |row| row.span);
                    found.push(
                        Diagnostic::error(
                            "duplicate-name",
                            span,
                            format!("the snapshots of the case `{full}` would have the names of another's"),
                        )
                        .help("rename one of them"),
                    );
                }
                check_case(&known, &case, &parts, &mut found);
                let judged = |check: &_| compile_checks(check, &known, &case, &parameters, &mut builder, &mut found);
                let checks = case.head.expect.as_ref().map(judged).unwrap_or_default();
                self.findings.extend(found);
                cases.push(Case {
                    name: full,
                    base: name.value.clone(),
                    span: name.span,
                    skip: case.head.skip.as_ref().map(|why| why.value.clone()),
                    parameters,
                    goal: case.head.goal.as_ref().map(|goal| goal.value.clone()),
                    returns: case.head.returns.as_ref().map(|name| name.value.clone()),
                    expect: case.head.expect,
                    checks,
                    parts,
                });
            }
        }
        Some(SuiteFile { path, cases, program, agent, program_sources, templates: builder.build() })
    }

    /// The runs of a case: the row's label, its parameters, the case with them filled in.
    fn rows(&mut self, entry: &CaseEntry) -> Vec<(Option<Name>, Map<String, Value>, CaseDecl)> {
        let (Rows(rows), node) = match entry {
            CaseEntry::One(case) => return vec![(None, Map::new(), (**case).clone())],
            CaseEntry::Each { rows, node } => (rows, node),
        };
        let mut names: Vec<String> = Vec::new();
        for (_, row) in rows {
            let keys = row.as_map().into_iter().flat_map(|map| map.keys());
            names.extend(
                keys.filter(|key| !names.iter().any(|name| name == key)).map(str::to_owned).collect::<Vec<_>>(),
            );
        }
        let mut found = Vec::new();
        let filler = Filler::new(node, &names, &mut found);
        let mut cases = Vec::new();
        for (label, row) in rows {
            let Value::Object(parameters) = row.to_json() else { continue };
            for name in names.iter().filter(|name| !parameters.contains_key(*name)) {
                found.push(
                    Diagnostic::error("missing-key", row.span, format!("this row has no `{name}`, which another has"))
                        .help(format!("add `{name}: …`")),
                );
            }
            let node = filler.fill(&parameters, &mut found);
            let mut cx = ReadCx::default();
            let case = CaseDecl::read(&node, &mut cx);
            found.extend(cx.diagnostics);
            cases.extend(case.map(|case| (Some(label.clone()), parameters, case)));
        }
        self.findings.extend(found);
        cases
    }

    /// The fixtures that a case uses.
    fn fixtures(&mut self, file: &ReadFile, case: &CaseDecl) -> Vec<Fixture> {
        let mut used = Vec::new();
        for name in case.head.r#use.iter() {
            if let Some(fixture) = file.fixtures.get(&name.value) {
                used.push(fixture.clone());
                continue;
            }
            let help = match file.fixtures.is_empty() {
                true => "declare it: `fixtures: {…}`, or `import` the file that does".to_owned(),
                false => suggest::near_or_all(&name.value, file.fixtures.keys().map(String::as_str), "the fixtures"),
            };
            let message = format!("there is no fixture `{}`", name.value);
            self.findings.push(Diagnostic::error("unknown-fixture", name.span, message).help(help));
        }
        used
    }

    /// Reads a file with what it imports; `from` is the import's place.
    fn read_file(&mut self, path: &str, from: Option<Span>, open: &mut Vec<String>) -> Option<ReadFile> {
        if let Some(read) = self.read.get(path) {
            return read.clone();
        }
        let text = match self.world.read(Path::new(path)) {
            Ok(text) => text,
            Err(error) => {
                self.findings.push(error.diagnostic(path, from));
                self.read.insert(path.to_owned(), None);
                return None;
            }
        };
        let id = self.sources.add(path, text);
        let (node, errors) = read(id, self.sources.get(id));
        self.findings.extend(errors.into_iter().map(Diagnostic::from));
        let decl = node.and_then(|node| self.decl(&node));
        let Some(decl) = decl else {
            self.read.insert(path.to_owned(), None);
            return None;
        };
        let mut read = ReadFile { decl: Arc::new(decl), fixtures: IndexMap::new(), defaults: Vec::new() };
        open.push(path.to_owned());
        let decl = read.decl.clone();
        for import in decl.import.iter() {
            if let Some(imported) = self.import(path, import, open) {
                read.fixtures.extend(imported.fixtures);
                read.defaults.extend(imported.defaults);
            }
        }
        open.pop();
        read.fixtures.extend(decl.fixtures.iter().map(|(name, fixture)| (name.value.clone(), fixture.clone())));
        read.defaults.extend(decl.defaults.clone());
        self.read.insert(path.to_owned(), Some(read.clone()));
        Some(read)
    }

    fn decl(&mut self, node: &Node) -> Option<TestFile> {
        let mut cx = ReadCx::default();
        let decl = TestFile::read(node, &mut cx);
        self.findings.extend(cx.diagnostics);
        decl
    }

    fn import(&mut self, path: &str, import: &Name, open: &mut Vec<String>) -> Option<ReadFile> {
        let target = self.beside(path, import)?;
        let target = target.to_string_lossy().replace('\\', "/");
        if open.contains(&target) || open.len() > IMPORTS_MAX {
            self.findings.push(
                Diagnostic::error("import-cycle", import.span, format!("`{}` leads back to this file", import.value))
                    .help("take the import out"),
            );
            return None;
        }
        self.read_file(&target, Some(import.span), open)
    }

    /// A path that is relative to the file that names it, relative to the root.
    fn beside(&mut self, file: &str, name: &Name) -> Option<PathBuf> {
        let dir = Path::new(file).parent().unwrap_or(Path::new(""));
        let found = normal(&dir.join(&name.value));
        if found.is_none() {
            self.findings.push(
                Diagnostic::error("path-escapes", name.span, format!("`{}` leads out of the project", name.value))
                    .help("paths are relative to the file that names them, and stay within the project"),
            );
        }
        found
    }

    fn program(&mut self, file: &str, workflow: &Name) -> Option<Subject> {
        let path = self.beside(file, workflow)?;
        if !self.world.exists(&path) {
            let dir = path.parent().unwrap_or(Path::new("")).to_owned();
            let names: Vec<String> =
                self.world.list(&dir).iter().map(|path| path.to_string_lossy().into_owned()).collect();
            let shown = path.to_string_lossy();
            let near = suggest::nearest(&shown, names.iter().map(String::as_str)).into_iter().next();
            let message = format!("there is no file `{shown}`");
            let near = near.map(|near| format!("did you mean `{near}`? Paths are relative to this file"));
            self.findings.push(
                Diagnostic::error("file-not-found", workflow.span, message)
                    .help(near.unwrap_or_else(|| "paths are relative to this file".to_owned())),
            );
            return None;
        }
        if let Some(known) = self.programs.get(&path) {
            return known.clone();
        }
        let compiled = self.memories.compile(self.world, Entry::File(path.clone()));
        let found = self.take(compiled, workflow);
        self.programs.insert(path, found.clone());
        found
    }

    fn take(&mut self, mut compiled: Compiled, workflow: &Name) -> Option<Subject> {
        if compiled.diagnostics.has_errors() {
            let findings = std::mem::take(&mut compiled.diagnostics).sorted(&compiled.sources);
            self.broken.push(Broken { findings, sources: compiled.sources });
            return None;
        }
        let program = compiled.program?;
        let Some(agent) = program.agents.first().cloned() else {
            let message = format!("`{}` declares no agent", workflow.value);
            self.findings.push(
                Diagnostic::error("unknown-agent", workflow.span, message)
                    .help("a workflow file begins with `agent: name`"),
            );
            return None;
        };
        Some((program, agent, Arc::new(compiled.sources)))
    }
}
