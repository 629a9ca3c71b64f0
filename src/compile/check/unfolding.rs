//! Unfolding tools: what they reveal exists, hierarchies have no cycles, and revealed names do not collide
//! (language.md 9).

use indexmap::IndexMap;

use crate::decl::body::BodyNode;
use crate::decl::read::{Read, field, refuse_unknown_keys};
use crate::decl::tools::{Parameters, PlaybookEntry, StateMachine, Tool, ToolUse};
use crate::decl::{Expr, List, Name, ReadCx, Table, Template};
use crate::diag::Diagnostic;
use crate::prompt::{Scope, Ty};

use super::super::agent::AgentCx;

/// Deepest nesting of facades (runtime.md 4).
const NESTING_MAX: usize = 8;

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

/// What a facade reveals, as written.
#[derive(Clone, Debug, Default)]
struct Unfold {
    tools: Vec<ToolUse>,
    /// A collision may only be among tools that are revealed together.
    groups: Vec<Vec<ToolUse>>,
}

/// Checks the body `unfold` of a tool.
pub(crate) fn body(cx: &mut AgentCx<'_>, name: &Name, body: &BodyNode) {
    let mut read = ReadCx::default();
    let unfold = read_unfold(body, &mut read, Some((cx, name)));
    cx.strings.findings.append(&mut read.diagnostics);
    for tool in &unfold.tools {
        match tool {
            ToolUse::Name(name) => super::tools::check_use(cx, name, &[]),
            ToolUse::Derived(derived) => super::tools::check_use(cx, &derived.tool, &[]),
            ToolUse::Inline(name, tool) => inline(cx, name, tool, 1),
        }
    }
    collisions(cx, &unfold);
}

fn inline(cx: &mut AgentCx<'_>, name: &Name, tool: &Tool, depth: usize) {
    if depth > NESTING_MAX {
        cx.report(
            Diagnostic::error("too-nested", name.span, format!("facades nest deeper than {NESTING_MAX}"))
                .help("flatten the hierarchy, or group by `categories`"),
        );
        return;
    }
    super::tools::head(cx, name, tool);
    let Some(inner) = tool.body.as_ref().filter(|body| body.kind.value == "unfold") else { return };
    let mut read = ReadCx::default();
    let unfold = read_unfold(inner, &mut read, None);
    cx.strings.findings.append(&mut read.diagnostics);
    for tool in &unfold.tools {
        match tool {
            ToolUse::Name(name) => super::tools::check_use(cx, name, &[]),
            ToolUse::Derived(derived) => super::tools::check_use(cx, &derived.tool, &[]),
            ToolUse::Inline(name, tool) => inline(cx, name, tool, depth + 1),
        }
    }
    collisions(cx, &unfold);
}

