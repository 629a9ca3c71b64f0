//! Engines and runs.

use std::sync::Arc;

use agent_run::compile::{Entry, compile};
use agent_run::engine::{Engine, Input};
use agent_run::world::{SystemWorld, World};
use tokio::runtime::Runtime;

use super::{QUESTION, repository};

/// Runs that are under way at once.
pub(crate) const CONCURRENT: usize = 1_000;

/// The engine of a workflow.
pub(crate) fn engine(world: impl World + 'static, file: &str) -> Engine {
    let compiled = compile(&world, Entry::File(file.into()));
    let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    Engine::new(program, Arc::new(world))
}

/// Star-news: four actions, three of them with a call of the scripted model.
pub(crate) fn star_news() -> Engine {
    engine(SystemWorld::new(repository()), "workflows/star-news.yaml")
}

/// What star-news starts from.
pub(crate) fn question() -> Vec<Input> {
    vec![Input::Text(QUESTION.to_owned())]
}

/// A runtime on this thread.
pub(crate) fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A runtime on two threads of its own.
pub(crate) fn two_threads() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Waits until all tasks are done.
pub(crate) fn finish(runtime: &Runtime, tasks: Vec<tokio::task::JoinHandle<()>>) {
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("no task panics");
        }
    });
}
