//! `render FILE ACTION`: the exact messages, tools, schema and options that an action's LLM call would send.

use crate::engine::{RenderDocument, RunOptions, StartError};

use super::args::{Global, RenderArgs};
use super::loaded::{Clock, Outcome, config, inputs, load};
use super::output::{BOLD, CYAN, DIM};
use super::{Exit, Fault, Out, input};

/// Renders and prints a request.
pub(super) fn render(args: &RenderArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let clock = Clock::of(args.now.as_deref(), false)?;
    let loaded = match load(&args.target, clock, None, global, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    let options = RunOptions {
        models: input::models(&args.llm)?.into_iter().collect(),
        config: config(&args.config)?,
        ..RunOptions::default()
    };
    loaded.refuse_unknown_providers(&options.models)?;
    let given = inputs(&[], &args.inputs)?;
    let rendered = super::run::runtime()?.block_on(loaded.engine.render(
        &loaded.agent.name,
        &args.action,
        given,
        args.sample,
        options,
    ));
    let document = rendered.map_err(|error| match error {
        missing @ StartError::MissingInputs(_) => {
            Fault::from(missing).help("or make them up from their types: `--sample`")
        }
        other => other.into(),
    })?;
    if out.json {
        out.document(&document);
    } else {
        show(&document, out);
    }
    Ok(Exit::Done)
}

fn show(document: &RenderDocument, out: &Out) {
    let heading = |text: &str| out.line(out.paint(BOLD, format!("── {text}")));
    let about = format!("about {} tokens in", document.input_tokens_estimate);
    let model = document.model.as_deref().unwrap_or("no model is chosen (`models: {default: provider/id}`)");
    heading(&format!("{} → {model}", document.action));
    out.line(out.paint(DIM, about));
    for message in &document.messages {
        heading(&message.role);
        out.line(message.content.trim_end());
    }
    for tool in &document.tools {
        heading(&format!("tool {}", tool["name"].as_str().unwrap_or_default()));
        out.line(tool["description"].as_str().unwrap_or_default());
        out.line(out.paint(CYAN, pretty(&tool["parameters"])));
    }
    if let Some(schema) = &document.output_schema {
        heading("output schema");
        out.line(out.paint(CYAN, pretty(schema)));
    }
    if document.options.as_object().is_some_and(|options| !options.is_empty()) {
        heading("options");
        out.line(out.paint(CYAN, pretty(&document.options)));
    }
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
