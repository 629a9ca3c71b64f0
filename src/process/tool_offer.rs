//! What a prompt offers, resolved for one interaction: groups and servers asked, objects looked up, facades filled.

use std::sync::Arc;

use futures::future::BoxFuture;
use indexmap::IndexMap;

use crate::action::{Failure, FailureKind};
use crate::prompt::TemplateId;
use crate::tool::Tool;
use crate::tool::group::{Group, NAME_CHARS_MAX, Source};
use crate::tool::mcp::ServerBody;
use crate::tool::offer::{Derived, Offered, Role, Use, is_same};
use crate::tool::unfold::{Facade, NESTING_MAX, Unfold};
use crate::value::{TypeId, snake_case};

use super::context::ActionContext;
use super::event::What;

type Tools = Result<Vec<Offered>, Failure>;

/// Resolves a list of tools. What `requires` objects that are not there is among them.
pub(super) async fn resolve(cx: &ActionContext, uses: &[Use]) -> Result<Vec<Arc<Offered>>, Failure> {
    Ok(list(cx, uses, 0).await?.into_iter().map(Arc::new).collect())
}

fn list<'a>(cx: &'a ActionContext, uses: &'a [Use], depth: usize) -> BoxFuture<'a, Tools> {
    Box::pin(async move {
        let several = uses.iter().map(|of| objects(cx, of).len()).sum::<usize>() > 1;
        let mut tools = Vec::new();
        for of in uses {
            match of {
                Use::Objects { .. } => {
                    for (name, at) in objects(cx, of) {
                        tools.extend(of_object(cx, at, if several { &name } else { "" }));
                    }
                }
                _ => tools.extend(one(cx, of, depth).await?),
            }
        }
        Ok(tools)
    })
}

async fn one(cx: &ActionContext, of: &Use, depth: usize) -> Tools {
    match of {
        Use::Tool(name) => match cx.scope.agent.tools.get(name) {
            Some(tool) => Ok(vec![declared(cx, tool, depth).await?]),
            None => Err(Failure::new(FailureKind::Tool, format!("there is no tool `{name}`"))),
        },
        Use::Own(tool) => Ok(vec![declared(cx, tool, depth).await?]),
        Use::Derived(of, derived) => {
            let mut tools = list(cx, std::slice::from_ref(of), depth).await?;
            tools.iter_mut().try_for_each(|tool| derive(cx, tool, derived))?;
            Ok(tools)
        }
        Use::Group { group, only } => {
            let Some(declared) = cx.scope.agent.tool_groups.get(group) else {
                return Err(Failure::new(FailureKind::Tool, format!("there is no tool group `{group}`")));
            };
            let tools = of_group(cx, declared, depth).await?;
            let Some(only) = only else { return Ok(tools) };
            let names: Vec<String> = tools.iter().map(|tool| tool.spec.name.clone()).collect();
            let tools: Vec<Offered> = tools.into_iter().filter(|tool| tool.name() == only).collect();
            if tools.is_empty() {
                let names = names.iter().map(String::as_str);
                let help = crate::diag::suggest::near_or_all(only, names, "its tools");
                let message = format!("the tool group `{group}` has no tool `{only}`; {help}");
                return Err(Failure::new(FailureKind::Tool, message));
            }
            Ok(tools)
        }
        Use::BuiltIn(tools) => {
            let types = &cx.scope.agent.types;
            Ok(tools.iter().map(|tool| Offered::plain(Arc::clone(tool), types)).collect())
        }
        Use::Objects { .. } => Ok(Vec::new()),
    }
}

/// A declared tool, with what it reveals when it is a facade.
async fn declared(cx: &ActionContext, tool: &Arc<Tool>, depth: usize) -> Result<Offered, Failure> {
    let tool = &described(cx, tool).await?;
    let mut offered = Offered::plain(Arc::clone(tool), &cx.scope.agent.types);
    if let Some(template) = tool.description_template {
        offered.spec.description = text(cx, template)?;
    }
    if let Some(unfold) = &tool.unfold {
        offered.role = Role::Facade(facade(cx, tool, unfold, depth + 1).await?);
        // A call may also hold an inner tool's name, so further arguments are allowed.
        if let Some(schema) = offered.spec.parameters.as_object_mut() {
            schema.shift_remove("additionalProperties");
        }
    }
    Ok(offered)
}

