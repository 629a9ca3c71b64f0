//! What one agent sees: the declarations of its own module, of everything it imports, and of the project file.

use indexmap::map::Entry;
use indexmap::{IndexMap, IndexSet};

use crate::decl::models::LlmChoice;
use crate::decl::module::{Guardrail, Persona, Reference};
use crate::decl::tools::{McpServer, Tool, ToolGroup};
use crate::decl::types::TypeDecl;
use crate::decl::workflow::{Action, Condition, Goal};
use crate::decl::{Json, Name, Table};
use crate::diag::Diagnostic;

use super::load::{Loaded, ModuleId, ModuleKind};

/// One declaration that is visible, with its name as written.
#[derive(Debug)]
pub(crate) struct Decl<'a, T> {
    pub(crate) name: &'a Name,
    pub(crate) decl: &'a T,
    /// Where among the visible modules it stands: 0 is the agent's own.
    pub(crate) rank: usize,
}

impl<T> Clone for Decl<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Decl<'_, T> {}

/// Declarations of one kind by name: the agent's own first, then imported ones, then the project file's.
pub(crate) type Names<'a, T> = IndexMap<&'a str, Decl<'a, T>>;

/// Everything that is visible to one agent.
#[derive(Debug)]
pub(crate) struct Visible<'a> {
    /// Its modules: its own, what it imports at any depth, the project file.
    pub(crate) modules: Vec<ModuleId>,
    /// Names whose declarations could not be read.
    pub(crate) broken: IndexSet<&'a str>,
    pub(crate) types: Names<'a, TypeDecl>,
    pub(crate) states: Names<'a, TypeDecl>,
    pub(crate) config: Names<'a, Json>,
    pub(crate) conditions: Names<'a, Condition>,
    pub(crate) actions: Names<'a, Action>,
    pub(crate) goals: Names<'a, Goal>,
    pub(crate) on_stuck: Names<'a, Action>,
    pub(crate) personas: Names<'a, Persona>,
    pub(crate) tools: Names<'a, Tool>,
    pub(crate) tool_groups: Names<'a, ToolGroup>,
    pub(crate) references: Names<'a, Reference>,
    pub(crate) guardrails: Names<'a, Guardrail>,
    pub(crate) roles: Names<'a, LlmChoice>,
    pub(crate) mcp_servers: Names<'a, McpServer>,
}

impl<'a> Visible<'a> {
    /// What a module sees. Two declarations of one name are reported, the later with the earlier.
    pub(crate) fn from(loaded: &'a Loaded<'_>, own: ModuleId, findings: &mut Vec<Diagnostic>) -> Visible<'a> {
        let modules = closure(loaded, own);
        let mut sets: Vec<ModuleId> = modules.clone();
        sets.extend(loaded.reference_sets().filter(|id| !modules.contains(id)));
        let broken = sets.iter().flat_map(|id| loaded.modules[id.0].broken.iter().map(String::as_str)).collect();
        if !names_references(loaded, &modules) {
            sets.truncate(modules.len());
        }
        let mut collect = Collect { loaded, modules: &modules, findings };
        Visible {
            broken,
            types: collect.names("type", |m| &m.types),
            states: collect.names("state", |m| &m.states),
            config: collect.names("config value", |m| &m.config),
            conditions: collect.names("condition", |m| &m.conditions),
            actions: collect.names("action", |m| &m.actions),
            goals: collect.names("goal", |m| &m.goals),
            on_stuck: collect.names("action", |m| &m.on_stuck),
            personas: collect.names("persona", |m| &m.personas),
            tools: collect.names("tool", |m| &m.tools),
            tool_groups: collect.names("tool group", |m| &m.tool_groups),
            guardrails: collect.names("guardrail", |m| &m.guardrails),
            roles: collect.within("role", |m| m.models.as_ref().map(|models| &models.roles)),
            mcp_servers: collect.names("MCP server", |m| &m.mcp_servers),
            references: Collect { modules: &sets, ..collect }.names("reference", |m| &m.references),
            modules,
        }
    }
}

