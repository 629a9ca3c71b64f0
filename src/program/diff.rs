//! What differs between two programs, by the names that authors gave.
//!
//! What was written is compared, not what was compiled: places, comments, white space and the order of keys where it has
//! no meaning are not in it. A difference that several agents see (a shared type, the project's settings) is told once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use crate::decl::types::TypeDecl;
use crate::decl::workflow::Action;
use crate::decl::{Module, Table};
use crate::source::{Node, NodeKind};

use super::{Agent, Program};

/// What became of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It is another.
    Changed,
}

/// One difference between two programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What became of it.
    pub how: How,
    /// What it is: `action`, `type`, `limits`, …
    pub kind: &'static str,
    /// Its name; empty for a setting that has none.
    pub name: String,
    /// What of it has changed, such as `prompt`; empty when it is the whole.
    pub of: Vec<String>,
    /// The agents that see it; empty for what belongs to the project.
    pub agents: Vec<String>,
}

impl fmt::Display for Change {
    /// `added action review`, `changed prompt of find_news`, `changed limits`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.how {
            How::Added => "added",
            How::Removed => "removed",
            How::Changed => "changed",
        };
        match (self.of.as_slice(), self.name.as_str()) {
            ([], "") => write!(f, "{how} {}", self.kind),
            ([], name) => write!(f, "{how} {} {name}", self.kind),
            (of, name) => {
                let kind = if self.kind == "action" { String::new() } else { format!("{} ", self.kind) };
                write!(f, "{how} {} of {kind}{name}", listed(of))
            }
        }
    }
}

impl Change {
    /// The difference, and whose it is when a program has several agents.
    pub fn in_agents(&self, of_many: bool) -> String {
        match (self.agents.as_slice(), of_many && self.kind != "agent") {
            ([], _) | (_, false) => self.to_string(),
            ([one], true) => format!("{self} ({one})"),
            ([one, two], true) => format!("{self} ({one}, {two})"),
            ([first, rest @ ..], true) => format!("{self} ({first} and {} others)", rest.len()),
        }
    }
}

fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

impl Program {
    /// What differs in `new` from `old`, or from nothing.
    pub fn diff(old: Option<&Program>, new: &Program) -> Vec<Change> {
        let mut changes = Changes::default();
        let before: IndexMap<&str, &Arc<Agent>> =
            old.iter().flat_map(|old| &old.agents).map(|agent| (agent.name.as_str(), agent)).collect();
        let after: IndexSet<&str> = new.agents.iter().map(|agent| agent.name.as_str()).collect();
        for agent in &new.agents {
            match before.get(agent.name.as_str()) {
                None => changes.whole(How::Added, "agent", &agent.name),
                Some(old) if Arc::ptr_eq(old, agent) => {}
                Some(old) => changes.agent(old, agent),
            }
        }
        for name in before.keys().filter(|name| !after.contains(*name)) {
            changes.whole(How::Removed, "agent", name);
        }
        if let Some(old) = old {
            changes.project(old, new);
        }
        changes.all.into_values().collect()
    }
}

impl Agent {
    /// What differs in `self` from the same agent as it was, by name.
    pub fn diff(&self, old: &Agent) -> Vec<Change> {
        let mut changes = Changes::default();
        changes.agent(old, self);
        changes.all.into_values().collect()
    }
}

/// Differences so far, each with the agents that see it.
#[derive(Default)]
struct Changes {
    all: IndexMap<(How, &'static str, String, Vec<String>), Change>,
}

impl Changes {
    fn add(&mut self, how: How, kind: &'static str, name: &str, of: Vec<String>, agent: Option<&str>) {
        let key = (how, kind, name.to_owned(), of.clone());
        let change =
            self.all.entry(key).or_insert_with(|| Change { how, kind, name: name.to_owned(), of, agents: Vec::new() });
        if let Some(agent) = agent.filter(|agent| !change.agents.iter().any(|known| known == agent)) {
            change.agents.push(agent.to_owned());
        }
    }

    fn whole(&mut self, how: How, kind: &'static str, name: &str) {
        self.add(how, kind, name, Vec::new(), Some(name).filter(|_| kind == "agent"));
    }

