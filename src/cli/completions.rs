//! `completions SHELL`: a completion script.

use clap::CommandFactory;

use super::args::{Cli, CompletionsArgs};
use super::{Exit, Fault};

/// Prints the script for a shell.
pub(super) fn completions(args: &CompletionsArgs) -> Result<Exit, Fault> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "agent-run", &mut script);
    // A reader that went away (`| head`) is not an error.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), &script);
    Ok(Exit::Done)
}
