//! Finding and reading the files of a program: the project file, the entry, and everything they import.
//!
//! Nothing is resolved here. Every file is read once, however many agents import it, and every path that was read or
//! looked for is remembered: that is the watch set (runtime.md 6).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use crate::decl::types::{TypeDecl, TypeDeclKind};
use crate::decl::{Json, Module, Name, Read, ReadCx};
use crate::diag::{Diagnostic, Diagnostics, Severity, suggest};
use crate::source::{self, FileId, Node, Source, Sources, Span, Spanned};
use crate::world::{ReadError, World, normal};

use super::again::Memory;

/// Names under which the project file may stand at the root.
pub const PROJECT_FILES: &[&str] = &["agent-run.yaml", "agent-run.yml", "agent-run.toml"];

/// Most modules that one compilation reads; a project with more has lost its way.
const MODULES_MAX: usize = 20_000;

/// From how many files on it pays to read them on two threads.
const PARALLEL_FROM: usize = 32;

/// The directory that paths of `file` (or a directory) are relative to: the nearest ancestor with a project file, else
/// the parent of a `workflows` directory, else the file's own directory. `exists` says whether there is such a file.
pub fn project_root(file: &Path, is_dir: bool, exists: &dyn Fn(&Path) -> bool) -> PathBuf {
    let own = if is_dir { file } else { file.parent().unwrap_or(Path::new("")) };
    let holds_project = |dir: &&Path| PROJECT_FILES.iter().any(|name| exists(&dir.join(name)));
    if let Some(root) = own.ancestors().find(holds_project) {
        return root.to_owned();
    }
    let workflows = own.ancestors().find(|dir| dir.file_name().is_some_and(|name| name == "workflows"));
    workflows.and_then(Path::parent).unwrap_or(own).to_owned()
}

/// A module, by its position in [`Loaded::modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ModuleId(pub(crate) usize);

/// What kind of file a module is, which decides the sections that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModuleKind {
    /// The project file.
    Project,
    /// A file with `agent:`.
    Workflow,
    /// Any other.
    Shared,
}

/// One module that was read.
#[derive(Debug)]
pub(crate) struct LoadedModule {
    /// Its path relative to the root.
    pub(crate) path: String,
    /// What kind of file it is.
    pub(crate) kind: ModuleKind,
    /// What it declares.
    pub(crate) decl: Arc<Module>,
    /// The keys of its sections, in order.
    pub(crate) keys: Vec<Spanned<String>>,
    /// The modules that it imports, in order; imports that close a cycle are left out.
    pub(crate) imports: Vec<ModuleId>,
    /// Whether some import could not be read; names that seem unknown may be declared there.
    pub(crate) lacks_imports: bool,
    /// Where `import: platform` stands.
    pub(crate) platform: Option<Span>,
    /// Names that may be those of agents, in bodies and lists of tools.
    pub(crate) agents_named: Vec<String>,
    /// Names that are declared, but whose declarations could not be read; nothing is said about their use.
    pub(crate) broken: Vec<String>,
    /// Whether references are declared or named anywhere in it.
    pub(crate) names_references: bool,
}

impl LoadedModule {
    /// Whether agents that `import: platform` take it in.
    pub(crate) fn is_platform(&self) -> bool {
        self.kind == ModuleKind::Shared
            && !(self.decl.actions.is_empty() && self.decl.goals.is_empty() && self.decl.conditions.is_empty())
    }
}

/// Where things are; the project file may change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) workflows: String,
    pub(crate) prompts: String,
    pub(crate) references: String,
    pub(crate) schemas: String,
    pub(crate) tests: String,
}

impl Layout {
    fn of(project: Option<&Module>) -> Layout {
        let project = project.and_then(|module| module.project.as_ref());
        let place = |written: Option<&Name>, default: &str| {
            let written = written.map_or(default, |name| name.value.trim_end_matches('/'));
            normal(Path::new(written)).map_or_else(|| default.to_owned(), |path| slashed(&path))
        };
        Layout {
            workflows: place(project.and_then(|p| p.workflows.as_ref()), "workflows"),
            prompts: place(project.and_then(|p| p.prompts.as_ref()), "prompts"),
            references: place(project.and_then(|p| p.references.as_ref()), "references"),
            schemas: place(project.and_then(|p| p.schemas.as_ref()), "schemas"),
            tests: place(project.and_then(|p| p.tests.as_ref()), "tests"),
        }
    }
}

