//! Compiling again after an edit: what the edit did not touch is taken over from the compilation before.
//!
//! Files keep their ids, so a declaration that was read before keeps its places. An agent is taken over when everything
//! that it was made of is the same: the modules that it sees, in their order; of the project file its [`slice`]; the
//! templates that it draws in; how the agents that it names look from outside; other files that it read or looked for.
//! Where only models or limits of the slice differ, it is taken over with those made again. Agents with errors are never
//! taken over, and those with warnings only while all that holds for all agents is the same ([`Setting`]).
//!
//! [`slice`]: super::slice

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use crate::action::context::ModelChoice;
use crate::action::lower::AgentRef;
use crate::decl::Module;
use crate::diag::{Diagnostic, Severity};
use crate::llm::Catalog;
use crate::program::{Agent, MissingEnv};
use crate::reference::skill::Found;
use crate::source::{FileId, Sources};
use crate::world::World;

use super::agent::{AgentOutcome, Counts, Shared};
use super::choosing::{self, Recipe};
use super::heads::Heads;
use super::load::{Layout, Loaded, ModuleId, PROJECT_FILES, ReadModule, schema_names};
use super::slice::Uses;
use super::{Compiled, Entry, check, visible};

/// What a compilation leaves to the next one of the same project; nothing at first.
#[derive(Debug, Default)]
pub struct Memory {
    /// Whether anything is kept.
    keeps: bool,
    sources: Sources,
    modules: HashMap<String, Arc<ReadModule>>,
    /// Those of the compilation that is under way.
    read_now: HashMap<String, Arc<ReadModule>>,
    setting: Option<Setting>,
    /// Agents, and modules without one, by their paths.
    agents: HashMap<String, Arc<Kept>>,
    /// Those of before, while what is compiled cannot be kept because the project file has mistakes.
    set_aside: Option<HashMap<String, Arc<Kept>>>,
}

/// What several compilations of one project leave to the next round of them: a command that looks at files again and
/// again, each time at the next state of one [`Snapshot`](crate::world::Snapshot).
#[derive(Debug, Default)]
pub struct Memories {
    before: HashMap<Entry, Memory>,
    now: HashMap<Entry, Memory>,
}

impl Memories {
    /// [`compile_again`](super::compile_again) with what the same entry has left in this round or the one before.
    pub fn compile(&mut self, world: &dyn World, entry: Entry) -> Compiled {
        let known = self.now.remove(&entry).or_else(|| self.before.remove(&entry));
        let mut memory = Memory::new();
        if let Some(known) = known {
            memory = known;
        }
        let compiled = super::compile_again(world, entry.clone(), &mut memory);
        self.now.insert(entry, memory);
        compiled
    }

    /// Begins the next round. What the last one did not compile is forgotten: nobody knows what became of its files.
    pub fn next_round(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }
}

/// What holds for all agents of a project. Agents with findings are taken over only while all of it is the same: what
/// they are told may name anything that there is.
#[derive(Debug, PartialEq)]
pub(super) struct Setting {
    layout: Layout,
    project: Option<Same>,
    agent_names: Vec<String>,
    /// Template files with their ids.
    templates: Vec<(String, FileId)>,
    schemas: Vec<(String, Option<Arc<Value>>)>,
    reference_sets: Vec<Same>,
    skills: Vec<(PathBuf, Arc<Found>)>,
    /// Names of providers.
    providers: Vec<String>,
    /// MCP servers, and why they cannot be used.
    servers: Vec<(String, Option<String>)>,
    catalog: Catalog,
}

/// A module that is the same only when it is that very one.
#[derive(Clone, Debug)]
struct Same(Arc<Module>);

impl PartialEq for Same {
    fn eq(&self, other: &Same) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What became of one agent, and what it was made of.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// What it sees beside the project file, in order, and whether imports of it could not be read.
    modules: Vec<(Same, bool)>,
    /// What of the project file it is made of.
    slice: Option<Arc<Module>>,
    /// The schema files that its types and guardrails name.
    schemas: Vec<(String, Option<Arc<Value>>)>,
    /// Reference sets and skills, when it may name references.
    material: Option<Material>,
    /// The template files that there are, when it hangs on that.
    template_names: Option<Vec<String>>,
    /// How the agents that it may name looked.
    named: Vec<(String, Option<AgentRef>)>,
    /// Templates that it draws in.
    templates: Vec<(String, Arc<str>)>,
    /// How it looks to others; none for a module without an agent.
    pub(super) reference: Option<AgentRef>,
    pub(super) made: Made,
}

