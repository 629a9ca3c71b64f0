//! Unfolding tools: what they reveal exists, hierarchies have no cycles and are not too deep, and revealed names do not
//! collide (language.md 9).

use indexmap::IndexMap;

use crate::decl::body::BodyNode;
use crate::decl::read::{Read, field, refuse_unknown_keys};
use crate::decl::tools::{Parameters, PlaybookEntry, StateMachine, ToolUse};
use crate::decl::{Expr, List, Name, ReadCx, Table, Template};
use crate::diag::Diagnostic;
use crate::source::Span;
use crate::tool::unfold::NESTING_MAX;

use super::super::agent::AgentCx;

const KEYS: &[&str] = &[
    "tools",
    "by",
    "categories",
    "shared",
    "parameters",
    "select",
    "usage_notes",
    "remove_on_invoke",
    "exclusive",
    "context_tool",
];

/// The body `unfold` of a tool, as written.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnfoldDecl {
    pub(crate) tools: Vec<ToolUse>,
    pub(crate) by: Option<Name>,
    pub(crate) categories: Vec<(Name, Vec<ToolUse>)>,
    pub(crate) shared: Vec<ToolUse>,
    pub(crate) parameters: Parameters,
    pub(crate) select: Option<Expr>,
    pub(crate) usage_notes: Option<Template>,
    pub(crate) remove_on_invoke: bool,
    pub(crate) exclusive: bool,
    pub(crate) context_tool: Option<bool>,
}

impl UnfoldDecl {
    /// Every tool that it names.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ToolUse> {
        let inner = self.categories.iter().flat_map(|(_, list)| list);
        self.tools.iter().chain(inner).chain(&self.shared)
    }
}

/// Reads the body `unfold` of a tool.
pub(crate) fn read_unfold(body: &BodyNode, read: &mut ReadCx) -> UnfoldDecl {
    let mut unfold = UnfoldDecl { remove_on_invoke: true, ..UnfoldDecl::default() };
    let Some(map) =
        crate::decl::basic::mapping(&body.node, "an `unfold`: a mapping with `tools` or `categories`", read)
    else {
        return unfold;
    };
    refuse_unknown_keys(map, KEYS, "an `unfold`", read);
    let categories: Table<List<ToolUse>> = field(map, "categories", read).unwrap_or_default();
    unfold.tools = field::<List<ToolUse>>(map, "tools", read).map(|list| list.0).unwrap_or_default();
    unfold.shared = field::<List<ToolUse>>(map, "shared", read).map(|list| list.0).unwrap_or_default();
    unfold.categories = categories.entries.into_iter().map(|(name, list)| (name, list.0)).collect();
    unfold.parameters = field(map, "parameters", read).unwrap_or_default();
    unfold.select = field(map, "select", read);
    unfold.usage_notes = field(map, "usage_notes", read);
    unfold.by = field(map, "by", read);
    let mut flag = |key: &str| map.get(key).and_then(|entry| bool::read(&entry.value, read));
    unfold.remove_on_invoke = flag("remove_on_invoke").unwrap_or(true);
    unfold.exclusive = flag("exclusive").unwrap_or(false);
    unfold.context_tool = flag("context_tool");
    if unfold.tools.is_empty() && unfold.categories.is_empty() && !map.contains("tools") && !map.contains("categories")
    {
        read.report(
            Diagnostic::error("missing-key", body.kind.span, "an `unfold` needs `tools` or `categories`")
                .help("list what it reveals: `unfold: {tools: […]}`"),
        );
    }
    if let (Some(first), Some(second)) = (map.get("tools"), map.get("categories")) {
        read.report(
            Diagnostic::error("two-forms", second.key.span, "an `unfold` has `tools` or `categories`, not both")
                .related(first.key.span, "the first is here"),
        );
    }
    if let (Some(by), false) = (map.get("by"), map.contains("categories")) {
        crate::decl::read::missing_key(by.key.span, "categories", "an `unfold` with `by`", read);
    }
    unfold
}

