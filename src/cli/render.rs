//! `render FILE ACTION`: the exact messages, tools, schema and options that an action's LLM call would send.

use crate::diag::suggest;
use crate::engine::{RenderDocument, RunOptions, StartError};
use crate::llm::{self, ProviderConfig, Request};
use crate::program::Program;
use crate::testing::Suite;

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
    let request = match &args.case {
        Some(case) => of_case(case, &args.action, global)?,
        None => {
            let given = inputs(&[], &args.inputs)?;
            let request = loaded.engine.request(&loaded.agent.name, &args.action, given, args.sample, options);
            let rendered = super::run::runtime()?.block_on(async {
                let rendered = request.await;
                loaded.engine.close().await;
                rendered
            });
            rendered.map_err(|error| match error {
                missing @ StartError::MissingInputs(_) => Fault::from(missing)
                    .help("or make them up from their types: `--sample`, or take those of a test: `--case FILE::CASE`"),
                other => other.into(),
            })?
        }
    };
    if let Some(kind) = &args.wire {
        out.document(&wire(request, kind, &loaded.engine.program())?);
    } else if out.json {
        out.document(&RenderDocument::of(&request));
    } else {
        show(&RenderDocument::of(&request), out);
    }
    Ok(Exit::Done)
}

/// The request that an action of a test's case sends: the case is run on its scripted model.
fn of_case(case: &str, action: &str, global: &Global) -> Result<Request, Fault> {
    let Some((file, name)) = case.split_once("::") else {
        return Err(Fault::wrong(format!("`--case {case}` names no case")).help("write `tests/FILE.yaml::CASE`"));
    };
    let path = std::fs::canonicalize(file).map_err(|_| super::project::missing_file(std::path::Path::new(file)))?;
    let root = match &global.project {
        Some(_) => super::project::root_of_command(global)?,
        None => super::test::root_of(&path),
    };
    let inside = path.strip_prefix(&root).unwrap_or(&path).to_owned();
    let loaded = Suite::load(&root, &[inside]);
    if let Some(text) = loaded.findings_text() {
        return Err(Fault::wrong(format!("the test file is wrong\n{}", text.trim_end())));
    }
    loaded.suite.request(name, action).map_err(Fault::wrong)
}

/// The body that a kind of provider would send.
fn wire(mut request: Request, kind: &str, program: &Program) -> Result<serde_json::Value, Fault> {
    let kinds: Vec<&str> = llm::PROVIDERS.iter().map(|kind| kind.name).filter(|kind| *kind != "scripted").collect();
    if !kinds.contains(&kind) {
        let help = suggest::near_or_all(kind, kinds, "the wires");
        return Err(Fault::wrong(format!("there is no wire form `{kind}`")).help(help));
    }
    let config = ProviderConfig { kind: kind.to_owned(), ..ProviderConfig::default() };
    let llm = llm::build(kind, &config, program.catalog.clone()).map_err(Fault::wrong)?;
    let was_instructed = request.output.as_ref().is_some_and(|output| output.mode == llm::OutputMode::Instructions);
    if !was_instructed {
        llm::structured::place_output(&*llm, &mut request);
    }
    Ok(llm.wire(&request))
}

fn show(document: &RenderDocument, out: &Out) {
    let heading = |text: &str| out.line(out.paint(BOLD, format!("── {text}")));
    let about = format!("about {} tokens in", document.input_tokens_estimate);
    let model = document.model.as_deref().unwrap_or("no model is chosen (`models: {default: provider/id}`)");
    heading(&format!("{} → {model}", document.action));
    out.line(out.paint(DIM, about));
    for message in &document.messages {
        heading(&format!("{}  (about {} tokens)", message.role, message.tokens_estimate));
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
