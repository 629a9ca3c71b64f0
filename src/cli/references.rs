//! `references`: what models are offered beside prompts, what is kept of it, and with `--ping` whether it answers.

use crate::compile::Entry;
use crate::engine::{Asking, ReferenceDocument};

use super::args::{Global, ReferencesArgs};
use super::loaded::{Clock, NO_AGENTS, Outcome, load, load_entry};
use super::output::{BOLD, DIM, GREEN, RED};
use super::project::root_of_command;
use super::{Exit, Fault, Out};

/// Lists the references that the project's agents, or one file's, name.
pub(super) fn references(args: &ReferencesArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let loaded = match &args.target {
        Some(target) => load(target, Clock::default(), None, global, out)?,
        None => {
            let root = root_of_command(global)?;
            load_entry(&root, Entry::Project, Fault::wrong(NO_AGENTS), Clock::default(), None, out)?
        }
    };
    let loaded = match loaded {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    let asking = match (args.ping, args.update) {
        (_, true) => Asking::Update,
        (true, false) => Asking::Ping,
        (false, false) => Asking::Nothing,
    };
    let listed = super::run::runtime()?.block_on(loaded.engine.references(asking))?;
    let failed = listed.iter().any(|one| one.answers == Some(false));
    if out.json {
        out.document(&listed);
    } else if listed.is_empty() {
        out.line("no action names a reference");
    } else {
        let width = listed.iter().map(|one| one.name.chars().count()).max().unwrap_or_default();
        listed.iter().for_each(|one| show(one, width, out));
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
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
