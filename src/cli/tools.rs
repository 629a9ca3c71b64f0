//! `tools list|tree|schema|call`: tools as a model would see them, and one call by hand.

use serde_json::{Map, Value};

use crate::action::FailureKind;
use crate::engine::{RunOptions, ToolNode};
use crate::llm::{ToolSpec, not_strict};

use super::args::{Global, ModelArgs, ToolsArgs, ToolsVerb};
use super::loaded::{Clock, Loaded, Outcome, load};
use super::output::{BOLD, DIM};
use super::{Exit, Fault, Out, input};

/// Shows tools, or calls one.
pub(super) fn tools(args: &ToolsArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let (target, clock) = match &args.verb {
        ToolsVerb::List(of) | ToolsVerb::Tree(of) => (&of.target, Clock::default()),
        ToolsVerb::Schema(schema) => (&schema.of.target, Clock::default()),
        ToolsVerb::Call(call) => (&call.target, Clock::of(call.model.now.as_deref(), call.model.script.is_some())?),
    };
    let loaded = match load(target, clock, None, global, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    let runtime = super::run::runtime()?;
    let name = loaded.agent.name.as_str();
    match &args.verb {
        ToolsVerb::List(of) => {
            let specs = runtime.block_on(loaded.engine.tool_specs(name, of.action.as_deref()))?;
            if out.json {
                out.document(&specs);
                return Ok(Exit::Done);
            }
            for spec in &specs {
                out.line(format!("{}  {}", out.paint(BOLD, &spec.name), first_line(&spec.description)));
            }
        }
        ToolsVerb::Tree(of) => {
            let nodes = runtime.block_on(loaded.engine.tool_tree(name, of.action.as_deref()))?;
            if out.json {
                out.document(&nodes);
                return Ok(Exit::Done);
            }
            nodes.iter().for_each(|node| draw(node, 0, out));
            let sum = |of: fn(&ToolNode) -> u64| nodes.iter().map(of).sum::<u64>();
            let (folded, unfolded) = (sum(|node| node.tokens), sum(|node| node.tokens_unfolded));
            out.line(out.paint(DIM, format!("about {folded} tokens folded, {unfolded} unfolded")));
        }
        ToolsVerb::Schema(schema) => {
            let specs = runtime.block_on(loaded.engine.tool_specs(name, schema.of.action.as_deref()))?;
            let Some(wire) = crate::llm::tool_wire(&schema.form, &specs) else {
                let forms = crate::llm::TOOL_FORMS;
                let help = crate::diag::suggest::near_or_all(&schema.form, forms.iter().copied(), "the forms");
                return Err(Fault::wrong(format!("there is no form `{}`; {help}", schema.form)));
            };
            if schema.strict {
                all_strict(&schema.form, &specs)?;
            }
            match out.json {
                true => out.document(&wire),
                false => out.line(serde_json::to_string_pretty(&wire).unwrap_or_default()),
            }
        }
        ToolsVerb::Call(call) => {
            let arguments = arguments(&call.arguments)?;
            let options = RunOptions { dry_run: call.dry_run, yes: call.yes, ..model_options(&call.model)? };
            let exit = called(&loaded, &runtime, &call.tool, arguments, options, out);
            runtime.block_on(loaded.engine.close());
            return exit;
        }
    }
    runtime.block_on(loaded.engine.close());
    Ok(Exit::Done)
}

/// Refuses tools that do not go out strictly.
fn all_strict(form: &str, specs: &[ToolSpec]) -> Result<(), Fault> {
    let Some(found) = not_strict(form, specs) else {
        return Err(Fault::wrong(format!("the form `{form}` knows no strictness"))
            .help("`--strict` goes with `--for openai`, `responses`, `anthropic` or `bedrock`"));
    };
    let count = found.len();
    match count {
        0 => Ok(()),
        _ => {
            let message = format!("{count} of {} tools cannot go out strictly to `{form}`", specs.len());
            let lines = found.into_iter().map(|(name, why)| format!("`{name}`: {why}"));
            Err(lines.fold(Fault::failed(message), Fault::help))
        }
    }
}

fn model_options(model: &ModelArgs) -> Result<RunOptions, Fault> {
    Ok(RunOptions {
        models: input::models(&model.llm)?.into_iter().collect(),
        ..super::loaded::options(&super::args::InputArgs::default(), model)?
    })
}

fn called(
    loaded: &Loaded,
    runtime: &tokio::runtime::Runtime,
    tool: &str,
    arguments: Map<String, Value>,
    options: RunOptions,
    out: &Out,
) -> Result<Exit, Fault> {
    let call = loaded.engine.call_tool(&loaded.agent.name, tool, arguments, options);
    match runtime.block_on(call)? {
        Ok(value) if out.json => out.document(&value),
        Ok(Value::String(text)) => out.line(text),
        Ok(value) => out.line(serde_json::to_string_pretty(&value).unwrap_or_default()),
        Err(failure) if failure.kind == FailureKind::Waiting => {
            out.note(format!("`{tool}` waits for a person's agreement; agree with `--yes`"));
            return Ok(Exit::Waiting);
        }
        Err(failure) => return Err(Fault::failed(failure.message)),
    }
    Ok(Exit::Done)
}

/// The arguments of a call: a JSON object, `@FILE` or `-`; none is an empty object.
fn arguments(text: &str) -> Result<Map<String, Value>, Fault> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(other) => Err(Fault::wrong(format!("the arguments must be a JSON object, found {other}"))
            .help("such as '{\"city\": \"Rome\"}'")),
        Err(error) => Err(Fault::wrong(format!("the arguments are no JSON: {error}"))
            .help("give an object in single quotes, such as '{\"city\": \"Rome\"}'")),
    }
}

fn draw(node: &ToolNode, depth: usize, out: &Out) {
    let tokens = match node.children.is_empty() {
        true => format!("{} tokens", node.tokens),
        false => format!("{} tokens folded, {} unfolded", node.tokens, node.tokens_unfolded),
    };
    let name = out.paint(BOLD, &node.name);
    let about = first_line(&node.description);
    out.line(format!("{}{name}  {about}  {}", "  ".repeat(depth), out.paint(DIM, format!("({tokens})"))));
    node.children.iter().for_each(|child| draw(child, depth + 1, out));
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
