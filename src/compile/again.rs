//! Compiling again after an edit: what the edit did not touch is taken over from the compilation before.
//!
//! Files keep their ids, so a declaration that was read before keeps its places. An agent is taken over when everything
//! that it was made of is the same: the modules that it sees, in their order; the templates that it draws in; how the
//! agents that it names look from outside; other files that it read; and what holds for the whole project ([`Setting`]).
//! Agents with errors are never taken over.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use crate::action::lower::AgentRef;
use crate::decl::Module;
use crate::diag::{Diagnostic, Severity};
use crate::llm::Catalog;
use crate::program::{Agent, MissingEnv, Permissions, provider_texts};
use crate::reference::skill::Found;
use crate::source::{FileId, Sources};

use super::agent::{AgentOutcome, Counts};
use super::load::{Layout, Loaded, ModuleId, ReadModule};
use super::providers::Providers;
use super::visible;

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
}

/// What holds for all agents of a project.
#[derive(Debug, PartialEq)]
pub(super) struct Setting {
    layout: Layout,
    agent_names: Vec<String>,
    /// Template files with their ids.
    templates: Vec<(String, FileId)>,
    schemas: Vec<(String, Option<Arc<Value>>)>,
    reference_sets: Vec<Same>,
    skills: Vec<(PathBuf, Arc<Found>)>,
    providers: Vec<(String, String)>,
    missing_env: Vec<MissingEnv>,
    permissions: Permissions,
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
#[derive(Debug)]
pub(super) struct Kept {
    /// What it sees, in order, and whether imports of it could not be read.
    modules: Vec<(Same, bool)>,
    /// How the agents that it may name looked.
    named: Vec<(String, Option<AgentRef>)>,
    /// Templates that it draws in.
    templates: Vec<(String, Arc<str>)>,
    /// How it looks to others; none for a module without an agent.
    pub(super) reference: Option<AgentRef>,
    pub(super) made: Made,
}

/// What the compilation of an agent gave.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) agent: Option<Arc<Agent>>,
    pub(super) findings: Vec<Diagnostic>,
    pub(super) read: Vec<PathBuf>,
    pub(super) used_templates: IndexSet<String>,
    pub(super) missing_env: Vec<MissingEnv>,
    pub(super) counts: Counts,
}

impl From<AgentOutcome> for Made {
    fn from(outcome: AgentOutcome) -> Made {
        let AgentOutcome { agent, findings, read, used_templates, missing_env, counts } = outcome;
        Made { agent: agent.map(Arc::new), findings, read, used_templates, missing_env, counts }
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

    /// The agents of before, when what holds for all is the same; what holds now is kept.
    pub(super) fn begin(&mut self, setting: impl FnOnce() -> Setting) -> HashMap<String, Arc<Kept>> {
        if !self.keeps {
            return HashMap::new();
        }
        let setting = setting();
        let agents = std::mem::take(&mut self.agents);
        let same = self.setting.as_ref() == Some(&setting);
        self.setting = Some(setting);
        if same { agents } else { HashMap::new() }
    }

    /// Takes down what became of an agent, if it may be taken over.
    pub(super) fn keep(&mut self, path: &str, kept: impl FnOnce() -> Option<Arc<Kept>>) {
        if let Some(kept) = self.keeps.then(kept).flatten() {
            self.agents.insert(path.to_owned(), kept);
        }
    }

    /// Ends a compilation: what it did not read is forgotten.
    pub(super) fn end(&mut self, sources: &Sources) {
        if self.keeps {
            self.sources = sources.clone();
            self.modules = std::mem::take(&mut self.read_now);
        }
    }
}

impl Setting {
    pub(super) fn of(
        loaded: &Loaded<'_>,
        providers: &Providers,
        agent_names: &[String],
        templates: &IndexMap<String, FileId>,
    ) -> Setting {
        let decl = |id: ModuleId| Same(Arc::clone(&loaded.modules[id.0].decl));
        Setting {
            layout: loaded.layout.clone(),
            agent_names: agent_names.to_vec(),
            templates: templates.iter().map(|(name, file)| (name.clone(), *file)).collect(),
            schemas: loaded.schemas.iter().map(|(name, schema)| (name.clone(), schema.clone())).collect(),
            reference_sets: loaded.reference_sets().map(decl).collect(),
            skills: loaded.skills.iter().map(|(dir, found)| (dir.clone(), Arc::clone(found))).collect(),
            providers: provider_texts(&providers.configs),
            missing_env: providers.missing_env.clone(),
            permissions: providers.permissions.clone(),
            catalog: providers.catalog.clone(),
        }
    }
}

/// What a module sees, in order.
fn seen(loaded: &Loaded<'_>, id: ModuleId) -> Vec<(Same, bool)> {
    let modules = visible::closure(loaded, id).into_iter().map(|id| &loaded.modules[id.0]);
    modules.map(|module| (Same(Arc::clone(&module.decl)), module.lacks_imports)).collect()
}

impl Kept {
    /// What is to be kept of an agent; none when it has to be compiled again anyhow.
    pub(super) fn of(
        loaded: &Loaded<'_>,
        id: ModuleId,
        agents: &IndexMap<String, AgentRef>,
        made: &Made,
    ) -> Option<Kept> {
        let is_wrong = made.findings.iter().any(|found| found.severity == Severity::Error);
        // A warning about a file may say what else there is.
        if is_wrong || !(made.read.is_empty() || made.findings.is_empty()) {
            return None;
        }
        let modules = visible::closure(loaded, id);
        let names = modules.iter().flat_map(|id| &loaded.modules[id.0].agents_named);
        let names: IndexSet<&String> = names.collect();
        let own = loaded.modules[id.0].decl.agent.as_ref();
        let templates = made.used_templates.iter();
        let templates = templates.map(|name| Some((name.clone(), Arc::clone(&loaded.templates.get(name)?.text))));
        Some(Kept {
            modules: seen(loaded, id),
            named: names.into_iter().map(|name| (name.clone(), agents.get(name).cloned())).collect(),
            templates: templates.collect::<Option<_>>()?,
            reference: own.and_then(|name| agents.get(&name.value).cloned()),
            made: made.clone(),
        })
    }

    /// Whether its head is as it was: its own file and all that it sees.
    pub(super) fn has_same_head(&self, loaded: &Loaded<'_>, id: ModuleId) -> bool {
        self.modules == seen(loaded, id)
    }

    /// Whether all else that it was made of is as it was too.
    pub(super) fn has_same_body(&self, loaded: &Loaded<'_>, agents: &IndexMap<String, AgentRef>) -> bool {
        let is_same = |(name, text): &(String, Arc<str>)| {
            loaded.templates.get(name).is_some_and(|now| Arc::ptr_eq(&now.text, text) || now.text == *text)
        };
        self.named.iter().all(|(name, before)| agents.get(name) == before.as_ref())
            && self.templates.iter().all(is_same)
            && self.made.read.iter().all(|path| loaded.world.is_as_before(path))
    }
}