/// Sets of references, and the skills of directories.
type Material = (Vec<Same>, Vec<(PathBuf, Arc<Found>)>);

/// What the compilation of an agent gave.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) agent: Option<Arc<Agent>>,
    pub(super) findings: Vec<Diagnostic>,
    pub(super) read: Vec<PathBuf>,
    pub(super) used_templates: IndexSet<String>,
    pub(super) missing_env: Vec<MissingEnv>,
    pub(super) counts: Counts,
    uses: Uses,
    recipes: Vec<Recipe>,
    looks_around: bool,
}

impl From<AgentOutcome> for Made {
    fn from(outcome: AgentOutcome) -> Made {
        let AgentOutcome { agent, findings, read, used_templates, missing_env, counts, uses, recipes, looks_around } =
            outcome;
        let agent = agent.map(Arc::new);
        Made { agent, findings, read, used_templates, missing_env, counts, uses, recipes, looks_around }
    }
}

impl Memory {
    /// A memory that keeps what it can.
    pub fn new() -> Memory {
        Memory { keeps: true, ..Memory::default() }
    }

    /// A table of files in which every path has the id that it had before.
    pub(super) fn sources(&self) -> Sources {
        if self.keeps { self.sources.next() } else { Sources::new() }
    }

    /// A module that was read from this text before.
    pub(super) fn module(&self, path: &str, file: FileId, text: &str) -> Option<Arc<ReadModule>> {
        let known = self.modules.get(path)?;
        (known.file == file && *known.text == *text).then(|| Arc::clone(known))
    }

    pub(super) fn keep_module(&mut self, path: &str, read: &Arc<ReadModule>) {
        if self.keeps {
            self.read_now.insert(path.to_owned(), Arc::clone(read));
        }
    }

    /// What of before may be taken over now.
    pub(super) fn begin<'a>(&mut self, shared: &'a Shared<'a>) -> Before<'a> {
        if !self.keeps {
            return Before::nothing(shared);
        }
        let agents = std::mem::take(&mut self.agents);
        if !is_sound(shared) {
            // What is compiled now lacks what could not be read. What was compiled before is of use again once it can;
            // of other files that it read one knows only whether they are as they were a moment ago.
            self.set_aside = Some(agents.into_iter().filter(|(_, kept)| kept.made.read.is_empty()).collect());
            return Before::nothing(shared);
        }
        let setting = Setting::of(shared);
        let before = Before::of(shared, agents, self.setting.as_ref(), &setting);
        self.setting = Some(setting);
        before
    }

    /// Takes down what became of an agent, if it may be taken over.
    pub(super) fn keep(&mut self, path: &str, kept: impl FnOnce() -> Option<Arc<Kept>>) {
        if let Some(kept) = (self.keeps && self.set_aside.is_none()).then(kept).flatten() {
            self.agents.insert(path.to_owned(), kept);
        }
    }

    /// Ends a compilation: what it did not read is forgotten.
    pub(super) fn end(&mut self, sources: &Sources) {
        if self.keeps {
            self.sources = sources.clone();
            self.modules = std::mem::take(&mut self.read_now);
            if let Some(aside) = self.set_aside.take() {
                self.agents = aside;
            }
        }
    }
}

/// Whether the project file could be read as a whole, and has no section that belongs elsewhere.
fn is_sound(shared: &Shared<'_>) -> bool {
    let Some(id) = shared.loaded.project else {
        // There is none, or it is no mapping at all.
        return shared
            .loaded
            .read_errors
            .iter()
            .all(|span| !PROJECT_FILES.contains(&shared.loaded.sources.get(span.file).path()));
    };
    let project = &shared.loaded.modules[id.0];
    let has_errors = || {
        let mut errors = shared.loaded.read_errors.iter();
        errors.any(|span| shared.loaded.sources.get(span.file).path() == project.path)
    };
    project.broken.is_empty() && !check::sections::is_misplaced(project) && !has_errors()
}

