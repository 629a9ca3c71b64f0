//! `kill`: the end of a stored process.

use crate::engine::end_stored;
use crate::store::StoreError;

use super::args::{Global, ProcessArgs};
use super::keep;
use super::project::root_of_command;
use super::{Exit, Fault, Out};

/// Ends a process: at once where no program runs it, else by asking the program that does.
pub(super) fn kill(args: &ProcessArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let root = root_of_command(global)?;
    let (store, row) = keep::meant(&keep::open_existing(&root)?, &args.process)?;
    if row.has_ended() {
        return Err(Fault::failed(format!("the process {} has ended already: it is {}", row.process, row.status)));
    }
    if let Some(parent) = &row.parent {
        return Err(Fault::wrong(format!("the process {} belongs to {parent}", row.process))
            .help(format!("agent-run kill {parent}")));
    }
    let said = match futures::executor::block_on(end_stored(&store, &row.process)) {
        Ok(()) => "killed",
        Err(StoreError::Held(_)) => {
            futures::executor::block_on(store.ask_to_end(&row.process))?;
            "asked to end; another program runs it"
        }
        Err(error) => return Err(error.into()),
    };
    if out.json {
        let row = futures::executor::block_on(store.row(&row.process))?.unwrap_or(row);
        out.document(&serde_json::json!({"process": row.process, "status": row.status}));
    } else {
        out.note(format!("{}  {said}", row.process));
    }
    Ok(Exit::Done)
}