    /// What the project sets beside its agents.
    fn project(&mut self, old: &Program, new: &Program) {
        let texts =
            |program: &Program| -> IndexMap<String, String> { super::format_providers(program).into_iter().collect() };
        self.named("provider", &texts(old), &texts(new), None);
        self.named("script", &old.scripts, &new.scripts, None);
        self.named("MCP server", &old.mcp_servers, &new.mcp_servers, None);
        let settings = [
            ("permissions", old.permissions == new.permissions),
            ("model catalog", old.catalog == new.catalog),
            ("autonomy", old.autonomy == new.autonomy),
            ("personality of the log", old.voice == new.voice),
        ];
        for (name, _) in settings.iter().filter(|(_, same)| !same) {
            self.add(How::Changed, name, "", Vec::new(), None);
        }
        // What no agent uses is the project's still.
        let modules = |program: &Program| -> Vec<Arc<Module>> { program.project.iter().cloned().collect() };
        let (was, is) = unlike(&modules(old), &modules(new));
        self.modules(&was, &is, None);
        self.types(&was, &is, None);
    }

    fn named<T: PartialEq>(
        &mut self,
        kind: &'static str,
        old: &IndexMap<String, T>,
        new: &IndexMap<String, T>,
        agent: Option<&str>,
    ) {
        for (name, value) in new {
            match old.get(name) {
                None => self.add(How::Added, kind, name, Vec::new(), agent),
                Some(before) if before != value => self.add(How::Changed, kind, name, Vec::new(), agent),
                Some(_) => {}
            }
        }
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            self.add(How::Removed, kind, name, Vec::new(), agent);
        }
    }

    /// What differs between two agents of one name.
    fn agent(&mut self, old: &Agent, new: &Agent) {
        if old.same_as(new) {
            return;
        }
        let (before, found) = (self.all.len(), new.name.as_str());
        let (was, is) = unlike(&old.written.modules, &new.written.modules);
        self.modules(&was, &is, Some(found));
        self.actions(old, new);
        self.types(&was, &is, Some(found));
        let texts = |agent: &Agent| -> IndexMap<String, Arc<str>> {
            agent.written.templates.iter().map(|(name, text)| (name.clone(), text.clone())).collect()
        };
        self.named("template", &texts(old), &texts(new), Some(found));
        for (name, reference) in &new.written.references {
            if old.written.references.get(name).is_some_and(|old| old != reference) {
                self.add(How::Changed, "reference", name, Vec::new(), Some(found));
            }
        }
        let schemas = (&old.written.schemas, &new.written.schemas);
        for name in schemas.1.keys().filter(|name| schemas.0.get(*name).is_some_and(|old| *old != schemas.1[*name])) {
            self.add(How::Changed, "schema", name, Vec::new(), Some(found));
        }
        if old.file != new.file {
            self.add(How::Changed, "file", "", Vec::new(), Some(found));
        }
        let is_told =
            self.all.len() > before || self.all.values().any(|change| change.agents.iter().any(|a| a == found));
        if !is_told {
            // Declarations that were moved: their order breaks ties.
            self.add(How::Changed, "order of declarations", "", Vec::new(), Some(found));
        }
    }

    /// Sections that need no words of their own.
    fn modules(&mut self, old: &[Arc<Module>], new: &[Arc<Module>], agent: Option<&str>) {
        self.tables("condition", |m| &m.conditions, old, new, agent);
        self.tables("goal", |m| &m.goals, old, new, agent);
        self.tables("config value", |m| &m.config, old, new, agent);
        self.tables("persona", |m| &m.personas, old, new, agent);
        self.tables("tool", |m| &m.tools, old, new, agent);
        self.tables("tool group", |m| &m.tool_groups, old, new, agent);
        self.tables("reference", |m| &m.references, old, new, agent);
        self.tables("guardrail", |m| &m.guardrails, old, new, agent);
        for key in settings_differing(old, new) {
            self.add(How::Changed, key, "", Vec::new(), agent);
        }
    }

    fn tables<'a, T: PartialEq + 'a>(
        &mut self,
        kind: &'static str,
        table: impl Fn(&'a Module) -> &'a Table<T>,
        old: &'a [Arc<Module>],
        new: &'a [Arc<Module>],
        agent: Option<&str>,
    ) {
        let collect = |modules: &'a [Arc<Module>]| -> IndexMap<String, &'a T> {
            let entries = modules.iter().flat_map(|module| table(module).iter());
            entries.map(|(name, decl)| (name.value.clone(), decl)).collect()
        };
        self.named(kind, &collect(old), &collect(new), agent);
    }

    fn actions(&mut self, old: &Agent, new: &Agent) {
        // A template that has changed is one of actions that are written as they were.
        let (before, after) = match old.written.templates == new.written.templates {
            true => unlike(&old.written.modules, &new.written.modules),
            false => (old.written.modules.clone(), new.written.modules.clone()),
        };
        let (before, after) = (actions(&before), actions(&after));
        let changed_templates: Vec<&str> = new
            .written
            .templates
            .iter()
            .filter(|(name, text)| old.written.templates.get(*name).is_some_and(|old| old != *text))
            .map(|(name, _)| name.as_str())
            .collect();
        for (name, action) in &after {
            match before.get(name) {
                None => self.add(How::Added, "action", name, Vec::new(), Some(&new.name)),
                Some(old) => {
                    let of = action_differs(old, action, &changed_templates);
                    if !of.is_empty() {
                        self.add(How::Changed, "action", name, of, Some(&new.name));
                    }
                }
            }
        }
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            self.add(How::Removed, "action", name, Vec::new(), Some(&new.name));
        }
    }

