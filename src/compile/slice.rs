//! What of the project file one agent is made of, so that an edit of the rest leaves it alone.
//!
//! Types, tools and whatever else is in every agent that sees it are in every slice. Roles, personas and defaults are
//! there for the agents that use them. What is the project's alone (providers, the store, the log) is in none.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::decl::workflow::Settings;
use crate::decl::{List, Module, Table};

use super::load::{Loaded, ModuleId};
use super::visible;

/// What an agent has used of what the project file declares by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Uses {
    /// Roles.
    pub(crate) roles: BTreeSet<String>,
    /// Personas.
    pub(crate) personas: BTreeSet<String>,
    /// The default model.
    pub(crate) default_model: bool,
    /// Providers that models name; they are in no slice.
    pub(crate) providers: BTreeSet<String>,
}

/// Settings of `defaults`, by key: whether an agent has its own.
type Covered = [bool; 9];

/// What an agent sees of a project file: its uses, and the defaults that its own cover.
type Key = (Uses, Covered);

/// The slices of one project file; agents that see the same share one.
#[derive(Debug, Default)]
pub(crate) struct Slices(Mutex<HashMap<Key, Arc<Module>>>);

impl Slices {
    /// What the agent of `own` sees of the project file.
    pub(crate) fn of(&self, project: &Module, own: &Module, uses: &Uses) -> Arc<Module> {
        let covered = own.defaults.as_ref().map(covered).unwrap_or_default();
        let key = (Uses { providers: BTreeSet::new(), ..uses.clone() }, covered);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slice) = known.get(&key) {
            return Arc::clone(slice);
        }
        let slice = Arc::new(slice(project, uses, covered));
        known.insert(key, Arc::clone(&slice));
        slice
    }
}

/// The modules of an agent as its program keeps them: of the project file only the slice.
pub(super) fn written(loaded: &Loaded<'_>, slices: &Slices, own: ModuleId, uses: &Uses) -> Vec<Arc<Module>> {
    let decl = |id: ModuleId| &loaded.modules[id.0].decl;
    let of = |id: ModuleId| match Some(id) == loaded.project && id != own {
        true => slices.of(decl(id), decl(own), uses),
        false => Arc::clone(decl(id)),
    };
    visible::closure(loaded, own).into_iter().map(of).collect()
}

fn slice(project: &Module, uses: &Uses, covered: Covered) -> Module {
    let mut slice = project.clone();
    slice.personas.entries.retain(|(name, _)| uses.personas.contains(&name.value));
    if let Some(models) = &mut slice.models {
        models.roles.entries.retain(|(name, _)| uses.roles.contains(&name.value));
        models.default = models.default.take().filter(|_| uses.default_model);
        models.catalog = Table::default();
    }
    slice.models = slice
        .models
        .filter(|models| !(models.roles.is_empty() && models.default.is_none() && models.embedding.is_none()));
    if let Some(defaults) = &mut slice.defaults {
        uncover(defaults, covered);
    }
    slice.defaults = slice.defaults.filter(|defaults| self::covered(defaults).contains(&true));
    slice.import = List::default();
    slice.project = None;
    slice.providers = Table::default();
    slice.mcp_servers = Table::default();
    slice.permissions = None;
    slice.store = None;
    slice.server = None;
    slice.logging = None;
    slice.autonomy = None;
    slice
}

/// Which settings are there.
fn covered(settings: &Settings) -> Covered {
    let Settings { llm, persona, tools, references, contributors, guardrails, retry, timeout, max_turns, .. } =
        settings;
    [
        llm.is_some(),
        persona.is_some(),
        tools.is_some(),
        references.is_some(),
        contributors.is_some(),
        guardrails.is_some(),
        retry.is_some(),
        timeout.is_some(),
        max_turns.is_some(),
    ]
}

/// Takes out what is covered.
fn uncover(settings: &mut Settings, covered: Covered) {
    fn take<T>(setting: &mut Option<T>, covered: bool) {
        if covered {
            *setting = None;
        }
    }
    let [llm, persona, tools, references, contributors, guardrails, retry, timeout, max_turns] = covered;
    take(&mut settings.llm, llm);
    take(&mut settings.persona, persona);
    take(&mut settings.tools, tools);
    take(&mut settings.references, references);
    take(&mut settings.contributors, contributors);
    take(&mut settings.guardrails, guardrails);
    take(&mut settings.retry, retry);
    take(&mut settings.timeout, timeout);
    take(&mut settings.max_turns, max_turns);
}