/// The module itself, everything it imports at any depth in order, and the project file.
pub(crate) fn closure(loaded: &Loaded<'_>, own: ModuleId) -> Vec<ModuleId> {
    let mut found = vec![own];
    let mut next = 0;
    while let Some(id) = found.get(next).copied() {
        next += 1;
        let module = &loaded.modules[id.0];
        for import in &module.imports {
            if !found.contains(import) {
                found.push(*import);
            }
        }
        if module.platform.is_some() {
            let platform = loaded.modules.iter().enumerate().filter(|(_, module)| module.is_platform());
            let platform: Vec<ModuleId> = platform.map(|(at, _)| ModuleId(at)).collect();
            found.extend(platform.into_iter().filter(|id| !found.contains(id)).collect::<Vec<_>>());
        }
    }
    // Importing a workflow file brings its declarations, but no second agent's run; the project file comes last.
    found.retain(|id| *id == own || loaded.modules[id.0].kind != ModuleKind::Project);
    found.extend(loaded.project.filter(|project| *project != own));
    found
}

/// Whether what an agent sees names references, so that the project's sets are there for it.
pub(crate) fn names_references(loaded: &Loaded<'_>, modules: &[ModuleId]) -> bool {
    modules.iter().any(|id| loaded.modules[id.0].names_references)
}

/// The roles that the modules of an agent declare.
pub(crate) fn roles<'a>(
    loaded: &'a Loaded<'_>,
    modules: &[ModuleId],
    findings: &mut Vec<Diagnostic>,
) -> Names<'a, LlmChoice> {
    Collect { loaded, modules, findings }.within("role", |m| m.models.as_ref().map(|models| &models.roles))
}

struct Collect<'a, 'b, 'w> {
    loaded: &'a Loaded<'w>,
    modules: &'b [ModuleId],
    findings: &'b mut Vec<Diagnostic>,
}

impl<'a> Collect<'a, '_, '_> {
    fn names<T>(&mut self, what: &str, table: impl Fn(&'a crate::decl::Module) -> &'a Table<T>) -> Names<'a, T> {
        self.within(what, |module| Some(table(module)))
    }

    fn within<T>(
        &mut self,
        what: &str,
        table: impl Fn(&'a crate::decl::Module) -> Option<&'a Table<T>>,
    ) -> Names<'a, T> {
        let mut names: Names<'a, T> = IndexMap::new();
        // Whichever agent looks, of two declarations the same one is the later: the project file comes first, then the
        // reference sets, then imports in their order, then the module that imports.
        let mut order: Vec<(usize, ModuleId)> = self.modules.iter().copied().enumerate().collect();
        order.sort_by_key(|(rank, id)| match () {
            () if Some(*id) == self.loaded.project => (0, 0),
            () if self.loaded.is_reference_set(*id) => (1, id.0),
            () if *rank == 0 => (3, 0),
            () => (2, *rank),
        });
        for (rank, id) in order {
            let module: &'a crate::decl::Module = &self.loaded.modules[id.0].decl;
            for (name, decl) in table(module).into_iter().flat_map(Table::iter) {
                match names.entry(name.value.as_str()) {
                    Entry::Vacant(free) => {
                        free.insert(Decl { name, decl, rank });
                    }
                    Entry::Occupied(taken) => self.findings.push(duplicate(what, name, taken.get().name)),
                }
            }
        }
        names.sort_by(|_, a, _, b| a.rank.cmp(&b.rank));
        names
    }
}

/// The finding for a second declaration of a name.
pub(crate) fn duplicate(what: &str, later: &Name, earlier: &Name) -> Diagnostic {
    Diagnostic::error("duplicate-name", later.span, format!("the {what} `{}` is declared already", later.value))
        .related(earlier.span, "the first is here")
        .help("rename one of them; nothing is overridden silently")
}