/// A template file under `prompts/`.
#[derive(Clone, Debug)]
pub(crate) struct TemplateFile {
    /// Its file.
    pub(crate) file: FileId,
    /// Its text.
    pub(crate) text: Arc<str>,
}

/// Everything that was read.
pub(crate) struct Loaded<'w> {
    pub(crate) world: &'w dyn World,
    pub(crate) sources: Sources,
    pub(crate) diagnostics: Diagnostics,
    /// Paths that were read or looked for.
    pub(crate) read: IndexSet<PathBuf>,
    pub(crate) modules: Vec<LoadedModule>,
    /// Where files are not YAML or TOML.
    pub(crate) syntax: Vec<Span>,
    /// Where files could not be read as declarations, syntax included.
    pub(crate) read_errors: Vec<Span>,
    pub(crate) project: Option<ModuleId>,
    pub(crate) layout: Layout,
    /// Template files by their names below `prompts/`, such as `star-news/find_news.jinja`.
    pub(crate) templates: BTreeMap<String, TemplateFile>,
    /// JSON Schema files by their path below `schemas/`.
    pub(crate) schemas: BTreeMap<String, Option<Arc<Value>>>,
    /// Agents of the project that were read, by name.
    pub(crate) agents: IndexMap<String, ModuleId>,
    /// The skills of directories that references name.
    pub(crate) skills: IndexMap<PathBuf, Arc<crate::reference::skill::Found>>,
    /// What the compilation before this one has left.
    pub(crate) memory: Memory,
    by_path: IndexMap<String, Option<ModuleId>>,
    listed_agents: Option<IndexMap<String, String>>,
    references_read: bool,
    platform_read: bool,
}