/// Checks what a facade reveals; false when facades nest too deep to go on.
pub(crate) fn body(cx: &mut AgentCx<'_>, unfold: &UnfoldDecl, place: Span, depth: usize) -> bool {
    if depth > NESTING_MAX {
        cx.report(
            Diagnostic::error("too-nested", place, format!("facades nest deeper than {NESTING_MAX}"))
                .help("flatten the hierarchy, or group by `categories`"),
        );
        return false;
    }
    super::tools::names(cx, unfold.all(), &[]);
    collisions(cx, unfold);
    true
}

/// Two different tools of one name cannot be revealed together.
fn collisions(cx: &mut AgentCx<'_>, unfold: &UnfoldDecl) {
    let fixed = std::iter::once(&unfold.tools);
    for group in fixed.chain(unfold.categories.iter().map(|(_, list)| list)) {
        let mut seen: IndexMap<String, (Name, String)> = IndexMap::new();
        for tool in group.iter().chain(&unfold.shared) {
            let (name, meaning) = match tool {
                ToolUse::Name(name) => (name.clone(), name.value.clone()),
                ToolUse::Derived(derived) => {
                    let name = derived.name.clone().unwrap_or_else(|| derived.tool.clone());
                    (name, format!("{} derived", derived.tool.value))
                }
                ToolUse::Inline(name, _) => (name.clone(), format!("{} in place at {}", name.value, name.span.start)),
            };
            match seen.get(&name.value) {
                Some((earlier, other)) if *other != meaning => cx.report(
                    Diagnostic::error(
                        "tool-collision",
                        name.span,
                        format!("two different tools are named `{}`", name.value),
                    )
                    .related(earlier.span, "the other is here")
                    .help("derive one of them under another name: `{tool: …, name: …}`"),
                ),
                Some(_) => {}
                None => {
                    seen.insert(name.value.clone(), (name, meaning));
                }
            }
        }
    }
}

/// What a facade or a group has in it: the names in its lists.
struct Node {
    name: Name,
    is_facade: bool,
    /// Each name with how many facades stand around it inside this one.
    inner: Vec<(Name, usize)>,
}

/// Reports facades that reveal themselves and groups that contain themselves, directly or through others, and hierarchies
/// of them that nest too deep.
pub(crate) fn check(cx: &mut AgentCx<'_>) {
    let mut nodes: IndexMap<String, Node> = IndexMap::new();
    for decl in cx.heads.visible.tool_groups.values() {
        let mut inner = Vec::new();
        for source in decl.decl.from.iter() {
            collect(source.tools.iter().flat_map(|list| list.iter()), 0, &mut inner);
        }
        nodes.insert(decl.name.value.clone(), Node { name: decl.name.clone(), is_facade: false, inner });
    }
    // A tool's name comes before a group's.
    for decl in cx.heads.visible.tools.values() {
        let Some(body) = decl.decl.body.as_ref().filter(|body| body.kind.value == "unfold") else {
            nodes.shift_remove(decl.name.value.as_str());
            continue;
        };
        let mut inner = Vec::new();
        collect(read_unfold(body, &mut ReadCx::default()).all(), 0, &mut inner);
        nodes.insert(decl.name.value.clone(), Node { name: decl.name.clone(), is_facade: true, inner });
    }
    for node in nodes.values_mut() {
        node.inner = std::mem::take(&mut node.inner).into_iter().flat_map(|of| in_group(cx, of)).collect();
    }
    let mut found = Vec::new();
    for (start, node) in &nodes {
        for (name, _) in &node.inner {
            let reached = reached(&nodes, &name.value);
            if !reached.contains(&start.as_str()) {
                continue;
            }
            let through = &name.value;
            let has_facade = reached.iter().any(|name| nodes.get(*name).is_some_and(|node| node.is_facade));
            found.push(match (node.is_facade, has_facade) {
                (false, true) => continue,
                (true, _) => Diagnostic::error(
                    "unfold-cycle",
                    name.span,
                    format!("`{start}` reveals itself through `{through}`"),
                )
                .help("remove one of the facades from the circle"),
                (false, false) => Diagnostic::error(
                    "group-cycle",
                    name.span,
                    format!("the tool group `{start}` contains itself through `{through}`"),
                )
                .help("remove one of the groups from the circle"),
            });
        }
    }
    if found.is_empty() {
        found = too_deep(&nodes);
    }
    found.into_iter().for_each(|finding| cx.report(finding));
}

