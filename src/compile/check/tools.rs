//! Tools and tool groups: what lists of tools name exists, heads are sound, and what this version cannot offer is noted.

use crate::decl::body::BodyNode;
use crate::decl::tools::{GroupSource, Tool, ToolUse};
use crate::decl::{List, Name};
use crate::diag::Diagnostic;
use crate::tool::builtin;
use crate::tool::group::{NAME_CHARS_MAX, Take};
use crate::tool::mcp::ServerBody;
use crate::value::ObjectDef;

use super::super::agent::AgentCx;
use super::super::types;

/// What a tool may touch, beside `mcp:<server>` (runtime.md 8).
const PERMISSIONS: &[&str] = &["internet", "exec", "files:read", "files:write"];

/// Checks a tool's head and gives its parameters.
pub(crate) fn head(cx: &mut AgentCx<'_>, name: &Name, decl: &Tool) -> ObjectDef {
    let head = &decl.head;
    head.parameters.0.iter().for_each(|field| super::types::of(cx, &field.of));
    let object = crate::decl::types::ObjectExpr { fields: head.parameters.0.clone(), open: None };
    let mut findings = Vec::new();
    let mut scope = types::Scope { types: cx.types(), findings: &mut findings };
    let parameters = types::object_def(&mut scope, &object);
    for required in head.requires.iter() {
        types::named(cx.types(), required, &mut findings);
    }
    if let Some(publish) = &head.publish {
        types::named(cx.types(), publish, &mut findings);
    }
    cx.strings.findings.append(&mut findings);
    // A server's tool is described by its server.
    let is_servers = decl.body.as_ref().is_some_and(|body| body.kind.value == "mcp");
    if head.description.is_none() && !is_servers {
        cx.report(
            Diagnostic::warning("no-description", name.span, format!("the tool `{}` has no description", name.value))
                .help("a model chooses tools by their descriptions; add `description: …`"),
        );
    }
    parameters
}

/// Checks the body `mcp: {server, tool}` and lowers it.
pub(crate) fn mcp(cx: &mut AgentCx<'_>, body: &BodyNode, idempotent: bool) -> Option<ServerBody> {
    let Some(map) = body.node.as_map() else {
        cx.report(Diagnostic::error("wrong-shape", body.node.span, "expected `{server, tool}`"));
        return None;
    };
    let mut read = crate::decl::ReadCx::default();
    crate::decl::read::refuse_unknown_keys(map, &["server", "tool"], "an MCP tool", &mut read);
    for key in ["server", "tool"] {
        if !map.contains(key) {
            crate::decl::read::missing_key(body.node.span, key, "an MCP tool", &mut read);
        }
    }
    let server: Option<Name> = crate::decl::read::field(map, "server", &mut read);
    let tool: Option<Name> = crate::decl::read::field(map, "tool", &mut read);
    cx.strings.findings.append(&mut read.diagnostics);
    let server = server?;
    mcp_server(cx, &server);
    Some(ServerBody { server: server.value, tool: tool?.value, idempotent })
}

fn mcp_server(cx: &mut AgentCx<'_>, server: &Name) {
    let servers = &cx.heads.visible.mcp_servers;
    if !servers.contains_key(server.value.as_str()) {
        let names: Vec<&str> = servers.keys().copied().collect();
        cx.report_unknown("unknown-server", "MCP server", server, &names);
    }
}

/// Checks the names of a list of tools.
pub(crate) fn names<'d>(cx: &mut AgentCx<'_>, tools: impl Iterator<Item = &'d ToolUse>, inputs: &[&str]) {
    for tool in tools {
        match tool {
            ToolUse::Name(name) => check_use(cx, name, inputs),
            ToolUse::Derived(derived) => check_use(cx, &derived.tool, inputs),
            ToolUse::Inline(name, _) => super::names::check_tool(name, &mut cx.strings.findings),
        }
    }
}

/// Checks one name in a list of tools.
pub(crate) fn check_use(cx: &mut AgentCx<'_>, name: &Name, inputs: &[&str]) {
    let visible = &cx.heads.visible;
    let text = name.value.as_str();
    if text.starts_with("builtin:") {
        if !builtin::names().any(|known| known == text) {
            let names: Vec<&str> = builtin::names().collect();
            cx.report_unknown("unknown-tool", "tool", name, &names);
        }
        return;
    }
    if let Some((group, tool)) = text.split_once('.') {
        let groups = &visible.tool_groups;
        match groups.get(group) {
            None => {
                let names: Vec<&str> = groups.keys().copied().collect();
                cx.report_unknown("unknown-group", "tool group", &Name::new(group.to_owned(), name.span), &names);
            }
            Some(decl) => {
                let from_mcp = decl.decl.from.iter().any(|source| source.mcp.is_some());
                let names: Vec<String> = group_tools(decl.decl);
                if !from_mcp && !names.iter().any(|known| known == tool) {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    cx.report_unknown("unknown-tool", "tool", &Name::new(tool.to_owned(), name.span), &names);
                }
            }
        }
        return;
    }
    let known = visible.tools.contains_key(text)
        || visible.tool_groups.contains_key(text)
        || cx.types().id(text).is_some()
        || inputs.contains(&text)
        || cx.agent_names.iter().any(|agent| agent == text);
    if known {
        return;
    }
    let types: Vec<&str> = visible.types.keys().copied().collect();
    let agents: Vec<&str> = cx.agent_names.iter().map(String::as_str).collect();
    let tools = visible.tools.keys().copied().chain(visible.tool_groups.keys().copied());
    let built_in = builtin::names().map(|name: &str| name);
    let candidates: Vec<&str> =
        tools.chain(inputs.iter().copied()).chain(types).chain(agents).chain(built_in).collect();
    cx.report_unknown("unknown-tool", "tool", name, &candidates);
}