impl<'w> Loaded<'w> {
    /// Reads the project file, when there is one, and the list of templates.
    pub(crate) fn new(world: &'w dyn World) -> Loaded<'w> {
        Loaded::again(world, Memory::default())
    }

    /// The same with what the compilation before has left.
    pub(crate) fn again(world: &'w dyn World, memory: Memory) -> Loaded<'w> {
        let mut loaded = Loaded {
            world,
            sources: memory.sources(),
            memory,
            diagnostics: Diagnostics::new(),
            read: IndexSet::new(),
            modules: Vec::new(),
            syntax: Vec::new(),
            read_errors: Vec::new(),
            project: None,
            layout: Layout::of(None),
            templates: BTreeMap::new(),
            schemas: BTreeMap::new(),
            agents: IndexMap::new(),
            skills: IndexMap::new(),
            by_path: IndexMap::new(),
            listed_agents: None,
            references_read: false,
            platform_read: false,
        };
        for name in PROJECT_FILES {
            loaded.read.insert(PathBuf::from(name));
            if loaded.project.is_none() && world.exists(Path::new(name)) {
                loaded.load_all(vec![(*name).to_owned()]);
                loaded.project = loaded.by_path.get(*name).copied().flatten();
            }
        }
        loaded.layout = Layout::of(loaded.project.map(|id| &*loaded.modules[id.0].decl));
        loaded.refuse_places_outside();
        loaded.read_templates();
        loaded
    }

    /// Reports places of the project file that lead out of the project; the default place holds instead.
    fn refuse_places_outside(&mut self) {
        let Some(decl) = self.project.map(|id| Arc::clone(&self.modules[id.0].decl)) else { return };
        let Some(project) = &decl.project else { return };
        let places = [&project.workflows, &project.prompts, &project.references, &project.schemas, &project.tests];
        for place in places.into_iter().flatten().filter(|place| normal(Path::new(&place.value)).is_none()) {
            self.diagnostics.push(outside(&place.value, Some(place.span)));
        }
    }

    /// The module at a path, read with its imports when it was not yet.
    pub(crate) fn module(&mut self, path: &str) -> Option<ModuleId> {
        if !self.by_path.contains_key(path) {
            self.load_all(vec![path.to_owned()]);
        }
        self.by_path.get(path).copied().flatten()
    }

    /// Reads every module under `workflows/`.
    pub(crate) fn load_workflows(&mut self) {
        let dir = self.layout.workflows.clone();
        let paths = self.list_modules(&dir);
        self.load_all(paths);
    }

    /// Reads the modules that `import: platform` takes in, when a module read so far asks for it.
    pub(crate) fn load_platform(&mut self) {
        if self.platform_read || self.modules.iter().all(|module| module.platform.is_none()) {
            return;
        }
        self.platform_read = true;
        let elsewhere: Vec<PathBuf> =
            [&self.layout.prompts, &self.layout.references, &self.layout.schemas, &self.layout.tests]
                .into_iter()
                .map(PathBuf::from)
                .collect();
        let paths = self.list_modules("");
        let paths = paths.into_iter().filter(|path| {
            if elsewhere.iter().any(|dir| Path::new(path).starts_with(dir)) || PROJECT_FILES.contains(&path.as_str()) {
                return false;
            }
            self.read.insert(PathBuf::from(path));
            self.world.read(Path::new(path)).is_ok_and(|text| has_platform_sections(&text))
        });
        let paths: Vec<String> = paths.collect();
        self.load_all(paths);
    }

    /// Reads the reference sets under `references/`: the files there that have a section `references`.
    pub(crate) fn load_references(&mut self) {
        if std::mem::replace(&mut self.references_read, true) {
            return;
        }
        let dir = self.layout.references.clone();
        let paths = self.list_modules(&dir);
        let is_set =
            |text: &str| text.lines().any(|line| line.starts_with("references:") || line.starts_with("[references"));
        let paths: Vec<String> =
            paths.into_iter().filter(|path| self.world.read(Path::new(path)).is_ok_and(|text| is_set(&text))).collect();
        self.load_all(paths);
    }

    /// Whether some module names references, so that the project's sets have to be read.
    pub(crate) fn names_references(&self) -> bool {
        self.modules.iter().any(|module| module.names_references)
    }

    /// Modules under `references/` that were read.
    pub(crate) fn reference_sets(&self) -> impl Iterator<Item = ModuleId> {
        (0..self.modules.len()).map(ModuleId).filter(|id| self.is_reference_set(*id))
    }

    /// Whether a module stands under `references/`.
    pub(crate) fn is_reference_set(&self, id: ModuleId) -> bool {
        let inside = self.modules[id.0].path.strip_prefix(&self.layout.references);
        inside.is_some_and(|rest| rest.starts_with('/'))
    }

    /// The agent of this name: read already, or found under `workflows/`.
    pub(crate) fn agent(&mut self, name: &str) -> Option<ModuleId> {
        if let Some(found) = self.agents.get(name) {
            return Some(*found);
        }
        let path = self.agent_names().get(name)?.clone();
        self.module(&path);
        self.agents.get(name).copied()
    }

    /// Names of all agents of the project and their files, without reading their modules.
    pub(crate) fn agent_names(&mut self) -> &IndexMap<String, String> {
        if self.listed_agents.is_none() {
            let dir = self.layout.workflows.clone();
            let mut names = IndexMap::new();
            // What was read already is not read again.
            let known = self.agents.iter().map(|(name, id)| (self.modules[id.0].path.clone(), name.clone()));
            let known: IndexMap<String, String> = known.collect();
            for path in self.list_modules(&dir) {
                self.read.insert(PathBuf::from(&path));
                if let Some(name) = known.get(&path) {
                    names.entry(name.clone()).or_insert(path);
                } else if let Ok(text) = self.world.read(Path::new(&path))
                    && let Some(name) = agent_line(&text)
                {
                    names.entry(name).or_insert(path);
                }
            }
            for (name, id) in &self.agents {
                names.entry(name.clone()).or_insert_with(|| self.modules[id.0].path.clone());
            }
            self.listed_agents = Some(names);
        }
        self.listed_agents.get_or_insert_with(IndexMap::new)
    }

    fn list_modules(&mut self, dir: &str) -> Vec<String> {
        self.read.insert(PathBuf::from(dir));
        self.world.list(Path::new(dir)).iter().map(slashed).filter(|path| is_module_path(path)).collect()
    }

    fn read_templates(&mut self) {
        let dir = PathBuf::from(&self.layout.prompts);
        self.read.insert(dir.clone());
        for path in self.world.list(&dir) {
            let Ok(name) = path.strip_prefix(&dir) else { continue };
            if path.extension().is_none_or(|extension| extension != "jinja") {
                continue;
            }
            self.read.insert(path.clone());
            match self.world.read(&path) {
                Ok(text) => {
                    let file = self.sources.add(slashed(&path), Arc::clone(&text));
                    self.templates.insert(slashed(name), TemplateFile { file, text });
                }
                Err(error) => {
                    let message = format!("cannot read `{}`: {error}", slashed(&path));
                    self.diagnostics.push(Diagnostic::error("unreadable-file", None, message));
                }
            }
        }
    }

    /// Reads modules and, round by round, what they import.
    fn load_all(&mut self, paths: Vec<String>) {
        let mut wanted: Vec<(String, Option<Span>)> = paths.into_iter().map(|path| (path, None)).collect();
        let first_new = self.modules.len();
        while !wanted.is_empty() {
            let mut texts: Vec<(String, FileId)> = Vec::new();
            for (path, from) in std::mem::take(&mut wanted) {
                if self.by_path.contains_key(&path) || self.modules.len() + texts.len() >= MODULES_MAX {
                    continue;
                }
                self.by_path.insert(path.clone(), None);
                self.read.insert(PathBuf::from(&path));
                match self.world.read(Path::new(&path)) {
                    Ok(text) => texts.push((path.clone(), self.sources.add(path, text))),
                    Err(error) => self.report_unreadable(&path, from, &error),
                }
            }
            let read = read_modules(&texts, &self.sources, &self.memory);
            for ((path, _), read) in texts.iter().zip(read) {
                self.memory.keep_module(path, &read);
                self.syntax.extend(read.findings.iter().take(read.syntax).filter_map(|found| found.span));
                let errors = read.findings.iter().filter(|found| found.severity == Severity::Error);
                self.read_errors.extend(errors.filter_map(|found| found.span));
                self.diagnostics.extend(read.findings.iter().cloned());
                let Some(module) = &read.module else { continue };
                let id = ModuleId(self.modules.len());
                let loaded = LoadedModule::new(path, module, &read);
                self.by_path.insert(path.clone(), Some(id));
                self.name_agent(&loaded, id);
                wanted.extend(self.imports_of(&loaded).into_iter().map(|(path, span)| (path, Some(span))));
                self.modules.push(loaded);
                let id = self.modules.len() - 1;
                self.read_schemas(id);
            }
        }
        self.link_imports(first_new);
    }

    fn report_unreadable(&mut self, path: &str, from: Option<Span>, error: &ReadError) {
        let diagnostic = match error {
            ReadError::NotFound => {
                let dir = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
                let found: Vec<String> = self.world.list(&dir).iter().map(slashed).collect();
                let found = found.iter().map(String::as_str).filter(|path| is_module_path(path));
                let near = suggest::nearest(path, found);
                let diagnostic = Diagnostic::error("file-not-found", from, format!("there is no file `{path}`"));
                match (near.first(), from) {
                    // As it must be written: relative to the file that imports it.
                    (Some(near), Some(from)) => {
                        let near = relative_to(self.sources.get(from.file).path(), near);
                        diagnostic.help(format!("did you mean `{near}`?"))
                    }
                    (Some(near), None) => diagnostic.help(format!("did you mean `{near}`?")),
                    (None, _) => diagnostic,
                }
            }
            ReadError::Escapes => outside(path, from),
            other => Diagnostic::error("unreadable-file", from, format!("cannot read `{path}`: {other}")),
        };
        self.diagnostics.push(diagnostic);
    }

    fn name_agent(&mut self, module: &LoadedModule, id: ModuleId) {
        let (ModuleKind::Workflow, Some(name)) = (module.kind, &module.decl.agent) else { return };
        let Some(earlier) = self.agents.get(&name.value) else {
            self.agents.insert(name.value.clone(), id);
            return;
        };
        let first = self.modules[earlier.0].decl.agent.as_ref().map(|name| name.span);
        let mut diagnostic =
            Diagnostic::error("duplicate-name", name.span, format!("an agent `{}` is declared already", name.value));
        if let Some(first) = first {
            diagnostic = diagnostic.related(first, "the first is here");
        }
        self.diagnostics.push(diagnostic.help("rename one of them"));
    }

    /// The paths that a module imports, each with its place; findings for those that cannot be imported.
    fn imports_of(&mut self, module: &LoadedModule) -> Vec<(String, Span)> {
        let mut paths = Vec::new();
        for import in module.decl.import.iter().filter(|import| import.value != "platform") {
            match import_path(&module.path, &import.value) {
                Some(path) if is_module_path(&path) => paths.push((path, import.span)),
                Some(path) => {
                    let message = format!("`{path}` is not a module");
                    self.diagnostics.push(
                        Diagnostic::error("bad-import", import.span, message)
                            .help("import a `.yaml`, `.yml` or `.toml` file of this project, or `platform`"),
                    );
                }
                None => self.diagnostics.push(outside(&import.value, Some(import.span))),
            }
        }
        paths
    }

    /// Resolves the imports of modules from `first` on to ids and reports those that close a cycle.
    fn link_imports(&mut self, first: usize) {
        for at in first..self.modules.len() {
            let module = &self.modules[at];
            let imports = module.decl.import.iter().filter_map(|import| import_path(&module.path, &import.value));
            let ids: Vec<ModuleId> = imports.filter_map(|path| self.by_path.get(&path).copied().flatten()).collect();
            self.modules[at].lacks_imports =
                ids.len() < module.decl.import.iter().filter(|i| i.value != "platform").count();
            self.modules[at].imports = ids;
        }
        // Depth-first with the path of modules that are open: an import of an open one closes a cycle.
        let mut done = vec![false; self.modules.len()];
        done[..first].fill(true);
        for start in first..self.modules.len() {
            self.cut_cycles(ModuleId(start), &mut done);
        }
    }

    fn cut_cycles(&mut self, start: ModuleId, done: &mut [bool]) {
        if done[start.0] {
            return;
        }
        let mut open: Vec<(ModuleId, usize)> = vec![(start, 0)];
        while let Some((id, next)) = open.last_mut() {
            let id = *id;
            let Some(import) = self.modules[id.0].imports.get(*next).copied() else {
                done[id.0] = true;
                open.pop();
                continue;
            };
            *next += 1;
            let at = *next - 1;
            if let Some(from) = open.iter().position(|(module, _)| *module == import) {
                let cycle: Vec<ModuleId> = open[from..].iter().map(|(module, _)| *module).collect();
                self.report_cycle(id, import, &cycle);
                self.modules[id.0].imports.remove(at);
                if let Some((_, next)) = open.last_mut() {
                    *next -= 1;
                }
            } else if !done[import.0] {
                open.push((import, 0));
            }
        }
    }

    fn report_cycle(&mut self, from: ModuleId, to: ModuleId, cycle: &[ModuleId]) {
        let place = |from: ModuleId, to: ModuleId| {
            let (module, target) = (&self.modules[from.0], &self.modules[to.0].path);
            let import = module.decl.import.iter();
            let mut import = import.filter(|import| import_path(&module.path, &import.value).as_ref() == Some(target));
            import.next().map(|import| import.span)
        };
        let Some(span) = place(from, to) else { return };
        let path: Vec<String> = cycle.iter().chain([&to]).map(|id| format!("`{}`", self.modules[id.0].path)).collect();
        let mut diagnostic =
            Diagnostic::error("import-cycle", span, format!("this import closes a cycle: {}", path.join(" → ")))
                .help("move what both need into a third file that both import");
        for pair in cycle.windows(2) {
            if let Some(span) = place(pair[0], pair[1]) {
                diagnostic = diagnostic.related(span, "imported here");
            }
        }
        self.diagnostics.push(diagnostic);
    }

    /// Reads the JSON Schema files that the types of a module name.
    fn read_schemas(&mut self, at: usize) {
        let decl = Arc::clone(&self.modules[at].decl);
        for name in schema_names(&decl) {
            if self.schemas.contains_key(&name.value) {
                continue;
            }
            let value = self.read_schema(&name);
            self.schemas.insert(name.value, value.map(Arc::new));
        }
    }

    fn read_schema(&mut self, name: &Name) -> Option<Value> {
        let Some(path) = normal(&Path::new(&self.layout.schemas).join(&name.value)) else {
            self.diagnostics.push(outside(&name.value, Some(name.span)));
            return None;
        };
        self.read.insert(path.clone());
        let shown = slashed(&path);
        let text = match self.world.read(&path) {
            Ok(text) => text,
            Err(ReadError::NotFound) => {
                let dir = PathBuf::from(&self.layout.schemas);
                let names = self.world.list(&dir);
                let names: Vec<String> =
                    names.iter().filter_map(|path| path.strip_prefix(&dir).ok()).map(slashed).collect();
                self.diagnostics.push(
                    Diagnostic::error("file-not-found", name.span, format!("there is no file `{shown}`"))
                        .help(suggest::did_you_mean(&name.value, names.iter().map(String::as_str))),
                );
                return None;
            }
            Err(error) => {
                let message = format!("cannot read `{shown}`: {error}");
                self.diagnostics.push(Diagnostic::error("unreadable-file", name.span, message));
                return None;
            }
        };
        let file = self.sources.add(shown.clone(), Arc::clone(&text));
        let found = match serde_json::from_str::<Value>(&text) {
            Ok(value) => Ok(value),
            Err(error) if shown.ends_with(".json") => {
                let source = self.sources.get(file);
                let at = source.line_start(error.line()) + error.column().saturating_sub(1) as u32;
                let at = at.min(source.text().len() as u32);
                Err((Span::empty(file, at), format!("this is not JSON: {error}")))
            }
            Err(_) => match source::read(file, self.sources.get(file)) {
                (Some(node), errors) if errors.is_empty() => Ok(node.to_json()),
                (_, errors) => {
                    self.diagnostics.extend(errors);
                    return None;
                }
            },
        };
        match found {
            Ok(value) => Some(value),
            Err((span, message)) => {
                self.diagnostics.push(Diagnostic::error("bad-schema", span, message));
                None
            }
        }
    }
}

impl LoadedModule {
    fn new(path: &str, decl: &Arc<Module>, read: &ReadModule) -> LoadedModule {
        let keys = read.keys.clone();
        let kind = if PROJECT_FILES.contains(&path) {
            ModuleKind::Project
        } else if decl.agent.is_some() || keys.iter().any(|key| key.value == "agent") {
            ModuleKind::Workflow
        } else {
            ModuleKind::Shared
        };
        let platform = decl.import.iter().find(|import| import.value == "platform").map(|import| import.span);
        LoadedModule {
            path: path.to_owned(),
            kind,
            decl: Arc::clone(decl),
            keys,
            imports: Vec::new(),
            lacks_imports: false,
            platform,
            agents_named: read.agents_named.clone(),
            broken: read.broken.clone(),
            names_references: read.names_references,
        }
    }
}

/// What reading one file gave.
#[derive(Debug)]
pub(super) struct ReadModule {
    /// The file, and the text that was read.
    pub(super) file: FileId,
    pub(super) text: Arc<str>,
    module: Option<Arc<Module>>,
    keys: Vec<Spanned<String>>,
    agents_named: Vec<String>,
    names_references: bool,
    broken: Vec<String>,
    /// How many of the findings are about the file's syntax; they come first.
    syntax: usize,
    findings: Vec<Diagnostic>,
}

/// Reads files into modules, on two threads when there are many; those that have not changed are not read again.
fn read_modules(files: &[(String, FileId)], sources: &Sources, memory: &Memory) -> Vec<Arc<ReadModule>> {
    let known: Vec<Option<Arc<ReadModule>>> =
        files.iter().map(|(path, id)| memory.module(path, *id, sources.get(*id).text())).collect();
    let new = files.iter().zip(&known).filter(|(_, known)| known.is_none());
    let new: Vec<FileId> = new.map(|((_, id), _)| *id).collect();
    let read =
        |files: &[FileId]| -> Vec<ReadModule> { files.iter().map(|id| read_module(*id, sources.get(*id))).collect() };
    let done = match new.len() < PARALLEL_FROM {
        true => read(&new),
        false => {
            let (left, right) = new.split_at(new.len() / 2);
            let (mut done, rest) = std::thread::scope(|scope| {
                let rest = scope.spawn(|| read(right));
                let done = read(left);
                // A panic in a reader is a bug; the files are read again here so that it shows in this thread.
                (done, rest.join().unwrap_or_else(|_| read(right)))
            });
            done.extend(rest);
            done
        }
    };
    let mut done = done.into_iter().map(Arc::new);
    known.into_iter().filter_map(|known| known.or_else(|| done.next())).collect()
}

fn read_module(id: FileId, source: &Source) -> ReadModule {
    let (node, errors) = source::read(id, source);
    let mut cx = ReadCx::default();
    cx.diagnostics.extend(errors.into_iter().map(Diagnostic::from));
    let mut read = ReadModule {
        file: id,
        text: source.shared_text(),
        module: None,
        keys: Vec::new(),
        agents_named: Vec::new(),
        names_references: false,
        broken: Vec::new(),
        syntax: cx.diagnostics.len(),
        findings: Vec::new(),
    };
    if let Some(node) = node {
        read.keys = node.as_map().map(|map| map.iter().map(|entry| entry.key.clone()).collect()).unwrap_or_default();
        super::env::check_places(&node, source, &mut cx);
        let module = Module::read(&node, &mut cx);
        read.broken = module.as_ref().map(|module| super::broken::names(&node, module)).unwrap_or_default();
        read.agents_named = super::agents_named(&node);
        read.names_references = has_key(&node, "references");
        read.module = module.map(Arc::new);
    }
    read.findings = cx.diagnostics;
    read
}

/// Whether a key stands anywhere in a tree.
fn has_key(node: &source::Node, key: &str) -> bool {
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        match &node.kind {
            source::NodeKind::Map(map) if map.contains(key) => return true,
            source::NodeKind::Map(map) => open.extend(map.iter().map(|entry| &entry.value)),
            source::NodeKind::List(items) => open.extend(items),
            _ => {}
        }
    }
    false
}

/// The schema files that the types and guardrails of a module name.
pub(super) fn schema_names(decl: &Module) -> impl Iterator<Item = Name> + '_ {
    let of_types = decl.types.iter().chain(decl.states.iter()).filter_map(|(_, decl)| schema_file(decl));
    of_types.chain(decl.guardrails.iter().filter_map(|(_, decl)| schema_name(decl.schema.as_ref()?)))
}