/// The tool, with the parameters (and the description, where the author gives none) that its server says it has. Where the
/// server cannot be asked, it takes anything, and the call tells why.
pub(super) async fn described(cx: &ActionContext, tool: &Arc<Tool>) -> Result<Arc<Tool>, Failure> {
    let Some(ServerBody { server, tool: wanted, .. }) = &tool.described_by else { return Ok(Arc::clone(tool)) };
    // What stands in for tools needs no server, and a dry run calls none.
    if cx.core.run.stubs.is_some() || cx.core.run.dry_run {
        return Ok(Arc::clone(tool));
    }
    let given = match cx.core.host.mcp_tools(server).await {
        Ok(given) => given,
        Err(failure) => {
            let message = format!("the parameters of the tool `{}` are not known: {}", tool.name, failure.message);
            tell_once(cx, "parameters-unknown", &tool.name, server, message);
            return Ok(Arc::clone(tool));
        }
    };
    let own = |known: &Arc<Tool>| known.described_by.as_ref().map(|body| body.tool.clone()).unwrap_or_default();
    let Some(known) = given.tools.iter().find(|known| own(known) == *wanted) else {
        let names: Vec<String> = given.tools.iter().map(own).collect();
        let help = crate::diag::suggest::near_or_all(wanted, names.iter().map(String::as_str), "its tools");
        let message = format!("the MCP server `{server}` has no tool `{wanted}`; {help}");
        return Err(Failure::new(FailureKind::Tool, message));
    };
    let description = Some(&tool.description).filter(|own| !own.is_empty()).unwrap_or(&known.description);
    Ok(Arc::new(Tool {
        schema: known.schema.clone(),
        parameters: known.parameters.clone(),
        description: description.clone(),
        ..(**tool).clone()
    }))
}

fn text(cx: &ActionContext, template: TemplateId) -> Result<String, Failure> {
    Ok(cx.scope.agent.templates.render(template, &cx.scope)?)
}

async fn facade(cx: &ActionContext, tool: &Tool, unfold: &Unfold, depth: usize) -> Result<Facade, Failure> {
    if depth > NESTING_MAX {
        let message = format!("facades nest deeper than {NESTING_MAX}, last `{}`", tool.name);
        return Err(Failure::new(FailureKind::Tool, message));
    }
    let mut tools: Vec<Arc<Offered>> = Vec::new();
    // One that stands in several categories is one.
    let mut places = |found: Vec<Offered>| -> Vec<usize> {
        let mut places = Vec::new();
        for tool in found {
            let known = tools.iter().position(|known| known.name() == tool.name() && is_same(&known.tool, &tool.tool));
            places.push(known.unwrap_or_else(|| {
                tools.push(Arc::new(tool));
                tools.len() - 1
            }));
        }
        places
    };
    places(list(cx, &unfold.tools, depth).await?);
    let mut categories = IndexMap::new();
    for (name, uses) in &unfold.categories {
        categories.insert(name.clone(), places(list(cx, uses, depth).await?));
    }
    let shared = places(list(cx, &unfold.shared, depth).await?);
    Ok(Facade {
        tools,
        by: unfold.by.clone(),
        categories,
        shared,
        select: unfold.select,
        notes: unfold.usage_notes.map(|notes| text(cx, notes)).transpose()?,
        remove_on_invoke: unfold.remove_on_invoke,
        exclusive: unfold.exclusive,
        guide: unfold.context_tool,
    })
}

fn derive(cx: &ActionContext, tool: &mut Offered, derived: &Derived) -> Result<(), Failure> {
    if let Some(name) = &derived.name {
        tool.spec.name.clone_from(name);
    }
    if let Some(description) = derived.description {
        tool.spec.description = text(cx, description)?;
    }
    if let Some(note) = derived.note {
        let note = text(cx, note)?;
        tool.spec.description = match tool.spec.description.is_empty() {
            true => note,
            false => format!("{}\n{note}", tool.spec.description),
        };
    }
    Ok(())
}

