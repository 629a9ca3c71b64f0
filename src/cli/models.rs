//! `models`: what is configured, and with `--ping` whether it answers.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::action::context::{CallSettings, ModelChoice};
use crate::diag::suggest;
use crate::llm::{self, Llm, LlmError, Message, NoSink, Options, Request};
use crate::program::{Agent, ConditionKind, PlannerKind, Program};

use super::args::{Global, ModelsArgs};
use super::loaded::configured;
use super::output::{BOLD, DIM, GREEN, RED};
use super::project::root_and_entry;
use super::{Exit, Fault, Out};

/// A model, and what asks it.
#[derive(Default)]
struct Used {
    /// `provider/id`.
    model: String,
    /// The roles that name it.
    roles: Vec<String>,
    /// The automatic choices that mean it, for a call that needs nothing but text.
    autos: Vec<&'static str>,
    /// The agents.
    agents: Vec<String>,
}

/// Lists the models that the project's agents name.
pub(super) fn models(args: &ModelsArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let (root, entry) = root_and_entry(args.target.as_deref(), global)?;
    let Some((_, program)) = configured(&root, entry, out) else { return Ok(Exit::Wrong) };
    let (used, unmet) = used(&program);
    let mut failed = false;
    let mut listed = Vec::new();
    for used in &used {
        let answer = if args.ping { Some(ping(&program, &used.model)) } else { None };
        failed |= matches!(answer, Some(Err(_)));
        listed.push(entry_of(&program, used, answer.as_ref()));
        if !out.json {
            show(&program, used, answer.as_ref().map(|answer| answer.as_ref().map(|_| String::new())), out);
        }
    }
    for used in embedding(&program) {
        let answer = if args.ping { Some(ping_embedding(&program, &used.model)) } else { None };
        failed |= matches!(answer, Some(Err(_)));
        let mut entry = entry_of(&program, &used, answer.as_ref());
        entry["embedding"] = json!(true);
        if let Some(Ok(dimensions)) = &answer {
            entry["dimensions"] = json!(dimensions);
        }
        listed.push(entry);
        if !out.json {
            show(&program, &used, answer.as_ref().map(|answer| answer.as_ref().map(ToString::to_string)), out);
        }
    }
    if out.json {
        let providers: Vec<&String> = program.providers.keys().collect();
        out.document(&json!({"models": listed, "providers": providers, "no_model_for": unmet}));
    } else if listed.is_empty() && unmet.is_empty() && !lacking(&program) {
        out.line("no agent of the project asks a model");
    }
    for auto in unmet.iter().filter(|_| !out.json) {
        out.line(format!("{}  no model with a known price among the providers that have a key", out.paint(RED, auto)));
        out.line("  set a provider's key, or list its models with their prices in `models.catalog`");
    }
    if !out.json && lacking(&program) {
        out.line(format!("{}  {}", out.paint(RED, "default"), "not set, and some prompts name no model"));
        out.line("  set it in the project file: `models: {default: provider/id}`");
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// The models that agents ask, in the order met, and the automatic choices that mean none.
fn used(program: &Program) -> (Vec<Used>, Vec<String>) {
    let mut used: Vec<Used> = Vec::new();
    let mut unmet: Vec<String> = Vec::new();
    for agent in &program.agents {
        for choice in agent.asked_models() {
            let auto = choice.auto.filter(|_| choice.model.is_empty());
            let model = match auto {
                Some(auto) => llm::choose(&program.catalog, auto, &[], |provider| program.can_ask(provider)),
                None => Some(choice.model.clone()).filter(|model| !model.is_empty()),
            };
            match (model, auto) {
                (Some(model), auto) => {
                    let at = used.iter().position(|entry| entry.model == model).unwrap_or(used.len());
                    if at == used.len() {
                        used.push(Used { model, ..Used::default() });
                    }
                    let entry = &mut used[at];
                    choice.roles.iter().for_each(|role| add(&mut entry.roles, role.clone()));
                    auto.into_iter().for_each(|auto| add(&mut entry.autos, auto.word()));
                    add(&mut entry.agents, agent.name.clone());
                }
                (None, Some(auto)) => add(&mut unmet, format!("auto: {}", auto.word())),
                (None, None) => {}
            }
        }
    }
    (used, unmet)
}

/// Adds what is not there yet.
fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// The models of vectors.
fn embedding(program: &Program) -> Vec<Used> {
    let mut found: Vec<Used> = Vec::new();
    for agent in &program.agents {
        let Some(model) = &agent.embedding else { continue };
        match found.iter_mut().find(|entry| entry.model == *model) {
            Some(entry) => entry.agents.push(agent.name.clone()),
            None => found.push(Used { model: model.clone(), agents: vec![agent.name.clone()], ..Used::default() }),
        }
    }
    found
}

/// True when some prompt, or a supervisor, has no model to ask.
fn lacking(program: &Program) -> bool {
    let is_none = |choice: &ModelChoice| choice.model.is_empty() && choice.auto.is_none();
    let lacks = |agent: &Agent, settings: &CallSettings| {
        let models = agent.models_of(settings);
        models.is_empty() || models.iter().any(is_none)
    };
    program.agents.iter().any(|agent| calls(agent).any(|settings| lacks(agent, settings)))
}

/// How an agent calls models for certain: for prompts of actions, prompted conditions, and by its supervisor.
fn calls(agent: &Agent) -> impl Iterator<Item = &CallSettings> {
    let asking = agent.actions.iter().filter(|action| action.body.kind() == "prompt").map(|action| &*action.settings);
    let conditions = agent.conditions.iter().filter_map(|condition| match &condition.kind {
        ConditionKind::Prompt(_, _, settings, _) => Some(&**settings),
        _ => None,
    });
    let supervisor = (agent.planner == PlannerKind::Supervisor).then_some(&*agent.supervisor);
    asking.chain(conditions).chain(supervisor)
}

fn entry_of<T>(program: &Program, used: &Used, answer: Option<&Result<T, LlmError>>) -> Value {
    let known = program.catalog.get(&used.model);
    let mut entry = json!({"model": used.model, "agents": used.agents, "known": known.is_some()});
    entry["roles"] = json!(used.roles);
    entry["auto"] = json!(used.autos);
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
fn show(program: &Program, used: &Used, answer: Option<Result<String, &LlmError>>, out: &Out) {
    let price = program.catalog.get(&used.model).and_then(|known| {
        let (input, output) = (known.input_usd_per_mtok?, known.output_usd_per_mtok?);
        Some(format!("${input} in, ${output} out per million tokens"))
    });
    let autos = used.autos.iter().map(|auto| format!("auto: {auto}"));
    let names: Vec<String> = used.roles.iter().cloned().chain(autos).collect();
    let names = if names.is_empty() { String::new() } else { format!("{}; ", names.join(", ")) };
    let price = price.unwrap_or_else(|| "price not known".to_owned());
    let about = format!("{names}{price}; used by {}", used.agents.join(", "));
    out.line(format!("{}  {}", out.paint(BOLD, &used.model), out.paint(DIM, about)));
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