/// The file that a `schema:` names, when it names one.
pub(crate) fn schema_file(decl: &TypeDecl) -> Option<Name> {
    let TypeDeclKind::Schema(json) = &decl.kind else { return None };
    schema_name(json)
}

/// The file that the value of a `schema:` names, when it is no schema itself.
pub(crate) fn schema_name(json: &Json) -> Option<Name> {
    let Node { span, .. } = json.0;
    json.0.as_str().map(|name| Spanned::new(name.to_owned(), span))
}

/// The path of an import, relative to the root; `None` when it leads out of it.
fn import_path(importing: &str, import: &str) -> Option<String> {
    let dir = Path::new(importing).parent().unwrap_or(Path::new(""));
    normal(&dir.join(import)).map(|path| slashed(&path))
}

fn outside(path: &str, span: Option<Span>) -> Diagnostic {
    Diagnostic::error("path-escapes", span, format!("`{path}` leads out of the project"))
        .help("a project reads only files below its root; move the file into it")
}

/// A path with `/` on every system.
pub(crate) fn slashed(path: impl AsRef<Path>) -> String {
    let parts: Vec<_> = path.as_ref().components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

fn is_module_path(path: &str) -> bool {
    [".yaml", ".yml", ".toml"].iter().any(|extension| path.ends_with(extension))
}

/// Whether a file looks like a platform module: it has `actions`, `goals` or `conditions`, and no agent.
fn has_platform_sections(text: &str) -> bool {
    let section = |line: &str| {
        let name = line.strip_prefix('[').unwrap_or(line);
        ["actions", "goals", "conditions"].iter().any(|section| {
            let rest = name.strip_prefix(section).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with([':', '.', ']', '=']))
        })
    };
    agent_line(text).is_none() && text.lines().any(section)
}