/// The tools of a group. A source that cannot serve is passed over while another one can; a group that none serves is
/// no empty set but a failure.
async fn of_group(cx: &ActionContext, group: &Group, depth: usize) -> Tools {
    let name: Arc<str> = Arc::from(group.name.as_str());
    let (mut tools, mut why): (Vec<Offered>, Vec<String>) = (Vec::new(), Vec::new());
    let mut failed: Vec<String> = Vec::new();
    for source in &group.sources {
        let (found, take) = match source {
            Source::Tools { tools, take } => (list(cx, tools, depth).await, take),
            Source::Server { server, take } => (of_server(cx, server).await, take),
        };
        match found {
            Ok(found) => {
                for mut tool in found {
                    let Some(offered) = take.offered(tool.name()) else { continue };
                    if offered.len() > NAME_CHARS_MAX {
                        let message = format!(
                            "the tool group `{name}` cannot offer `{}`: with its prefix the name has {} characters; the \
                             most is {NAME_CHARS_MAX}",
                            tool.name(),
                            offered.len()
                        );
                        tell_once(cx, LEFT_OUT, tool.name(), &name, message.clone());
                        why.push(message);
                        continue;
                    }
                    tool.spec.name = offered;
                    tool.group = Some(Arc::clone(&name));
                    tools.push(tool);
                }
            }
            Err(failure) => {
                failed.push(failure.message.clone());
                why.push(failure.message);
            }
        }
    }
    if !tools.is_empty() {
        for why in &failed {
            let message = format!("the tool group `{name}` goes without one of its sources: {why}");
            tell_once(cx, "source-left-out", why, &name, message);
        }
    }
    if tools.is_empty() {
        let why = if why.is_empty() { "its sources have no such tools".to_owned() } else { why.join("; ") };
        let message = format!("no source serves the tool group `{name}`: {why}");
        return Err(Failure::new(FailureKind::Tool, message));
    }
    Ok(tools)
}

async fn of_server(cx: &ActionContext, server: &str) -> Tools {
    let given = cx.core.host.mcp_tools(server).await?;
    for left_out in &given.left_out {
        let message = format!(
            "the MCP server `{server}` has a tool `{}` that cannot be offered: {}",
            left_out.tool, left_out.why
        );
        tell_once(cx, LEFT_OUT, &left_out.tool, server, message);
    }
    Ok(given.tools.iter().map(|tool| Offered::plain(Arc::clone(tool), &cx.scope.agent.types)).collect())
}

/// The key of notices of tools that cannot be offered.
const LEFT_OUT: &str = "tool-left-out";

/// Tells once in a run that something of a tool is not there, and why.
fn tell_once(cx: &ActionContext, key: &str, tool: &str, of: &str, message: String) {
    if cx.core.host.is_first(&format!("{key} {of} {tool}")) {
        cx.core.emit(|| What::Notice { key: key.to_owned(), message });
    }
}

/// The objects that an element of a list means, each with the name that may stand before its tools' names.
fn objects(cx: &ActionContext, of: &Use) -> Vec<(String, usize)> {
    let Use::Objects { input, type_id } = of else { return Vec::new() };
    let board = &cx.scope.board;
    let is_one = |at: &usize| board.get(*at).is_some_and(|object| board.is_a(object.type_id, *type_id));
    let mut found = Vec::new();
    for (name, objects) in cx.scope.bound.iter() {
        if input.as_ref().is_some_and(|input| input != name) {
            continue;
        }
        let objects: Vec<usize> = objects.iter().copied().filter(is_one).collect();
        let numbered = objects.len() > 1;
        for (index, at) in objects.into_iter().enumerate() {
            found.push((if numbered { format!("{name}_{}", index + 1) } else { name.clone() }, at));
        }
    }
    if found.is_empty() && input.is_none() {
        let newest = board.newest(*type_id);
        found.extend(newest.map(|(at, object)| (snake_case(cx.scope.agent.types.name(object.type_id)), at)));
    }
    found
}

/// The tools of an object on the blackboard.
fn of_object(cx: &ActionContext, at: usize, prefix: &str) -> Vec<Offered> {
    let (Some(object), Some(this)) = (cx.scope.board.get(at), cx.scope.object(at)) else { return Vec::new() };
    tools_of(cx, object.type_id, &this, prefix)
}

/// The tools of an object of a type: its own and those of its supertypes.
pub(super) fn tools_of(cx: &ActionContext, type_id: TypeId, this: &minijinja::Value, prefix: &str) -> Vec<Offered> {
    let agent = &cx.scope.agent;
    let mut tools: Vec<Offered> = Vec::new();
    for of in std::iter::once(type_id).chain(agent.types.supertypes(type_id)) {
        for tool in agent.object_tools.get(&of).into_iter().flatten() {
            if tools.iter().any(|known| known.tool.name == tool.name) {
                continue;
            }
            let mut offered = Offered::plain(Arc::clone(tool), &agent.types);
            if !prefix.is_empty() {
                offered.spec.name = format!("{prefix}_{}", tool.name);
            }
            if offered.name().len() > NAME_CHARS_MAX {
                let message = format!(
                    "the tool `{}` of an object cannot be offered: with `{prefix}_` before it the name has {} characters; the \
                     most is {NAME_CHARS_MAX}",
                    tool.name,
                    offered.name().len()
                );
                tell_once(cx, LEFT_OUT, &tool.name, prefix, message);
                continue;
            }
            offered.this = Some(this.clone());
            tools.push(offered);
        }
    }
    tools
}
