//! `resume`: a stored process goes on.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::compile::Entry;
use crate::engine::{Person, ResumeError, RunOptions, stored_entry};
use crate::process::{AnswerError, Kill, Status};

use super::args::{Global, ResumeArgs};
use super::keep;
use super::loaded::{Clock, Outcome, load_entry, script};
use super::observe::{Show, Watcher};
use super::person::Lines;
use super::project::root_of_command;
use super::run::{AtTerminal, block_on, event_lines, exit, report, resume_hint, runtime};
use super::terminal::Checklist;
use super::{Exit, Fault, Out, input};

/// Goes on with a process: with the answer of `--form` where it waits, from where it was left where it was interrupted.
pub(super) fn resume(args: &ResumeArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let events_on_stdout = args.events.as_deref() == Some(Path::new("-"));
    let root = root_of_command(global)?;
    let (store, row) = keep::meant(&keep::open_existing(&root)?, &args.process)?;
    let form = args.form.as_deref().map(form).transpose()?;
    if row.has_ended() {
        return Err(Fault::failed(format!("the process {} cannot go on: it is {}", row.process, row.status)));
    }
    let list = Arc::new(Checklist::new(*out, out.interactive_output()));
    let kill = Kill::default();
    let person = AtTerminal { list: list.clone(), kill: kill.clone(), out: *out, lines: Lines::default() };
    let asked = out.interactive.then(|| Arc::new(person) as Arc<dyn Person>);
    let clock = Clock::of(args.model.now.as_deref(), args.model.script().is_some())?;
    let entry = futures::executor::block_on(stored_entry(&*store, &row))?;
    if matches!(entry, Entry::File(_)) && !root.join(&row.target).is_file() {
        return Err(Fault::wrong(format!("the workflow `{}` of {} is gone", row.target, row.process))
            .help("bring the file back, then resume; nothing of the process is lost"));
    }
    let gone = Fault::wrong(format!("the workflow `{}` of {} declares no agent", row.target, row.process))
        .help("bring the workflow back to what it was, then resume; nothing of the process is lost");
    let loaded = match load_entry(&root, entry, gone, clock, asked, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    let show = Show { prompts: args.show_prompts, responses: args.show_responses };
    let lines = args.events.as_deref().map(event_lines).transpose()?;
    let options = RunOptions {
        models: input::models(&args.model.llm)?.into_iter().collect(),
        script: args.model.script().map(script).transpose()?,
        yes: args.yes,
        stream: out.interactive_output() || args.events.is_some(),
        observer: Some(Watcher::new(*out, show, list.clone(), lines).observer()),
        kill: kill.clone(),
        ..RunOptions::default()
    };
    loaded.refuse_unknown_providers(&options.models)?;
    let engine = loaded.engine.with_store(store);
    let runtime = runtime()?;
    let answered = runtime.block_on(async {
        let mut process = engine.resume(&row.process, options).await?;
        let expired = process.expire().await;
        let refused = match form {
            Some(form) if !expired => process.answer(form).await.err(),
            _ => None,
        };
        Ok::<_, ResumeError>((process, refused))
    });
    let (mut process, refused) = answered.map_err(not_resumed)?;
    if let Some(refused) = refused {
        let fault = match &refused {
            AnswerError::NotWaiting { .. } => {
                Fault::failed(refused.to_string()).help(format!("agent-run resume {}", row.process))
            }
            AnswerError::DoesNotFit { .. } => {
                let form = process.waiting().map(|pending| pending.question.form.to_string()).unwrap_or_default();
                Fault::wrong(refused.to_string()).help(format!("the form: {form}"))
            }
        };
        return Err(fault);
    }
    if process.status() == Status::Waiting && !out.interactive {
        let document = process.document();
        report(&document, events_on_stdout, out);
        return Ok(Exit::Waiting);
    }
    if process.status() == Status::Waiting {
        // Someone is at the terminal now: the action asks again.
        process.ask_again();
    }
    block_on(&mut process, &engine, &kill, &list)?;
    let document = process.document();
    report(&document, events_on_stdout, out);
    if let (Some(waiting), false) = (&document.waiting, out.json) {
        out.note(resume_hint(&document.process, waiting, args.model.script()));
    }
    Ok(exit(document.status))
}

/// The answer of `--form`: JSON, `@FILE`, or `-`.
fn form(text: &str) -> Result<Value, Fault> {
    input::json(text).map_err(|fault| Fault { message: format!("`--form`: {}", fault.message), ..fault })
}

fn not_resumed(error: ResumeError) -> Fault {
    match error {
        ResumeError::Store(error) => error.into(),
        ResumeError::Start(error) => error.into(),
        ResumeError::Belongs { ref parent, .. } => {
            Fault::wrong(error.to_string()).help(format!("agent-run resume {parent}"))
        }
        ResumeError::Restore { .. } => Fault::wrong(error.to_string())
            .help("bring the workflow back to what it was, then resume; nothing of the process is lost"),
        ResumeError::Ended { .. } => Fault::failed(error.to_string()),
    }
}