    fn types(&mut self, old: &[Arc<Module>], new: &[Arc<Module>], agent: Option<&str>) {
        let collect = |modules: &[Arc<Module>]| -> IndexMap<String, TypeDecl> {
            let tables = modules.iter().flat_map(|module| module.types.iter().chain(module.states.iter()));
            // Actions of a type are told of as actions.
            tables
                .map(|(name, decl)| (name.value.clone(), TypeDecl { actions: Table::default(), ..decl.clone() }))
                .collect()
        };
        self.named("type", &collect(old), &collect(new), agent);
    }
}

/// The modules of which two lists do not share the very ones.
fn unlike(old: &[Arc<Module>], new: &[Arc<Module>]) -> (Vec<Arc<Module>>, Vec<Arc<Module>>) {
    let without = |all: &[Arc<Module>], others: &[Arc<Module>]| -> Vec<Arc<Module>> {
        let is_shared = |one: &Arc<Module>| others.iter().any(|other| Arc::ptr_eq(one, other));
        all.iter().filter(|one| !is_shared(one)).cloned().collect()
    };
    (without(old, new), without(new, old))
}

/// All actions by full name.
fn actions(modules: &[Arc<Module>]) -> BTreeMap<String, &Action> {
    let mut all = BTreeMap::new();
    for module in modules {
        let own = module.actions.iter().chain(module.on_stuck.iter());
        all.extend(own.map(|(name, action)| (name.value.clone(), action)));
        for (owner, decl) in module.states.iter().chain(module.types.iter()) {
            let of_type = decl.actions.iter();
            all.extend(of_type.map(|(name, action)| (format!("{}.{}", owner.value, name.value), action)));
        }
    }
    all
}

/// What of an action differs: keys of its declaration, and the kind of its body.
fn action_differs(old: &Action, new: &Action, changed_templates: &[&str]) -> Vec<String> {
    let keys = new.head.differing(&old.head).into_iter().chain(new.settings.differing(&old.settings));
    let mut of: Vec<String> = keys.map(|key| key.replace('_', " ")).collect();
    match (&old.body, &new.body) {
        (Some(old), Some(new)) if old.kind != new.kind => of.push("body".to_owned()),
        (Some(old), Some(new)) if old != new || names_one_of(&new.node, changed_templates) => {
            of.push(new.kind.value.clone());
        }
        _ => {}
    }
    of
}

/// Whether some text of a body is one of these names.
fn names_one_of(node: &Node, names: &[&str]) -> bool {
    if names.is_empty() {
        return false;
    }
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        match &node.kind {
            NodeKind::Text(text) if names.contains(&text.value.as_str()) => return true,
            NodeKind::Map(map) => open.extend(map.entries.iter().map(|entry| &entry.value)),
            NodeKind::List(items) => open.extend(items),
            _ => {}
        }
    }
    false
}