/// Everything that can be reached from a name, itself first.
fn reached<'n>(nodes: &'n IndexMap<String, Node>, from: &'n str) -> Vec<&'n str> {
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(at) = reached.get(next).copied() {
        next += 1;
        for (inner, _) in nodes.get(at).into_iter().flat_map(|node| &node.inner) {
            if !reached.contains(&inner.value.as_str()) {
                reached.push(&inner.value);
            }
        }
    }
    reached
}

/// Findings for the outermost facades of hierarchies that nest too deep; there are no circles. What stands in place
/// within one facade is found where it is read.
fn too_deep(nodes: &IndexMap<String, Node>) -> Vec<Diagnostic> {
    let mut depths: IndexMap<&str, usize> = nodes.keys().map(|name| (name.as_str(), 0)).collect();
    // Each round carries depths one level up; the longest way visits no node twice.
    for _ in 0..nodes.len() {
        for (name, node) in nodes {
            let below =
                |(inner, around): &(Name, usize)| around + depths.get(inner.value.as_str()).copied().unwrap_or(0);
            let deepest = node.inner.iter().map(below).max().unwrap_or(0);
            depths.insert(name, deepest + usize::from(node.is_facade));
        }
    }
    let is_inside = |name: &str| nodes.values().any(|node| node.inner.iter().any(|(inner, _)| inner.value == name));
    let outermost =
        nodes.iter().filter(|(name, node)| node.is_facade && depths[name.as_str()] > NESTING_MAX && !is_inside(name));
    let finding = |(name, node): (&String, &Node)| {
        let levels = depths[name.as_str()];
        Diagnostic::error(
            "too-nested",
            node.name.span,
            format!("`{name}` has {levels} levels of facades; the most is {NESTING_MAX}"),
        )
        .help("flatten the hierarchy, or group by `categories`")
    };
    outermost.map(finding).collect()
}

/// What `group.tool` names; any other name as it is.
fn in_group(cx: &AgentCx<'_>, (name, around): (Name, usize)) -> Vec<(Name, usize)> {
    let Some((group, tool)) = name.value.split_once('.') else { return vec![(name, around)] };
    let Some(group) = cx.heads.visible.tool_groups.get(group) else { return Vec::new() };
    let mut found = Vec::new();
    for source in group.decl.from.iter() {
        let prefix = source.prefix.as_ref().map_or("", |prefix| prefix.value.as_str());
        for of in source.tools.iter().flat_map(|list| list.iter()) {
            let own = match of {
                ToolUse::Name(name) | ToolUse::Inline(name, _) => name,
                ToolUse::Derived(derived) => derived.name.as_ref().unwrap_or(&derived.tool),
            };
            if tool.strip_prefix(prefix) == Some(own.value.as_str()) {
                collect(std::iter::once(of), 0, &mut found);
            }
        }
    }
    found.into_iter().map(|(inner, depth)| (Name::new(inner.value, name.span), around + depth)).collect()
}

fn collect<'d>(tools: impl Iterator<Item = &'d ToolUse>, depth: usize, names: &mut Vec<(Name, usize)>) {
    for tool in tools {
        match tool {
            ToolUse::Name(name) => names.push((name.clone(), depth)),
            ToolUse::Derived(derived) => names.push((derived.tool.clone(), depth)),
            ToolUse::Inline(name, tool) => {
                let inner = tool.body.as_ref().filter(|body| body.kind.value == "unfold" && depth < NESTING_MAX);
                if let Some(body) = inner {
                    // A facade in place is a level, whatever is in it.
                    names.push((Name::new(String::new(), name.span), depth + 1));
                    collect(read_unfold(body, &mut ReadCx::default()).all(), depth + 1, names);
                }
            }
        }
    }
}