impl Setting {
    fn of(shared: &Shared<'_>) -> Setting {
        let loaded = shared.loaded;
        let project = loaded.project.map(|id| Same(Arc::clone(&loaded.modules[id.0].decl)));
        let servers = project.iter().flat_map(|project| project.0.mcp_servers.names());
        let servers = servers.map(|name| (name.to_owned(), (shared.unusable)(name))).collect();
        let (reference_sets, skills) = material(loaded);
        Setting {
            layout: loaded.layout.clone(),
            project,
            agent_names: shared.agent_names.to_vec(),
            templates: shared.file_ids.iter().map(|(name, file)| (name.clone(), *file)).collect(),
            schemas: loaded.schemas.iter().map(|(name, schema)| (name.clone(), schema.clone())).collect(),
            reference_sets,
            skills,
            providers: shared.providers.keys().cloned().collect(),
            servers,
            catalog: shared.catalog.clone(),
        }
    }

    /// Whether agents without findings may be taken over if what they used is the same.
    fn is_near(&self, other: &Setting) -> bool {
        self.layout == other.layout
            && self.servers == other.servers
            && self.project.is_some() == other.project.is_some()
    }
}

fn material(loaded: &Loaded<'_>) -> Material {
    let decl = |id: ModuleId| Same(Arc::clone(&loaded.modules[id.0].decl));
    let skills = loaded.skills.iter().map(|(dir, found)| (dir.clone(), Arc::clone(found)));
    (loaded.reference_sets().map(decl).collect(), skills.collect())
}

/// What the compilation before has left, and what of it may be taken over.
pub(super) struct Before<'a> {
    shared: &'a Shared<'a>,
    agents: HashMap<String, Arc<Kept>>,
    /// Whether all that holds for all agents is as it was.
    is_same: bool,
    /// Whether the project file is that very one.
    is_same_project: bool,
    /// Whether models are known to read as much as before.
    is_same_catalog: bool,
    /// Roles and personas that the project file declares anew.
    roles: Vec<String>,
    personas: Vec<String>,
    template_names: Vec<String>,
    /// What has become of a slice, by where it is in memory: agents that see the same share one.
    slices: Mutex<HashMap<usize, After>>,
}