/// Keys of sections without names in them that differ. What is resolved per program (`providers`, …) is not looked at.
fn settings_differing(old: &[Arc<Module>], new: &[Arc<Module>]) -> Vec<&'static str> {
    fn written<'a, T>(modules: &'a [Arc<Module>], of: impl Fn(&'a Module) -> Option<&'a T>) -> Vec<&'a T> {
        modules.iter().filter_map(|module| of(module)).collect()
    }
    macro_rules! differing {
        ($($field:ident),*) => {
            [$((
                stringify!($field),
                written(old, |module| module.$field.as_ref()) != written(new, |module| module.$field.as_ref()),
            )),*]
        };
    }
    let settings = differing!(
        description,
        version,
        inputs,
        planner,
        defaults,
        limits,
        concurrency,
        chat,
        reload,
        models,
        project,
        store,
        server,
        logging
    );
    let lists = |modules: &[Arc<Module>]| -> Vec<_> { modules.iter().map(|module| module.keep.clone()).collect() };
    let imports = |modules: &[Arc<Module>]| -> Vec<_> { modules.iter().map(|module| module.import.clone()).collect() };
    let lists = [("keep", lists(old) != lists(new)), ("import", imports(old) != imports(new))];
    settings.into_iter().chain(lists).filter(|(_, differ)| *differ).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{Entry, compile};
    use crate::world::MemoryWorld;

    const BASE: &str = "agent: a\ntypes:\n  Note: {text: string}\n  Draft: {text: string}\nactions:\n  write:\n    \
        inputs: UserInput\n    output: Draft\n    prompt: {user: 'Write.', system: 'Be kind.'}\n  check:\n    inputs: \
        Draft\n    output: Note\n    prompt: {template: a/check.jinja}\n    achieves: Checked\n";

    fn program(files: &[(&str, &str)]) -> Arc<Program> {
        let base = [
            ("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\n"),
            ("workflows/a.yaml", BASE),
            ("prompts/a/check.jinja", "Check {{ draft.text }}"),
        ];
        let world = MemoryWorld::with_files(base.iter().chain(files).copied());
        let compiled = compile(&world, Entry::Project);
        compiled.program.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics))
    }

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        let (old, new) = (program(&[]), program(files));
        let changes = Program::diff(Some(&old), &new);
        assert_eq!(changes.is_empty(), old.same_as(&new), "{changes:?}");
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_means_the_same_is_no_difference() {
        let spaced = format!("# a comment\n\n{}", BASE.replace("\n  write:", "\n\n  write:   # writes"));
        let keys = BASE.replace("{user: 'Write.', system: 'Be kind.'}", "{system: 'Be kind.', user: 'Write.'}");
        for text in [spaced, keys, BASE.replace("'Write.'", "\"Write.\"")] {
            assert_eq!(told(&[("workflows/a.yaml", &text)]), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn differences_are_told_by_name() {
        let edits: &[(&str, &str, &[&str])] = &[
            ("'Write.'", "'Write well.'", &["changed prompt of write"]),
            ("output: Note\n", "output: Note\n    cost: 3\n", &["changed cost of check"]),
            ("agent: a\n", "agent: a\nlimits: {actions: 3}\n", &["changed limits"]),
            ("Note: {text: string}", "Note: {text: string, more?: string}", &["changed type Note"]),
            ("write:", "compose:", &["added action compose", "removed action write"]),
            ("achieves: Checked", "achieves: Done", &["changed achieves of check"]),
            ("agent: a\n", "agent: b\n", &["added agent b", "removed agent a"]),
        ];
        for (from, to, expected) in edits {
            let text = BASE.replacen(from, to, 1);
            assert_ne!(text, BASE);
            assert_eq!(told(&[("workflows/a.yaml", &text)]), *expected, "{to}");
        }
    }

    #[test]
    fn a_template_is_told_with_the_actions_that_name_it() {
        let changes = told(&[("prompts/a/check.jinja", "Check well: {{ draft.text }}")]);
        assert_eq!(changes, ["changed prompt of check", "changed template a/check.jinja"]);
    }

    #[test]
    fn what_several_agents_see_is_told_once() {
        let files = |shared: &'static str| {
            let flow = |name: &str| {
                format!(
                    "agent: {name}\nimport: shared/types.yaml\nactions: {{go: {{inputs: UserInput, output: Shared, prompt: \
                     hi, achieves: Done}}}}\n"
                )
            };
            let texts = [("workflows/x.yaml", flow("x")), ("workflows/y.yaml", flow("y"))];
            let mut all: Vec<(&str, String)> = texts.into_iter().collect();
            all.push(("workflows/shared/types.yaml", shared.to_owned()));
            let all: Vec<(&str, &str)> = all.iter().map(|(path, text)| (*path, text.as_str())).collect();
            program(&all)
        };
        let old = files("types: {Shared: {text: string}}\n");
        let new = files("types: {Shared: {text: string, page?: integer}}\n");
        let changes: Vec<String> = Program::diff(Some(&old), &new).iter().map(|c| c.in_agents(true)).collect();
        assert_eq!(changes, ["changed type Shared (x, y)"]);
    }

    #[test]
    fn settings_of_the_project_are_told_without_their_secrets() {
        let project = "models: {default: openai/gpt-4.1-mini}\nproviders: {openai: {api_key: topsecret}}\npermissions: \
                       {allow: [internet]}\nmcp_servers: {docs: {command: docs}}\n";
        let changes = told(&[("agent-run.yaml", project)]);
        assert!(changes.contains(&"added MCP server docs".to_owned()), "{changes:?}");
        assert!(changes.contains(&"changed permissions".to_owned()), "{changes:?}");
        assert!(changes.iter().any(|change| change.ends_with("provider openai")), "{changes:?}");
        assert!(!format!("{changes:?}").contains("topsecret"));
    }
}
