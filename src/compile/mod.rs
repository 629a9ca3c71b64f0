//! From files to a program: load, resolve, check, lower.
//!
//! Compiling never fails as a whole and never stops at the first mistake: it gives what could be made and everything
//! that is wrong. The passes, in order:
//!
//! 1. [`load`] reads the entry, the project file, and what they import: every file once.
//! 2. `heads` resolve what each agent sees, its types, and the inputs and outputs of its actions.
//! 3. `agent` lowers conditions, tools, actions and goals, whose strings are checked against their types, and runs the
//!    named checks of [`check`].
//! 4. `lower` makes the planning domain.

mod again;
mod agent;
mod assemble;
mod broken;
mod chat;
mod check;
mod choosing;
mod cx;
pub mod domain_json;
pub mod env;
mod groups;
mod guardrails;
mod heads;
pub mod load;
mod logging;
mod lower;
mod providers;
pub mod schema;
mod servers;
pub(crate) mod references;
mod settings;
mod skills;
mod slice;
mod states;
mod strings;
mod tools;
mod types;
mod visible;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use serde_json::{Value, json};

use crate::diag::{Diagnostic, Diagnostics, Severity, suggest};
use crate::program::Program;
use crate::prompt::Files;
use crate::source::{NodeKind, Sources, Span};
use crate::world::{World, normal};

use again::{Kept, Made, Reused};
use agent::{Counts, Shared};
use heads::Heads;
use load::{Loaded, ModuleId};
use slice::Slices;

pub use again::{Memories, Memory};
pub use load::{PROJECT_FILES, project_root};
pub(crate) use providers::place_of;
pub use references::DeclaredReference;
pub(crate) use settings::{PERSONA_LINES, lay_over};

/// Most agents that may be drawn in by one another.
const AGENTS_MAX: usize = 10_000;

/// From how many agents on it pays to compile them on two threads.
const PARALLEL_FROM: usize = 8;

/// What is compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// One file, relative to the root, with all it needs; other files are not looked at.
    File(PathBuf),
    /// The agent of this name, with all it needs.
    Agent(String),
    /// Every module, template, reference set and schema of the project.
    Project,
    /// An agent put together from all actions of the project, for one goal of one agent.
    Open {
        /// The agent that the goal belongs to.
        agent: String,
        /// The goal.
        goal: String,
    },
}

/// What compiling gave.
#[derive(Debug)]
pub struct Compiled {
    /// The program; `None` when there are errors.
    pub program: Option<Arc<Program>>,
    /// Everything that is wrong.
    pub diagnostics: Diagnostics,
    /// The files that diagnostics point into.
    pub sources: Sources,
    /// Every path that was read or looked for, relative to the root: what a watch has to watch.
    pub read: Vec<PathBuf>,
    /// What was checked.
    pub checked: Checked,
    /// The skills of directories that references name, by the directory relative to the root.
    pub skills: IndexMap<PathBuf, Arc<crate::reference::skill::Found>>,
    /// Every reference that a file declares; only of [`Entry::Project`].
    pub references: Vec<DeclaredReference>,
}

/// How much was checked, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Files of the language.
    pub files: usize,
    /// Agents.
    pub agents: usize,
    /// Declared types.
    pub types: usize,
    /// Actions.
    pub actions: usize,
    /// Goals.
    pub goals: usize,
    /// Conditions.
    pub conditions: usize,
    /// Tools.
    pub tools: usize,
    /// Template files under `prompts/`.
    pub templates: usize,
    /// Templates and exprs.
    pub strings: usize,
    /// Test files.
    pub test_files: usize,
    /// Their cases, each row of parameters for itself.
    pub cases: usize,
    /// What was not checked and why, each one line.
    pub not_checked: Vec<String>,
}

impl Checked {
    /// The member `checked` of the `check` document (cli.md 3).
    pub fn to_json(&self) -> Value {
        json!({
            "files": self.files, "agents": self.agents, "types": self.types, "actions": self.actions,
            "goals": self.goals, "conditions": self.conditions, "tools": self.tools, "templates": self.templates,
            "strings": self.strings, "test_files": self.test_files, "cases": self.cases,
            "not_checked": self.not_checked,
        })
    }

