//! Whole commands, as a shell starts them: `cargo bench --bench command`. Figures and their meaning:
//! `docs/performance.md`.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use agent_run::compile::{Compiled, Entry, compile};
use agent_run::world::SystemWorld;
use divan::Bencher;

use support::project::write_project;
use support::{QUESTION, repository};

/// The workflow files of the large project.
const WORKFLOWS: usize = 1_000;

fn main() {
    divan::main();
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent-run"));
    command.current_dir(directory).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command
}

fn succeeds(mut command: Command) {
    let status = command.status().expect("the program starts");
    assert!(status.success(), "{command:?}: {status}");
}

/// What starting any process costs here.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn nothing(bencher: Bencher) {
    bencher.bench(|| succeeds(Command::new("true")));
}

/// What starting this one costs.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn version(bencher: Bencher) {
    bencher.bench(|| succeeds(command(repository(), &["version"])));
}

/// Reading, checking and running star-news on its script.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn run_star_news(bencher: Bencher) {
    bencher.bench(|| succeeds(command(repository(), &["run", "workflows/star-news.yaml", QUESTION])));
}

/// `check` of the large project, the whole command.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn check_project(bencher: Bencher) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_project(directory.path(), WORKFLOWS);
    bencher.bench(|| succeeds(command(directory.path(), &["check"])));
}

/// The same through the library.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn compile_project(bencher: Bencher) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_project(directory.path(), WORKFLOWS);
    bencher.bench(|| sound(compile(&SystemWorld::new(directory.path()), Entry::Project)));
}

/// star-news and all it needs, from files to a program.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn compile_star_news(bencher: Bencher) {
    let world = SystemWorld::new(repository());
    bencher.bench(|| sound(compile(&world, Entry::File("workflows/star-news.yaml".into()))));
}

fn sound(compiled: Compiled) -> Compiled {
    assert!(compiled.program.is_some(), "{:?}", compiled.diagnostics);
    compiled
}