/// A slice as it is now, and what of it differs.
type After = (Arc<Module>, Arc<[&'static str]>);

/// An agent of before that sees what it saw, with its lists of models anew when they had to be made again.
pub(super) struct Reused {
    kept: Arc<Kept>,
    again: Option<Box<Again>>,
}

struct Again {
    models: Vec<Vec<ModelChoice>>,
    uses: Uses,
    slice: Arc<Module>,
}

impl<'a> Before<'a> {
    fn nothing(shared: &'a Shared<'a>) -> Before<'a> {
        Before {
            shared,
            agents: HashMap::new(),
            is_same: false,
            is_same_project: false,
            is_same_catalog: false,
            roles: Vec::new(),
            personas: Vec::new(),
            template_names: Vec::new(),
            slices: Mutex::default(),
        }
    }

    fn of(
        shared: &'a Shared<'a>,
        agents: HashMap<String, Arc<Kept>>,
        old: Option<&Setting>,
        new: &Setting,
    ) -> Before<'a> {
        let Some(old) = old.filter(|old| old.is_near(new)) else { return Before::nothing(shared) };
        let is_same_project = old.project == new.project;
        if !is_same_project && !agents.is_empty() && !is_faultless(shared) {
            return Before::nothing(shared);
        }
        let declared = |project: &Option<Same>| -> (Vec<String>, Vec<String>) {
            let Some(Same(project)) = project else { return Default::default() };
            let roles = project.models.iter().flat_map(|models| models.roles.names()).map(str::to_owned);
            (roles.collect(), project.personas.names().map(str::to_owned).collect())
        };
        let (old_names, mut names) = (declared(&old.project), declared(&new.project));
        names.0.retain(|name| !old_names.0.contains(name));
        names.1.retain(|name| !old_names.1.contains(name));
        Before {
            shared,
            agents,
            is_same: old == new,
            is_same_project,
            is_same_catalog: old.catalog == new.catalog,
            roles: names.0,
            personas: names.1,
            template_names: template_names(shared),
            slices: Mutex::default(),
        }
    }

    /// The agent of a module, if all that its head was made of is as it was: its own file and what it sees.
    pub(super) fn with_same_head(&self, id: ModuleId) -> Option<Reused> {
        let (shared, loaded) = (self.shared, self.shared.loaded);
        let kept = self.agents.get(&loaded.modules[id.0].path)?;
        if kept.modules != seen(loaded, id) {
            return None;
        }
        if self.is_same {
            return Some(Reused { kept: Arc::clone(kept), again: None });
        }
        let is_plain = kept.made.findings.is_empty()
            && kept.made.agent.as_ref().is_none_or(|agent| agent.unsupported.is_empty())
            && kept.made.missing_env.is_empty();
        let has_same_files = || {
            // How long references may be is a matter of the models.
            (kept.material.is_none() || self.is_same_catalog)
                && kept.schemas.iter().all(|(name, before)| loaded.schemas.get(name) == Some(before))
                && kept.material.as_ref().is_none_or(|before| *before == material(loaded))
                && kept.template_names.as_ref().is_none_or(|before| *before == self.template_names)
        };
        let has_providers = || kept.made.uses.providers.iter().all(|name| shared.providers.contains_key(name));
        if !(is_plain && has_providers() && has_same_files()) {
            return None;
        }
        if self.is_same_project {
            return Some(Reused { kept: Arc::clone(kept), again: None });
        }
        let again = self.after_edit_of_project(id, kept)?;
        Some(Reused { kept: Arc::clone(kept), again })
    }

    /// What has to be made again of an agent because the project file is another; the outer none: all of it.
    #[allow(clippy::option_option, reason = "nothing is to be made again, or everything is")]
    fn after_edit_of_project(&self, id: ModuleId, kept: &Kept) -> Option<Option<Box<Again>>> {
        let (shared, loaded) = (self.shared, self.shared.loaded);
        if self.declares_anew(id) {
            return None;
        }
        let project = loaded.project.filter(|project| *project != id);
        let Some(project) = project.map(|id| &loaded.modules[id.0].decl) else { return Some(None) };
        let own = &loaded.modules[id.0].decl;
        let old = kept.slice.as_ref()?;
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        let (new, differing) = slices.entry(Arc::as_ptr(old) as usize).or_insert_with(|| {
            let new = shared.slices.of(project, own, &kept.made.uses);
            let differing = if **old == *new { Vec::new() } else { old.differing(&new) };
            (new, differing.into())
        });
        let (new, differing) = (Arc::clone(new), Arc::clone(differing));
        drop(slices);
        if differing.is_empty() {
            return Some(None);
        }
        let default = |slice: &Module| slice.models.as_ref().is_some_and(|models| models.default.is_some());
        let cured = |key: &&str| *key == "limits" || (*key == "models" && kept.material.is_none());
        if !differing.iter().all(cured) || default(old) != default(&new) {
            return None;
        }
        let (models, uses) = choosing::again(loaded, shared.providers, id, &kept.made.recipes)?;
        let uses = Uses { personas: kept.made.uses.personas.clone(), ..uses };
        let slice = shared.slices.of(project, own, &uses);
        Some(Some(Box::new(Again { models, uses, slice })))
    }

    /// Whether a module that the agent sees declares a role or persona that is new in the project file.
    fn declares_anew(&self, id: ModuleId) -> bool {
        if self.roles.is_empty() && self.personas.is_empty() {
            return false;
        }
        let loaded = self.shared.loaded;
        let modules = visible::closure(loaded, id).into_iter().filter(|id| Some(*id) != loaded.project);
        modules.map(|id| &loaded.modules[id.0].decl).any(|decl| {
            let roles = decl.models.as_ref().map(|models| &models.roles);
            self.roles.iter().any(|name| roles.is_some_and(|roles| roles.get(name).is_some()))
                || self.personas.iter().any(|name| decl.personas.get(name).is_some())
        })
    }
}

/// Whether nothing is to be said of what the project file declares, whoever sees it.
fn is_faultless(shared: &Shared<'_>) -> bool {
    let Some(id) = shared.loaded.project else { return true };
    super::agent::compile(shared, &Heads::resolve(shared.loaded, id)).findings.is_empty()
}

fn template_names(shared: &Shared<'_>) -> Vec<String> {
    shared.file_ids.keys().cloned().collect()
}