fn read_unfold(body: &BodyNode, read: &mut ReadCx, within: Option<(&mut AgentCx<'_>, &Name)>) -> Unfold {
    let mut unfold = Unfold::default();
    let Some(map) =
        crate::decl::basic::mapping(&body.node, "an `unfold`: a mapping with `tools` or `categories`", read)
    else {
        return unfold;
    };
    refuse_unknown_keys(map, KEYS, "an `unfold`", read);
    let tools: Vec<ToolUse> = field::<List<ToolUse>>(map, "tools", read).map(|list| list.0).unwrap_or_default();
    let shared: Vec<ToolUse> = field::<List<ToolUse>>(map, "shared", read).map(|list| list.0).unwrap_or_default();
    let categories: Table<List<ToolUse>> = field(map, "categories", read).unwrap_or_default();
    let parameters: Parameters = field(map, "parameters", read).unwrap_or_default();
    let select: Option<Expr> = field(map, "select", read);
    let _: Option<Template> = field(map, "usage_notes", read);
    let _: Option<Name> = field(map, "by", read);
    for key in ["remove_on_invoke", "exclusive", "context_tool"] {
        let _: Option<bool> = map.get(key).and_then(|entry| bool::read(&entry.value, read));
    }
    if tools.is_empty() && categories.is_empty() && !map.contains("tools") && !map.contains("categories") {
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
    if let (Some(expr), Some((cx, _))) = (&select, within) {
        let mut scope: Scope = cx.input_scope(&[], &[]);
        for parameter in &parameters.0 {
            scope.vars.insert(parameter.name.value.clone(), Ty::Any);
        }
        cx.strings.checked_expr(expr, &scope);
    }
    unfold.groups.push([tools.clone(), shared.clone()].concat());
    for (_, list) in categories.iter() {
        unfold.groups.push([list.0.clone(), shared.clone()].concat());
    }
    let inner = categories.entries.into_iter().flat_map(|(_, list)| list.0);
    unfold.tools = tools.into_iter().chain(inner).chain(shared).collect();
    unfold
}

/// Two different tools of one name cannot be revealed together.
fn collisions(cx: &mut AgentCx<'_>, unfold: &Unfold) {
    for group in &unfold.groups {
        let mut seen: IndexMap<String, (Name, String)> = IndexMap::new();
        for tool in group {
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

/// Reports facades that reveal themselves, directly or through others.
pub(crate) fn check(cx: &mut AgentCx<'_>) {
    let mut reveals: IndexMap<String, (Name, Vec<Name>)> = IndexMap::new();
    for decl in cx.heads.visible.tools.values() {
        let Some(body) = decl.decl.body.as_ref().filter(|body| body.kind.value == "unfold") else { continue };
        let mut names = Vec::new();
        collect(&read_unfold(body, &mut ReadCx::default(), None), 0, &mut names);
        reveals.insert(decl.name.value.clone(), (decl.name.clone(), names));
    }
    let mut found = Vec::new();
    for (start, (_, names)) in &reveals {
        for name in names {
            let mut reached: Vec<&str> = vec![&name.value];
            let mut next = 0;
            while let Some(at) = reached.get(next).copied() {
                next += 1;
                for (_, inner) in reveals.get(at).into_iter() {
                    for inner in inner {
                        if !reached.contains(&inner.value.as_str()) {
                            reached.push(&inner.value);
                        }
                    }
                }
            }
            if reached.contains(&start.as_str()) {
                found.push((start.clone(), name.clone()));
            }
        }
    }
    for (start, name) in found {
        cx.report(
            Diagnostic::error("unfold-cycle", name.span, format!("`{start}` reveals itself through `{}`", name.value))
                .help("remove one of the facades from the circle"),
        );
    }
}

fn collect(unfold: &Unfold, depth: usize, names: &mut Vec<Name>) {
    for tool in &unfold.tools {
        match tool {
            ToolUse::Name(name) => names.push(name.clone()),
            ToolUse::Derived(derived) => names.push(derived.tool.clone()),
            ToolUse::Inline(_, tool) => {
                let inner = tool.body.as_ref().filter(|body| body.kind.value == "unfold" && depth < NESTING_MAX);
                if let Some(body) = inner {
                    collect(&read_unfold(body, &mut ReadCx::default(), None), depth + 1, names);
                }
            }
        }
    }
}

const AGENTIC_KEYS: &[&str] = &["tools", "llm", "system", "max_turns", "playbook", "state_machine"];

/// Checks the body `agentic` of a tool.
pub(crate) fn agentic(cx: &mut AgentCx<'_>, body: &BodyNode) {
    let mut read = ReadCx::default();
    let Some(map) = crate::decl::basic::mapping(&body.node, "an `agentic`: a mapping with `tools`", &mut read) else {
        cx.strings.findings.append(&mut read.diagnostics);
        return;
    };
    refuse_unknown_keys(map, AGENTIC_KEYS, "an `agentic`", &mut read);
    let tools: Vec<ToolUse> = field::<List<ToolUse>>(map, "tools", &mut read).map(|list| list.0).unwrap_or_default();
    let llm = field::<crate::decl::models::LlmChoice>(map, "llm", &mut read);
    let _: Option<Template> = field(map, "system", &mut read);
    let _: Option<crate::decl::Count> = field(map, "max_turns", &mut read);
    let playbook: List<PlaybookEntry> = field(map, "playbook", &mut read).unwrap_or_default();
    let machine: Option<StateMachine> = field(map, "state_machine", &mut read);
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
    for tool in &tools {
        match tool {
            ToolUse::Name(name) => super::tools::check_use(cx, name, &[]),
            ToolUse::Derived(derived) => super::tools::check_use(cx, &derived.tool, &[]),
            ToolUse::Inline(name, tool) => inline(cx, name, tool, 1),
        }
    }
    if let Some(llm) = llm {
        cx.models(&llm, 0);
    }
    let offered = offered(cx, &tools);
    for entry in playbook.iter() {
        for name in std::iter::once(&entry.tool).chain(entry.after.iter()) {
            is_offered(cx, name, offered.as_deref());
        }
        if let Some(when) = &entry.when {
            cx.strings.syntax_only(&when.0, true);
        }
        if let Some(needs) = &entry.needs {
            super::super::types::named(cx.types(), needs, &mut cx.strings.findings);
        }
    }
    if let Some(machine) = machine {
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