const AGENTIC_KEYS: &[&str] = &["tools", "llm", "system", "max_turns", "playbook", "state_machine"];

/// The body `agentic` of a tool, as written.
#[derive(Debug, Default)]
pub(crate) struct AgenticDecl {
    pub(crate) tools: Vec<ToolUse>,
    pub(crate) llm: Option<crate::decl::models::LlmChoice>,
    pub(crate) system: Option<Template>,
    pub(crate) max_turns: Option<crate::decl::Count>,
    pub(crate) playbook: List<PlaybookEntry>,
    pub(crate) machine: Option<StateMachine>,
}

/// Reads and checks the body `agentic` of a tool.
pub(crate) fn agentic(cx: &mut AgentCx<'_>, body: &BodyNode) -> Option<AgenticDecl> {
    let mut read = ReadCx::default();
    let Some(map) = crate::decl::basic::mapping(&body.node, "an `agentic`: a mapping with `tools`", &mut read) else {
        cx.strings.findings.append(&mut read.diagnostics);
        return None;
    };
    refuse_unknown_keys(map, AGENTIC_KEYS, "an `agentic`", &mut read);
    let decl = AgenticDecl {
        tools: field::<List<ToolUse>>(map, "tools", &mut read).map(|list| list.0).unwrap_or_default(),
        llm: field(map, "llm", &mut read),
        system: field(map, "system", &mut read),
        max_turns: field(map, "max_turns", &mut read),
        playbook: field(map, "playbook", &mut read).unwrap_or_default(),
        machine: field(map, "state_machine", &mut read),
    };
    if let (Some(first), Some(second)) = (map.get("playbook"), map.get("state_machine")) {
        read.report(
            Diagnostic::error(
                "two-forms",
                second.key.span,
                "an `agentic` has a `playbook` or a `state_machine`, not both",
            )
            .related(first.key.span, "the first is here"),
        );
    }
    cx.strings.findings.append(&mut read.diagnostics);
    super::tools::names(cx, decl.tools.iter(), &[]);
    let offered = offered(cx, &decl.tools);
    for entry in decl.playbook.iter() {
        for name in std::iter::once(&entry.tool).chain(entry.after.iter()) {
            is_offered(cx, name, offered.as_deref());
        }
    }
    if let Some(machine) = &decl.machine {
        let states: Vec<&str> = machine.states.names().collect();
        let transitions =
            || machine.states.iter().map(|(_, list)| list).chain([&machine.everywhere]).flat_map(|list| list.iter());
        for state in transitions().filter_map(|transition| transition.to.as_ref()).chain([&machine.start]) {
            if !states.contains(&state.value.as_str()) {
                cx.report_unknown("unknown-word", "state", state, &states);
            }
        }
        for transition in transitions() {
            is_offered(cx, &transition.tool, offered.as_deref());
        }
    }
    Some(decl)
}

/// The names of the tools that an inner loop has; `None` when some of them are known only when it runs.
fn offered(cx: &AgentCx<'_>, tools: &[ToolUse]) -> Option<Vec<String>> {
    let plain = |tool: &ToolUse| match tool {
        ToolUse::Name(name) if cx.heads.visible.tools.contains_key(name.value.as_str()) => Some(name.value.clone()),
        ToolUse::Name(_) => None,
        ToolUse::Derived(derived) => Some(derived.name.as_ref().unwrap_or(&derived.tool).value.clone()),
        ToolUse::Inline(name, _) => Some(name.value.clone()),
    };
    tools.iter().map(plain).collect()
}

fn is_offered(cx: &mut AgentCx<'_>, name: &Name, offered: Option<&[String]>) {
    if let Some(offered) = offered.filter(|offered| !offered.contains(&name.value)) {
        let offered: Vec<&str> = offered.iter().map(String::as_str).collect();
        cx.report_unknown("unknown-tool", "tool", name, &offered);
    }
}