/// What a module sees beside the project file, in order.
fn seen(loaded: &Loaded<'_>, id: ModuleId) -> Vec<(Same, bool)> {
    let modules = visible::closure(loaded, id).into_iter().filter(|of| *of == id || Some(*of) != loaded.project);
    let modules = modules.map(|id| &loaded.modules[id.0]);
    modules.map(|module| (Same(Arc::clone(&module.decl)), module.lacks_imports)).collect()
}

impl Kept {
    /// What is to be kept of an agent; none when it has to be compiled again anyhow.
    pub(super) fn of(
        shared: &Shared<'_>,
        id: ModuleId,
        agents: &IndexMap<String, AgentRef>,
        made: &Made,
    ) -> Option<Kept> {
        let loaded = shared.loaded;
        let is_wrong = made.findings.iter().any(|found| found.severity == Severity::Error);
        // A warning about a file may say what else there is.
        if is_wrong || !(made.read.is_empty() || made.findings.is_empty()) {
            return None;
        }
        let modules = visible::closure(loaded, id);
        let names = modules.iter().flat_map(|id| &loaded.modules[id.0].agents_named);
        let names: IndexSet<&String> = names.collect();
        let own = &loaded.modules[id.0].decl;
        let templates = made.used_templates.iter();
        let templates = templates.map(|name| Some((name.clone(), Arc::clone(&loaded.templates.get(name)?.text))));
        let schemas = modules.iter().flat_map(|id| schema_names(&loaded.modules[id.0].decl));
        let schemas = schemas.filter_map(|name| Some((name.value.clone(), loaded.schemas.get(&name.value)?.clone())));
        let project = loaded.project.filter(|project| *project != id);
        let mut sets = loaded.reference_sets();
        let sees_material =
            visible::names_references(loaded, &modules) || sets.any(|id| !loaded.modules[id.0].broken.is_empty());
        Some(Kept {
            modules: seen(loaded, id),
            slice: project.map(|project| shared.slices.of(&loaded.modules[project.0].decl, own, &made.uses)),
            schemas: schemas.collect(),
            material: sees_material.then(|| material(loaded)),
            template_names: made.looks_around.then(|| template_names(shared)),
            named: names.into_iter().map(|name| (name.clone(), agents.get(name).cloned())).collect(),
            templates: templates.collect::<Option<_>>()?,
            reference: own.agent.as_ref().and_then(|name| agents.get(&name.value).cloned()),
            made: made.clone(),
        })
    }
}

impl Reused {
    /// How it looks to others.
    pub(super) fn reference(&self) -> Option<AgentRef> {
        self.kept.reference.clone()
    }

    /// Whether all else that it was made of is as it was too.
    pub(super) fn has_same_body(&self, loaded: &Loaded<'_>, agents: &IndexMap<String, AgentRef>) -> bool {
        let is_same = |(name, text): &(String, Arc<str>)| {
            loaded.templates.get(name).is_some_and(|now| Arc::ptr_eq(&now.text, text) || now.text == *text)
        };
        self.kept.named.iter().all(|(name, before)| agents.get(name) == before.as_ref())
            && self.kept.templates.iter().all(is_same)
            && self.kept.made.read.iter().all(|path| loaded.world.is_as_before(path))
    }

    /// What is taken over: what was kept, or a copy with what was made again.
    pub(super) fn taken(self, shared: &Shared<'_>, id: ModuleId) -> Arc<Kept> {
        let Some(again) = self.again else { return self.kept };
        let Again { models, uses, slice } = *again;
        let loaded = shared.loaded;
        let mut kept = Kept::clone(&self.kept);
        kept.made.agent = kept.made.agent.map(|agent| {
            let mut agent = Agent::clone(&agent);
            agent.models = models;
            agent.embedding = choosing::embedding(loaded, &visible::closure(loaded, id));
            agent.limits = check::limits::resolve(loaded, &loaded.modules[id.0].decl);
            // The project file comes last.
            if let Some(last) = agent.written.modules.last_mut() {
                *last = Arc::clone(&slice);
            }
            Arc::new(agent)
        });
        kept.made.uses = uses;
        kept.slice = Some(slice);
        Arc::new(kept)
    }
}
