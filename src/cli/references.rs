//! `references`: what models are offered beside prompts, what is kept of it, and with `--ping` whether it answers.

use std::sync::Arc;

use crate::compile::{DeclaredReference, Entry};
use crate::engine::{Asking, Engine, ReferenceDocument};
use crate::program::Agent;
use crate::reference::Mode;
use crate::world::SystemWorld;

use super::args::{Global, ReferencesArgs};
use super::loaded::{Clock, Outcome, configured, load};
use super::output::{BOLD, DIM, GREEN, RED};
use super::project::root_of_command;
use super::{Exit, Fault, Out};

/// Lists the references of the project, or those that one file's agent names.
pub(super) fn references(args: &ReferencesArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let (engine, declared) = match &args.target {
        Some(target) => match load(target, Clock::default(), None, global, out)? {
            Outcome::Ready(loaded) => (loaded.engine, Vec::new()),
            Outcome::Ended(exit) => return Ok(exit),
        },
        None => {
            let root = root_of_command(global)?;
            let Some((compiled, program)) = configured(&root, Entry::Project, out) else { return Ok(Exit::Wrong) };
            (Engine::new(program, Arc::new(SystemWorld::new(&root))), compiled.references)
        }
    };
    let asking = match (args.ping, args.update) {
        (_, true) => Asking::Update,
        (true, false) => Asking::Ping,
        (false, false) => Asking::Nothing,
    };
    let mut listed = super::run::runtime()?.block_on(engine.references(asking))?;
    let failed = listed.iter().any(|one| one.answers == Some(false));
    let program = engine.program();
    let naming = |one: &DeclaredReference| -> Vec<String> {
        let named = |agent: &&Arc<Agent>| {
            agent.written.references.get(&one.name).is_some_and(|written| written.decl == one.decl)
        };
        program.agents.iter().filter(named).map(|agent| agent.name.clone()).collect()
    };
    let used = listed.len();
    let mut places = Vec::new();
    for one in &declared {
        let agents = naming(one);
        // One that is named and not among those above is of a kind that is not run.
        if agents.is_empty() || !listed[..used].iter().any(|known| known.name == one.name) {
            listed.push(written_document(one, agents));
            places.push(format!("{}:{}", one.file, one.line));
        }
    }
    if out.json {
        out.document(&listed);
    } else if listed.is_empty() {
        out.line(if args.target.is_some() {
            "no prompt of it names a reference"
        } else {
            "the project has no reference"
        });
    } else {
        let width = listed.iter().map(|one| one.name.chars().count()).max().unwrap_or_default();
        listed[..used].iter().for_each(|one| show(one, width, out));
        listed[used..].iter().zip(&places).for_each(|(one, place)| show_written(one, place, width, out));
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// What is known of a reference that no run uses: it is not looked at.
fn written_document(one: &DeclaredReference, agents: Vec<String>) -> ReferenceDocument {
    let later = (one.kind() == "rag").then(|| "`rag` comes in a later version".to_owned());
    ReferenceDocument {
        name: one.name.clone(),
        agents,
        kind: one.kind().to_owned(),
        place: one.place(),
        mode: one.decl.mode.unwrap_or(Mode::Auto).word().to_owned(),
        form: None,
        tokens: None,
        tools: Vec::new(),
        unfold: one.decl.unfold == Some(true),
        kept: None,
        answers: None,
        answer: later,
    }
}

fn show_written(one: &ReferenceDocument, place: &str, width: usize, out: &Out) {
    let used = match one.agents.is_empty() {
        true => "used by no one".to_owned(),
        false => format!("used by {}", one.agents.join(", ")),
    };
    let mut about = vec![format!("{} {}", one.kind, one.place).trim_end().to_owned(), used, place.to_owned()];
    about.extend(one.answer.clone());
    let name = format!("{:width$}", one.name);
    out.line(format!("{}  {}", out.paint(BOLD, name), out.paint(DIM, about.join("; "))));
}

fn show(one: &ReferenceDocument, width: usize, out: &Out) {
    let mut about = vec![match one.place.is_empty() {
        true => one.kind.clone(),
        false => format!("{} {}", one.kind, one.place),
    }];
    about.push(match (&one.form, one.mode.as_str()) {
        (Some(form), "auto") => format!("auto: {form}"),
        (Some(form), _) => form.clone(),
        (None, mode) => format!("{mode}: not here yet"),
    });
    about.extend(one.tokens.map(|tokens| format!("about {tokens} tokens")));
    about.push(format!("used by {}", one.agents.join(", ")));
    let name = format!("{:width$}", one.name);
    out.line(format!("{}  {}", out.paint(BOLD, name), out.paint(DIM, about.join("; "))));
    let indent = " ".repeat(width + 2);
    if !one.tools.is_empty() {
        let behind = if one.unfold { format!("behind {}: ", one.name) } else { String::new() };
        out.line(format!("{indent}{behind}{}", one.tools.join(", ")));
    }
    if let Some(kept) = &one.kept {
        let state = kept.state.as_ref().map(|state| format!(" ({state})")).unwrap_or_default();
        out.line(format!("{indent}kept since {}{state}", kept.since));
    }
    let said = one.answer.as_deref().unwrap_or_default();
    match one.answers {
        Some(true) => out.line(format!("{indent}{} {said}", out.paint(GREEN, "answers:"))),
        Some(false) => out.line(format!("{indent}{} {said}", out.paint(RED, "does not answer:"))),
        None if !said.is_empty() => out.line(format!("{indent}{}", out.paint(RED, said))),
        None => {}
    }
}