fn group_tools(group: &crate::decl::tools::ToolGroup) -> Vec<String> {
    let mut names = Vec::new();
    for source in group.from.iter() {
        let prefix = source.prefix.as_ref().map_or("", |prefix| prefix.value.as_str());
        for tool in source.tools.iter().flat_map(|list| list.iter()) {
            names.push(format!("{prefix}{}", tool_name(tool).value));
        }
    }
    names
}

/// Checks the names that a prefix makes, as far as they are known here: those of the project's own tools, and of a server's
/// tools that `include` names.
fn prefix(cx: &mut AgentCx<'_>, source: &GroupSource) {
    let Some(prefix) = &source.prefix else { return };
    let is_sound = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if let Some(wrong) = prefix.value.chars().find(|c| !is_sound(*c)) {
        let message = format!("the prefix `{}` has `{wrong}`, which no name of a tool has", prefix.value);
        let sound: String = prefix.value.chars().map(|c| if is_sound(c) { c } else { '_' }).collect();
        cx.report(
            Diagnostic::error("bad-name", prefix.span, message)
                .help(format!("names of tools have letters, digits, `_` and `-`, such as `{sound}`")),
        );
        return;
    }
    let taken = Take { include: texts(&source.include), exclude: texts(&source.exclude), prefix: prefix.value.clone() };
    let named = source.tools.iter().flat_map(|list| list.iter()).map(|tool| tool_name(tool).value.clone());
    let of_server = source.include.iter().filter(|_| source.mcp.is_some()).map(|name| name.value.clone());
    let named = named.chain(of_server.filter(|name| !name.contains('*')));
    let names = named.filter_map(|name| Some((taken.offered(&name)?, name)));
    let Some((long, name)) = names.max_by_key(|(offered, _)| offered.chars().count()) else {
        // A server's tools have at least one character each.
        if prefix.value.len() >= NAME_CHARS_MAX {
            too_long(cx, prefix, "any tool", prefix.value.len() + 1);
        }
        return;
    };
    if long.chars().count() > NAME_CHARS_MAX {
        too_long(cx, prefix, &format!("`{name}`"), long.chars().count());
    }
}

fn too_long(cx: &mut AgentCx<'_>, prefix: &Name, tool: &str, chars: usize) {
    let message = format!("with this prefix the name of {tool} has {chars} characters; the most is {NAME_CHARS_MAX}");
    let over = chars - NAME_CHARS_MAX;
    cx.report(
        Diagnostic::error("bad-name", prefix.span, message)
            .help(format!("take at least {over} characters off the prefix")),
    );
}

fn texts(names: &List<Name>) -> Vec<String> {
    names.iter().map(|name| name.value.clone()).collect()
}

/// The name that a tool of a list is offered by.
fn tool_name(tool: &ToolUse) -> &Name {
    match tool {
        ToolUse::Name(name) | ToolUse::Inline(name, _) => name,
        ToolUse::Derived(derived) => derived.name.as_ref().unwrap_or(&derived.tool),
    }
}

/// Checks the tool groups that an agent sees, and its `defaults`.
pub(crate) fn groups(cx: &mut AgentCx<'_>) {
    let heads = cx.heads;
    for group in heads.visible.tool_groups.values() {
        if group.decl.from.0.is_empty() && !group.decl.partial.0 {
            let message =
                format!("the tool group `{}` has no source, so no tool of it can be offered", group.name.value);
            cx.report(
                Diagnostic::error("missing-key", group.name.span, message)
                    .help("list sources under `from`: `{mcp: server}` or `{tools: […]}`"),
            );
        }
        for permission in group.decl.permissions.iter().flat_map(|list| list.iter()) {
            if !PERMISSIONS.contains(&permission.value.as_str()) && !permission.value.starts_with("mcp:") {
                cx.report(crate::decl::basic::unknown_word(
                    &permission.value,
                    permission.span,
                    "a permission",
                    &[PERMISSIONS, &["mcp:<server>"]].concat(),
                ));
            }
        }
        for source in group.decl.from.iter() {
            match (&source.mcp, &source.tools) {
                (None, None) => cx.report(
                    Diagnostic::error("missing-key", source.place.0, "a source of tools needs `mcp` or `tools`")
                        .help("add `mcp: server`, or `tools: […]`"),
                ),
                (Some(server), Some(_)) => cx.report(Diagnostic::error(
                    "two-forms",
                    server.span,
                    "a source of tools is `mcp` or `tools`, not both",
                )),
                (Some(server), None) => mcp_server(cx, server),
                (None, Some(tools)) => {
                    for tool in tools.iter() {
                        match tool {
                            ToolUse::Name(name) => check_use(cx, name, &[]),
                            ToolUse::Derived(derived) => check_use(cx, &derived.tool, &[]),
                            ToolUse::Inline(..) => {}
                        }
                    }
                }
            }
            prefix(cx, source);
        }
    }
    let own = heads.own.defaults.as_ref().and_then(|defaults| defaults.tools.as_ref());
    for tool in own.into_iter().flat_map(|list| list.iter()) {
        match tool {
            ToolUse::Name(name) => check_use(cx, name, &[]),
            ToolUse::Derived(derived) => check_use(cx, &derived.tool, &[]),
            ToolUse::Inline(..) => {}
        }
    }
}
