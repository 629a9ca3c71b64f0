//! `models`: what is configured, and with `--ping` whether it answers.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::diag::suggest;
use crate::llm::{self, Llm, LlmError, Message, NoSink, Options, Request};
use crate::program::{Agent, Program};

use super::args::{Global, ModelsArgs};
use super::loaded::configured;
use super::output::{BOLD, DIM, GREEN, RED};
use super::project::root_and_entry;
use super::{Exit, Fault, Out};

/// Lists the models that the project's agents name.
pub(super) fn models(args: &ModelsArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let (root, entry) = root_and_entry(args.target.as_deref(), global)?;
    let Some((_, program)) = configured(&root, entry, out) else { return Ok(Exit::Wrong) };
    let used = used(&program);
    let mut failed = false;
    let mut listed = Vec::new();
    for (model, agents) in &used {
        let answer = if args.ping { Some(ping(&program, model)) } else { None };
        failed |= matches!(answer, Some(Err(_)));
        listed.push(entry_of(&program, model, agents, answer.as_ref()));
        if !out.json {
            show(&program, model, agents, answer.as_ref().map(|answer| answer.as_ref().map(|_| String::new())), out);
        }
    }
    for (model, agents) in embedding(&program) {
        let answer = if args.ping { Some(ping_embedding(&program, &model)) } else { None };
        failed |= matches!(answer, Some(Err(_)));
        let mut entry = entry_of(&program, &model, &agents, answer.as_ref());
        entry["embedding"] = json!(true);
        if let Some(Ok(dimensions)) = &answer {
            entry["dimensions"] = json!(dimensions);
        }
        listed.push(entry);
        if !out.json {
            show(
                &program,
                &model,
                &agents,
                answer.as_ref().map(|answer| answer.as_ref().map(ToString::to_string)),
                out,
            );
        }
    }
    if out.json {
        out.document(&json!({"models": listed, "providers": program.providers.keys().collect::<Vec<_>>()}));
    } else if listed.is_empty() && !lacking(&program) {
        out.line("no agent of the project asks a model");
    }
    if !out.json && lacking(&program) {
        out.line(format!("{}  {}", out.paint(RED, "default"), "not set, and some prompts name no model"));
        out.line("  set it in the project file: `models: {default: provider/id}`");
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Models by name, each with the agents that name it, in the order met.
fn used(program: &Program) -> Vec<(String, Vec<String>)> {
    let mut used: Vec<(String, Vec<String>)> = Vec::new();
    for agent in &program.agents {
        for model in of_agent(agent) {
            let entry = match used.iter_mut().find(|(name, _)| *name == model) {
                Some(entry) => entry,
                None => {
                    used.push((model, Vec::new()));
                    let last = used.len() - 1;
                    &mut used[last]
                }
            };
            if !entry.1.contains(&agent.name) {
                entry.1.push(agent.name.clone());
            }
        }
    }
    used
}

/// The models of vectors, each with the agents that would use it.
fn embedding(program: &Program) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for agent in &program.agents {
        let Some(model) = &agent.embedding else { continue };
        match found.iter_mut().find(|(name, _)| name == model) {
            Some((_, agents)) => agents.push(agent.name.clone()),
            None => found.push((model.clone(), vec![agent.name.clone()])),
        }
    }
    found
}

/// True when some prompt has no model to ask.
fn lacking(program: &Program) -> bool {
    let lacks = |agent: &Agent| {
        let mut prompts = agent.actions.iter().filter(|action| action.body.kind() == "prompt");
        prompts.any(|action| agent.models_of(&action.settings).is_empty())
    };
    program.agents.iter().any(|agent| lacks(agent))
}

fn of_agent(agent: &Agent) -> impl Iterator<Item = String> + '_ {
    let asking = agent.actions.iter().filter(|action| action.body.kind() == "prompt");
    let chosen = asking.flat_map(|action| agent.models_of(&action.settings).iter().map(|choice| choice.model.clone()));
    chosen.filter(|model| !model.is_empty())
}

