//! `show`: everything about a stored process.

use serde_json::json;

use super::args::{Global, ProcessArgs};
use super::keep;
use super::output::{BOLD, DIM, RED};
use super::project::root_of_command;
use super::run::{result_text, resume_hint};
use super::terminal::time;
use super::{Exit, Fault, Out};

/// Shows a process: what it did, what is on its blackboard, what it waits for.
pub(super) fn show(args: &ProcessArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let root = root_of_command(global)?;
    let (store, row) = keep::meant(&keep::open_existing(&root)?, &args.process)?;
    let (document, events) = keep::document(&store, &row)?;
    if out.json {
        let mut shown = serde_json::to_value(&document).unwrap_or_default();
        shown["events"] = json!(events);
        out.document(&shown);
        return Ok(Exit::Done);
    }
    let goal = document.goal.as_deref().map(|goal| format!(" {goal}")).unwrap_or_default();
    out.line(format!(
        "{}  {}  {}",
        out.paint(BOLD, &document.process),
        document.agent,
        out.paint(BOLD, format!("{}{goal}", document.status.word()))
    ));
    let parent = row.parent.as_deref().map(|parent| format!(", belongs to {parent}")).unwrap_or_default();
    out.line(out.paint(DIM, format!("from {} to {}{parent}", row.started_at, row.updated_at)));
    let children = futures::executor::block_on(store.children(&row.process))?;
    for child in children {
        out.line(out.paint(DIM, format!("ran {} as {}: {}", child.agent, child.process, child.status)));
    }
    for entry in &document.history {
        let calls = match entry.llm.len() {
            0 => String::new(),
            1 => ", 1 model call".to_owned(),
            many => format!(", {many} model calls"),
        };
        let text = format!("  {}  {}", entry.action, entry.status.word());
        out.line(format!("{text}  {}", out.paint(DIM, format!("{}{calls}", time(entry.ms)))));
    }
    if !document.blackboard.is_empty() {
        out.line(out.paint(BOLD, "blackboard"));
    }
    for object in &document.blackboard {
        let name = object.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        out.line(format!("  {}{name}  {}", object.r#type, out.paint(DIM, object.value.to_string())));
    }
    if let Some(failure) = &document.failure {
        let action = failure.action.as_deref().map(|action| format!(" in {action}")).unwrap_or_default();
        out.line(format!("{} {}", out.paint(RED, format!("{}{action}:", failure.kind)), failure.message));
    }
    if let Some(waiting) = &document.waiting {
        out.line(format!("{} {}", out.paint(BOLD, format!("{} asks:", waiting.action)), waiting.prompt));
        out.line(resume_hint(&document.process, waiting, None));
    }
    if let Some(output) = &document.output {
        out.line(out.paint(BOLD, &output.r#type));
        out.line(result_text(&output.value));
    }
    Ok(Exit::Done)
}