    /// The same for people: what was checked, then what was not.
    pub fn lines(&self) -> Vec<String> {
        let counted = [
            (self.files, "file"),
            (self.agents, "agent"),
            (self.types, "type"),
            (self.actions, "action"),
            (self.goals, "goal"),
            (self.conditions, "condition"),
            (self.tools, "tool"),
            (self.templates, "template"),
            (self.strings, "string"),
            (self.test_files, "test file"),
            (self.cases, "case"),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let counted: Vec<String> =
            counted.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" })).collect();
        let mut lines =
            vec![format!("checked {}", if counted.is_empty() { "nothing".to_owned() } else { counted.join(", ") })];
        lines.extend(self.not_checked.iter().map(|what| format!("not checked: {what}")));
        lines
    }

    /// Adds what was checked besides.
    pub(crate) fn extend(&mut self, other: Checked) {
        self.files += other.files;
        self.agents += other.agents;
        self.types += other.types;
        self.actions += other.actions;
        self.goals += other.goals;
        self.conditions += other.conditions;
        self.tools += other.tools;
        self.templates += other.templates;
        self.strings += other.strings;
        self.test_files += other.test_files;
        self.cases += other.cases;
        let new = other.not_checked.into_iter().filter(|line| !self.not_checked.contains(line));
        self.not_checked.extend(new.collect::<Vec<_>>());
    }

    fn add(&mut self, counts: Counts) {
        self.types += counts.types;
        self.actions += counts.actions;
        self.goals += counts.goals;
        self.conditions += counts.conditions;
        self.tools += counts.tools;
        self.strings += counts.strings;
    }
}

/// Compiles what `entry` names. Paths of `world` are relative to the project's root ([`project_root`]).
pub fn compile(world: &dyn World, entry: Entry) -> Compiled {
    compile_again(world, entry, &mut Memory::default())
}

/// [`compile`], which takes over what has not changed since the compilation that left `memory`, and leaves its own there.
/// It gives what [`compile`] gives.
pub fn compile_again(world: &dyn World, entry: Entry, memory: &mut Memory) -> Compiled {
    let Entry::Open { goal, .. } = &entry else { return compile_pruned(world, entry, None, memory) };
    let goal = goal.clone();
    // Its agent is made of pieces that no file has: nothing can be taken over.
    let mut none = Memory::default();
    let whole = compile_pruned(world, entry.clone(), None, &mut none);
    let Some(agent) = whole.program.as_ref().and_then(|program| program.agents.first()) else { return whole };
    let needed = assemble::needed(agent, &goal);
    compile_pruned(world, entry, Some(&needed), &mut Memory::default())
}

/// [`compile`], with the actions that an assembled agent keeps.
fn compile_pruned(world: &dyn World, entry: Entry, only: Option<&IndexSet<String>>, memory: &mut Memory) -> Compiled {
    let mut loaded = Loaded::again(world, std::mem::take(memory));
    let mut left_out = Vec::new();
    let roots = match &entry {
        Entry::Open { agent, goal } => match assemble::assemble(&mut loaded, agent, goal, only) {
            Some((module, lines)) => {
                left_out = lines;
                vec![module]
            }
            None => roots(&mut loaded, &Entry::Agent(agent.clone())),
        },
        _ => roots(&mut loaded, &entry),
    };
    let wanted = draw_in(&mut loaded, &roots);
    if loaded.modules.iter().any(|module| module.keys.iter().any(|key| key.value == "references"))
        || loaded.names_references()
        || entry == Entry::Project
    {
        loaded.load_references();
    }
    skills::find(&mut loaded);
    let agent_names: Vec<String> = loaded.agent_names().keys().cloned().collect();
    let mut providers = providers::resolve(&mut loaded);
    let mut checked = Checked { templates: loaded.templates.len(), not_checked: left_out, ..Checked::default() };
    let mut diagnostics = std::mem::take(&mut loaded.diagnostics);
    check::sections::check(&loaded, &mut diagnostics);

    let mut files = Files::new();
    let mut file_ids = IndexMap::new();
    for (name, template) in &loaded.templates {
        files.insert(name, &template.text);
        file_ids.insert(name.clone(), template.file);
    }
    *memory = std::mem::take(&mut loaded.memory);
    let (unusable, slices) = (groups::unusable(&providers.missing_env, &providers.permissions), Slices::default());
    let none = IndexMap::new();
    let shared = Shared {
        unusable: &unusable,
        loaded: &loaded,
        files: &files,
        file_ids: &file_ids,
        agents: &none,
        agent_names: &agent_names,
        providers: &providers.configs,
        catalog: &providers.catalog,
        read_errors: &loaded.read_errors,
        slices: &slices,
    };
    let before = memory.begin(&shared);
    let mut reused: Vec<Option<Reused>> = in_parallel(&wanted, &|id| before.with_same_head(*id));
    let new = wanted.iter().zip(&reused).filter(|(_, reused)| reused.is_none());
    let new: Vec<ModuleId> = new.map(|(id, _)| *id).collect();
    let resolve = |id: &ModuleId| Heads::resolve(&loaded, *id);
    let mut heads: IndexMap<ModuleId, Heads<'_>> = new.iter().copied().zip(in_parallel(&new, &resolve)).collect();
    let reference = |(id, reused): (&ModuleId, &Option<Reused>)| match (reused, heads.get(id)) {
        (Some(reused), _) => reused.reference(),
        (None, heads) => heads.filter(|heads| heads.own.agent.is_some()).map(Heads::reference),
    };
    let references = wanted.iter().zip(&reused).filter_map(reference);
    let references: IndexMap<String, _> = references.map(|agent| (agent.name.clone(), agent)).collect();
    for (id, reused) in wanted.iter().zip(&mut reused) {
        *reused = reused.take().filter(|reused| reused.has_same_body(&loaded, &references));
        if reused.is_none() {
            heads.entry(*id).or_insert_with(|| Heads::resolve(&loaded, *id));
        }
    }
    let shared = Shared { agents: &references, ..shared };
    let new: Vec<&Heads<'_>> = heads.values().collect();
    let mut made: IndexMap<ModuleId, Made> = new
        .iter()
        .map(|heads| heads.module)
        .zip(in_parallel(&new, &|heads| Made::from(agent::compile(&shared, heads))))
        .collect();

    let mut agents = Vec::new();
    let mut read = loaded.read.clone();
    let mut used_templates: IndexSet<String> = IndexSet::new();
    for (id, reused) in wanted.iter().zip(reused) {
        let module = &loaded.modules[id.0];
        let made = match reused {
            Some(reused) => {
                let kept = reused.taken(&shared, *id);
                memory.keep(&module.path, || Some(Arc::clone(&kept)));
                kept.made.clone()
            }
            None => {
                let Some(made) = made.swap_remove(id) else { continue };
                memory.keep(&module.path, || Kept::of(&shared, *id, &references, &made).map(Arc::new));
                made
            }
        };
        let lacks_imports = visible::closure(&loaded, *id).iter().any(|id| loaded.modules[id.0].lacks_imports);
        let follows = |found: &Diagnostic| lacks_imports && check::names::may_be_imported(found);
        diagnostics.extend(made.findings.into_iter().filter(|found| !follows(found)));
        read.extend(made.read);
        used_templates.extend(made.used_templates);
        providers.missing_env.extend(made.missing_env);
        checked.add(made.counts);
        agents.extend(made.agent);
    }
    if entry == Entry::Project {
        check::templates::unused(&shared, &used_templates, &mut diagnostics);
        check::not_checked(&loaded, &mut checked);
    }
    checked.files = loaded.modules.len();
    checked.agents = wanted.iter().filter(|id| loaded.modules[id.0].decl.agent.is_some()).count();
    memory.end(&loaded.sources);
    let diagnostics = diagnostics.sorted(&loaded.sources).into_iter();
    // What is odd in an assembled agent is its pieces being together; `check` tells of each where it belongs.
    let is_open = matches!(entry, Entry::Open { .. });
    let counts = |found: &Diagnostic| !(is_open && found.severity == Severity::Warning);
    let diagnostics: Diagnostics =
        diagnostics.filter(|found| counts(found) && !follows_from_syntax(found, &loaded)).collect();
    let program = (!diagnostics.has_errors()).then(|| {
        Arc::new(Program {
            agents,
            providers: providers.configs.clone(),
            scripts: providers.scripts,
            catalog: Arc::new(providers.catalog),
            mcp_servers: providers.mcp_servers,
            permissions: providers.permissions,
            autonomy: providers.autonomy,
            voice: providers.voice,
            missing_env: providers.missing_env,
            project: loaded.project.map(|id| Arc::clone(&loaded.modules[id.0].decl)),
        })
    });
    let read = read.into_iter().collect();
    let references = if entry == Entry::Project { references::declared(&loaded) } else { Vec::new() };
    Compiled { program, diagnostics, sources: loaded.sources, read, checked, skills: loaded.skills, references }
}

/// Whether a finding only follows from a syntax error: something is missing on its line, or was cut off by it.
fn follows_from_syntax(found: &Diagnostic, loaded: &Loaded<'_>) -> bool {
    let Some(span) = found.span else { return false };
    let line = |span: Span| loaded.sources.get(span.file).line_column(span.start).0;
    let mut in_file = loaded.syntax.iter().filter(|error| error.file == span.file).peekable();
    if in_file.peek().is_none() || loaded.syntax.contains(&span) {
        return false;
    }
    match found.code {
        "no-goal" => true,
        "wrong-shape" if found.message.ends_with("found null") => true,
        "missing-key" | "missing-body" | "missing-field" | "unreachable-branch" => {
            let end = loaded.sources.get(span.file).line_column(span.end).0;
            in_file.any(|error| (line(span)..=end).contains(&line(*error)))
        }
        _ => false,
    }
}

/// The modules that the entry names.
fn roots(loaded: &mut Loaded<'_>, entry: &Entry) -> Vec<ModuleId> {
    match entry {
        Entry::File(path) => {
            let Some(path) = normal(path) else {
                loaded.diagnostics.push(Diagnostic::error(
                    "path-escapes",
                    None,
                    format!("`{}` leads out of the project", path.display()),
                ));
                return Vec::new();
            };
            loaded.module(&load::slashed(&path)).into_iter().collect()
        }
        Entry::Agent(name) | Entry::Open { agent: name, .. } => {
            let found = loaded.agent(name);
            if found.is_none() {
                let names: Vec<String> = loaded.agent_names().keys().cloned().collect();
                let diagnostic = Diagnostic::error("unknown-agent", None, format!("there is no agent `{name}`"))
                    .help(suggest::did_you_mean(name, names.iter().map(String::as_str)));
                loaded.diagnostics.push(diagnostic);
            }
            found.into_iter().collect()
        }
        Entry::Project => {
            loaded.load_workflows();
            loaded.load_platform();
            loaded.load_references();
            let agents = loaded.agents.values().copied().collect::<Vec<_>>();
            let mut seen: IndexSet<ModuleId> = agents.iter().flat_map(|id| visible::closure(loaded, *id)).collect();
            // Modules that no agent imports are checked on their own.
            let mut roots = agents;
            for at in 0..loaded.modules.len() {
                let id = ModuleId(at);
                if !seen.contains(&id) {
                    seen.extend(visible::closure(loaded, id));
                    roots.push(id);
                }
            }
            roots
        }
    }
}

/// The modules to compile: the roots, and the agents that bodies and tools of what they see name.
fn draw_in(loaded: &mut Loaded<'_>, roots: &[ModuleId]) -> Vec<ModuleId> {
    let mut wanted: Vec<ModuleId> = roots.to_vec();
    let mut scanned: IndexSet<ModuleId> = IndexSet::new();
    let mut next = 0;
    while let Some(root) = wanted.get(next).copied() {
        next += 1;
        loaded.load_platform();
        for module in visible::closure(loaded, root) {
            if !scanned.insert(module) {
                continue;
            }
            for name in loaded.modules[module.0].agents_named.clone() {
                let found = loaded.agent(&name).filter(|_| wanted.len() < AGENTS_MAX);
                wanted.extend(found.filter(|id| !wanted.contains(id)));
            }
        }
    }
    wanted
}

/// Works on every item, on two threads when there are many; the results keep their order.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: &(dyn Fn(&T) -> R + Sync)) -> Vec<R> {
    if items.len() < PARALLEL_FROM {
        return items.iter().map(work).collect();
    }
    let (left, right) = items.split_at(items.len() / 2);
    std::thread::scope(|scope| {
        let rest = scope.spawn(|| right.iter().map(work).collect::<Vec<R>>());
        let mut done: Vec<R> = left.iter().map(work).collect();
        // A panic there is a bug; it is repeated here so that it shows in this thread.
        done.extend(rest.join().unwrap_or_else(|_| right.iter().map(work).collect()));
        done
    })
}

/// The names under every key `agent` in bodies of a module, and the strings in its lists of tools: each may be an agent.
pub(crate) fn agents_named(node: &crate::source::Node) -> Vec<String> {
    let mut names = Vec::new();
    let mut open = vec![(node, false)];
    while let Some((node, in_tools)) = open.pop() {
        match &node.kind {
            NodeKind::Map(map) => {
                for entry in map {
                    match (entry.key.value.as_str(), &entry.value.kind) {
                        ("agent", NodeKind::Text(text)) => names.push(text.value.clone()),
                        ("agent", NodeKind::Map(inner)) => {
                            names.extend(inner.get("name").and_then(|entry| entry.value.as_str()).map(str::to_owned));
                        }
                        ("tools", NodeKind::Text(text)) => names.push(text.value.clone()),
                        _ => {}
                    }
                    open.push((&entry.value, entry.key.value == "tools"));
                }
            }
            NodeKind::List(items) => open.extend(items.iter().map(|item| (item, in_tools))),
            NodeKind::Text(text) if in_tools => names.push(text.value.clone()),
            _ => {}
        }
    }
    names
}

/// The directory of a project's test files, relative to the root.
pub(crate) fn tests_dir(world: &dyn World) -> String {
    Loaded::new(world).layout.tests
}