fn entry_of<T>(program: &Program, model: &str, agents: &[String], answer: Option<&Result<T, LlmError>>) -> Value {
    let known = program.catalog.get(model);
    let mut entry = json!({"model": model, "agents": agents, "known": known.is_some()});
    if let Some(known) = known {
        entry["input_usd_per_mtok"] = json!(known.input_usd_per_mtok);
        entry["output_usd_per_mtok"] = json!(known.output_usd_per_mtok);
        entry["cached_input_usd_per_mtok"] = json!(known.cached_input_usd_per_mtok);
        entry["knowledge_cutoff"] = json!(known.knowledge_cutoff);
        entry["supports"] = json!(known.supports);
    }
    match answer {
        Some(Ok(_)) => entry["answers"] = json!(true),
        Some(Err(error)) => {
            entry["answers"] = json!(false);
            entry["error"] = json!(error.message);
        }
        None => {}
    }
    entry
}

/// Shows a model; of one of vectors, how long they are.
fn show(program: &Program, model: &str, agents: &[String], answer: Option<Result<String, &LlmError>>, out: &Out) {
    let price = program.catalog.get(model).and_then(|known| {
        let (input, output) = (known.input_usd_per_mtok?, known.output_usd_per_mtok?);
        Some(format!("${input} in, ${output} out per million tokens"))
    });
    let about = format!("{}; used by {}", price.unwrap_or_else(|| "price not known".to_owned()), agents.join(", "));
    out.line(format!("{}  {}", out.paint(BOLD, model), out.paint(DIM, about)));
    match answer {
        Some(Ok(length)) if length.is_empty() => out.line(format!("  {}", out.paint(GREEN, "answers"))),
        Some(Ok(length)) => out.line(format!("  {} with {length} numbers a text", out.paint(GREEN, "answers"))),
        Some(Err(error)) => out.line(format!("  {} {}", out.paint(RED, "does not answer:"), error.message)),
        None => {}
    }
}

fn failed(message: String) -> LlmError {
    LlmError::new(llm::LlmErrorKind::Transport, message)
}

/// The provider of a model, its name, and the model's own.
fn provider_of<'a>(program: &Program, model: &'a str) -> Result<(Arc<dyn Llm>, &'a str, &'a str), LlmError> {
    let (provider, id) = Request::split_model(model);
    let name = provider.unwrap_or_default();
    let mut config =
        program.providers.get(name).cloned().ok_or_else(|| failed(format!("there is no provider `{name}`")))?;
    if let (None, Some(script)) = (&config.script, program.scripts.get(name)) {
        config.script = llm::Script::from_value(script).ok();
    }
    let llm = llm::build(name, &config, program.catalog.clone()).map_err(failed)?;
    Ok((llm, name, id))
}

fn runtime() -> Result<tokio::runtime::Runtime, LlmError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| failed(error.to_string()))
}

/// Has one word made a vector; gives its length.
fn ping_embedding(program: &Program, model: &str) -> Result<usize, LlmError> {
    let (llm, _, id) = provider_of(program, model)?;
    let embedded = runtime()?.block_on(llm.embed(id, &["pong".to_owned()]))?;
    Ok(embedded.vectors.first().map_or(0, Vec::len))
}

/// Asks a model for one word.
fn ping(program: &Program, model: &str) -> Result<String, LlmError> {
    let (llm, name, id) = provider_of(program, model)?;
    let request = Request {
        name: "ping".to_owned(),
        provider: name.to_owned(),
        model: id.to_owned(),
        messages: vec![Message::user("Answer with the word: pong")],
        options: Options { max_tokens: Some(16), ..Options::default() },
        turn: 1,
        ..Request::default()
    };
    runtime()?.block_on(async {
        let asked = llm.call(&request, &NoSink).await;
        let mut error = match asked {
            Ok(reply) => return Ok(reply.text()),
            Err(error) => error,
        };
        // A wrong name is the usual cause; the provider knows the right ones.
        if error.kind == llm::LlmErrorKind::BadRequest
            && let Ok(offered) = llm.models().await
            && !offered.iter().any(|other| other == id)
        {
            let names = || offered.iter().map(String::as_str);
            let some = || format!("it offers {}", names().take(20).collect::<Vec<_>>().join(", "));
            let near = suggest::did_you_mean(id, names()).unwrap_or_else(some);
            error.message = format!("{}; there is no model `{id}`; {near}", error.message);
        }
        Err(error)
    })
}