/// The name that a file gives its agent, found without reading the file as a whole.
fn agent_line(text: &str) -> Option<String> {
    text.trim_start_matches('\u{feff}').lines().find_map(|line| {
        let rest = line.strip_prefix("agent")?.trim_start();
        let value = rest.strip_prefix([':', '='])?.trim();
        let value = value.split(" #").next().unwrap_or(value).trim();
        Some(value.trim_matches(['"', '\'']).to_owned())
    })
}

/// A path of the project as a file of the project writes it.
fn relative_to(file: &str, path: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (file.split('/').collect(), path.split('/').collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count().min(from.len() - 1);
    let up = "../".repeat(from.len() - 1 - shared);
    up + &to[shared..].join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MemoryWorld;

    fn found(files: &[(&str, &str)], entry: &str) -> (Vec<String>, Vec<String>) {
        let world = MemoryWorld::with_files(files.iter().copied());
        let mut loaded = Loaded::new(&world);
        loaded.module(entry);
        let paths = loaded.modules.iter().map(|module| module.path.clone()).collect();
        let sources = &loaded.sources;
        let line = |d: &Diagnostic| format!("{} at {:?}", d.code, d.span.map(|span| sources.slice(span)).unwrap_or(""));
        (paths, loaded.diagnostics.iter().map(line).collect())
    }

    #[test]
    fn paths_are_relative_to_the_file_that_names_them() {
        assert_eq!(relative_to("workflows/a.yaml", "workflows/shared/b.yaml"), "shared/b.yaml");
        assert_eq!(relative_to("workflows/a.yaml", "shared/b.yaml"), "../shared/b.yaml");
        assert_eq!(relative_to("a.yaml", "b.yaml"), "b.yaml");
    }

    #[test]
    fn the_root_is_the_nearest_project_file_then_the_parent_of_workflows() {
        let root = |file: &str, files: &[&str]| {
            let exists = |path: &Path| files.contains(&slashed(path).as_str());
            slashed(project_root(Path::new(file), false, &exists))
        };
        assert_eq!(root("a/b/workflows/x/y.yaml", &["a/agent-run.yaml"]), "a");
        assert_eq!(root("a/b/workflows/x/y.yaml", &[]), "a/b");
        assert_eq!(root("a/b/y.yaml", &[]), "a/b");
        assert_eq!(root("y.yaml", &[]), "");
    }

    #[test]
    fn a_diamond_is_read_once_and_a_cycle_is_cut_where_it_closes() {
        let diamond = [
            ("workflows/a.yaml", "agent: a\nimport: [../b.yaml, ../c.yaml]\n"),
            ("b.yaml", "import: d.yaml\n"),
            ("c.yaml", "import: d.yaml\n"),
            ("d.yaml", "config: {x: 1}\n"),
        ];
        let (paths, findings) = found(&diamond, "workflows/a.yaml");
        assert_eq!(paths, ["workflows/a.yaml", "b.yaml", "c.yaml", "d.yaml"]);
        assert!(findings.is_empty(), "{findings:?}");
        let cycle =
            [("a.yaml", "import: b.yaml\n"), ("b.yaml", "import: [c.yaml]\n"), ("c.yaml", "import: [a.yaml]\n")];
        assert_eq!(found(&cycle, "a.yaml").1, ["import-cycle at \"a.yaml\""]);
    }

    #[test]
    fn imports_outside_or_missing_are_refused_with_their_place() {
        let files = [("w/a.yaml", "import: [../../x.yaml, ../typs.yaml]\n"), ("types.yaml", "")];
        assert_eq!(
            found(&files, "w/a.yaml").1,
            ["path-escapes at \"../../x.yaml\"", "file-not-found at \"../typs.yaml\""]
        );
    }

    #[test]
    fn agents_are_found_by_name_without_reading_every_module() {
        let files = [("workflows/a.yaml", "agent: a\n"), ("workflows/sub/b.toml", "agent = \"bee\"\n")];
        let world = MemoryWorld::with_files(files);
        let mut loaded = Loaded::new(&world);
        assert_eq!(loaded.agent_names().keys().collect::<Vec<_>>(), ["a", "bee"]);
        assert!(loaded.agent("zed").is_none() && loaded.modules.is_empty());
        assert!(loaded.read.contains(Path::new("workflows/a.yaml")));
    }
}
