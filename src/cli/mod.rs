//! The command line: flags and formats only (cli.md). What is done is in `compile` and `engine`.
//!
//! One file a verb; each returns an [`Exit`] or a [`Fault`] that is shown to the user. To add a verb: one file, its
//! arguments and one line in [`args::Verb`], one arm in [`dispatch`].

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a surface prints")]

pub mod args;
mod chat;
mod chat_stream;
mod check;
mod choose;
mod completions;
mod domain;
mod explain;
mod form;
mod graph;
mod input;
mod keep;
mod kill;
mod loaded;
mod models;
mod observe;
mod output;
mod person;
mod plan;
mod project;
mod ps;
mod record;
mod references;
mod render;
mod resume;
mod run;
mod schema;
mod shell;
mod show;
mod skills;
mod solve;
mod telemetry;
mod terminal;
mod themes;
mod test;
mod test_review;
mod tools;
mod version;
mod watching;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Verb};
pub use output::Out;

use crate::action::sandbox;

/// Exit codes (cli.md 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// The process, the tests or the command failed.
    Failed,
    /// The command line or a file is wrong.
    Wrong,
    /// Waiting for a person.
    Waiting,
    /// Stuck, or no plan was found.
    Stuck,
    /// Ended by a limit.
    Limit,
    /// Interrupted.
    Interrupted,
}

impl Exit {
    /// The number of cli.md 1.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Wrong => 2,
            Exit::Waiting => 3,
            Exit::Stuck => 4,
            Exit::Limit => 5,
            Exit::Interrupted => 130,
        }
    }
}

/// Why a command could not do its work: shown on stderr as `error: …` with its helps.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// What to do about it, one line each.
    pub help: Vec<String>,
    /// How the command ends.
    pub exit: Exit,
}

impl Fault {
    /// The command line or a file is wrong.
    pub fn wrong(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), help: Vec::new(), exit: Exit::Wrong }
    }

    /// The command failed.
    pub fn failed(message: impl Into<String>) -> Fault {
        Fault { exit: Exit::Failed, ..Fault::wrong(message) }
    }

    /// With a line of advice more.
    pub fn help(mut self, help: impl Into<String>) -> Fault {
        self.help.push(help.into());
        self
    }
}

/// Runs the command with the arguments of the program. This is the whole program.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|verb| verb == sandbox::VERB) {
        eprintln!("agent-run {}: {}", sandbox::VERB, sandbox::enter(words));
        return ExitCode::from(126);
    }
    // The link leads to this very program even when its file was replaced meanwhile.
    sandbox::set_helper("/proc/self/exe");
    let cli = match Cli::try_parse_from(args::with_verb(std::env::args_os().collect())) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no mistakes; clap prints them to stdout.
            let exit = if error.use_stderr() { Exit::Wrong } else { Exit::Done };
            let _ = error.print();
            if exit == Exit::Wrong && std::env::args_os().any(|arg| arg == "--json") {
                let text = error.render().to_string();
                let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
                let help: Vec<String> = lines.map(str::to_owned).collect();
                Out::new(&args::Global::default()).document(&output::fault_document(&message, &help));
            }
            return ExitCode::from(exit.code());
        }
    };
    let out = Out::new(&cli.global);
    let _telemetry = telemetry::start();
    let exit = match dispatch(cli, &out) {
        Ok(exit) => exit,
        Err(fault) => {
            out.fault(&fault);
            fault.exit
        }
    };
    ExitCode::from(exit.code())
}

fn dispatch(cli: Cli, out: &Out) -> Result<Exit, Fault> {
    let global = &cli.global;
    match cli.verb {
        Verb::Run(args) => run::run(&args, global, out),
        Verb::Plan(args) => plan::plan(&args, global, out),
        Verb::Check(args) => check::check(&args, global, out),
        Verb::Render(args) => render::render(&args, global, out),
        Verb::Test(args) => test::test(&args, global, out),
        Verb::Domain(args) => domain::domain(&args, global, out),
        Verb::Solve(args) => solve::solve(&args, out),
        Verb::Schema(args) => schema::schema(&args, out),
        Verb::Chat(args) => chat::chat(&args, global, out),
        Verb::Ps => ps::ps(global, out),
        Verb::Show(args) => show::show(&args, global, out),
        Verb::Resume(args) => resume::resume(&args, global, out),
        Verb::Kill(args) => kill::kill(&args, global, out),
        Verb::Shell(args) => shell::shell(&args, global, out),
        Verb::Graph(args) => graph::graph(&args, global, out),
        Verb::Tools(args) => tools::tools(&args, global, out),
        Verb::Explain(args) => explain::explain(&args, out),
        Verb::Models(args) => models::models(&args, global, out),
        Verb::References(args) => references::references(&args, global, out),
        Verb::Skills(args) => skills::skills(&args, global, out),
        Verb::Completions(args) => completions::completions(&args),
        Verb::Version => version::version(out),
    }
}
