//! What keeping processes costs: `cargo bench --bench journal`. Figures and their meaning: `docs/performance.md`.

mod support;

use std::sync::Arc;

use agent_run::compile::{Entry, compile};
use agent_run::engine::{Engine, Input, RunOptions};
use agent_run::process::{Process, Status};
use agent_run::store::{SqliteStore, Store};
use agent_run::world::{MemoryWorld, SystemWorld, World};
use divan::Bencher;
use tokio::runtime::Runtime;

use support::{QUESTION, repository};

/// Runs that are under way at once.
const CONCURRENT: usize = 1_000;

fn main() {
    idle_waits();
    divan::main();
}

fn engine(world: impl World + 'static, file: &str) -> Engine {
    let compiled = compile(&world, Entry::File(file.into()));
    let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    Engine::new(program, Arc::new(world))
}

fn star_news() -> Engine {
    engine(SystemWorld::new(repository()), "workflows/star-news.yaml")
}

fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(&dir.path().join("state.db")).expect("a store");
    (dir, Arc::new(store))
}

fn question() -> Vec<Input> {
    vec![Input::Text(QUESTION.to_owned())]
}

async fn run(engine: &Engine) {
    let mut process = engine.start("star-news-finder", question(), RunOptions::default()).expect("it starts");
    assert_eq!(process.run().await, Status::Completed);
}

/// Star-news, four actions, nothing kept.
#[divan::bench]
fn star_news_not_kept(bencher: Bencher) {
    let (engine, runtime) = (star_news(), one_thread());
    bencher.bench_local(|| runtime.block_on(run(&engine)));
}

/// The same with every step durable before the next.
#[divan::bench]
fn star_news_kept(bencher: Bencher) {
    let (_dir, store) = store();
    let (engine, runtime) = (star_news().with_store(store), one_thread());
    bencher.bench_local(|| runtime.block_on(run(&engine)));
}

/// 1,000 of them at once, kept, on two threads.
#[divan::bench(sample_count = 10, sample_size = 1, counters = [divan::counter::ItemsCount::new(CONCURRENT)])]
fn thousand_kept(bencher: Bencher) {
    let (_dir, store) = store();
    let engine = star_news().with_store(store);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    bencher.bench_local(|| {
        let one = |_| {
            let engine = engine.clone();
            runtime.spawn(async move { run(&engine).await })
        };
        let tasks: Vec<_> = (0..CONCURRENT).map(one).collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.expect("no task panics");
            }
        });
    });
}

/// An action that runs again and again, and one whose tool a person must agree to.
fn long(runs: u32) -> Engine {
    let workflow = format!(
        "agent: long\ntypes: {{Count: {{n: integer}}, End: string}}\ninputs: UserInput\nlimits: {{actions: 1000}}\ntools:\n  pay: \
         {{description: Pays, parameters: {{sum: integer}}, confirm: 'Pay?', set: paid}}\nconditions: {{enough: 'count.n >= \
         {runs}'}}\nactions:\n  first: {{inputs: UserInput, output: Count, set: {{n: 0}}}}\n  next: {{inputs: Count, output: Count, \
         can_rerun: true, set: {{n: '{{{{ count.n + 1 }}}}'}}}}\n  end: {{inputs: Count, output: End, pre: enough, call: {{tool: pay, \
         with: {{sum: 1}}}}}}\ngoals: {{done: {{output: End}}}}\n"
    );
    let world = MemoryWorld::with_files([("workflows/long.yaml", workflow.as_str())]);
    engine(world, "workflows/long.yaml")
}

async fn waiting(engine: &Engine) -> Process {
    let input = vec![Input::Text("go".to_owned())];
    let mut process = engine.start("long", input, RunOptions::default()).expect("it starts");
    assert_eq!(process.run().await, Status::Waiting, "{:?}", process.failure());
    process
}

/// A process with more than 500 events is read from the store and rebuilt.
#[divan::bench]
fn resume_500_events(bencher: Bencher) {
    let (_dir, store) = store();
    let (engine, runtime) = (long(165).with_store(store.clone()), one_thread());
    let id = runtime.block_on(waiting(&engine)).core().id.clone();
    let events = runtime.block_on(store.lines(&id, "event")).expect("it is read").len();
    assert!(events >= 500, "{events}");
    bencher.bench_local(|| runtime.block_on(engine.resume(&id, RunOptions::default())).expect("it is resumed"));
}

/// What a process that waits in this program holds of its memory.
#[allow(clippy::print_stdout, reason = "a figure of its own, beside those of the benches")]
fn idle_waits() {
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let (_dir, store) = store();
    let (engine, runtime) = (long(0).with_store(store), one_thread());
    // The first ones pay for what all share.
    let mut kept: Vec<Process> = (0..100).map(|_| runtime.block_on(waiting(&engine))).collect();
    let before = resident();
    kept.extend((0..5_000).map(|_| runtime.block_on(waiting(&engine))));
    let each = resident().saturating_sub(before) / 5_000;
    println!("a process that waits holds {each} bytes resident ({} of them)", kept.len());
}

/// Resident memory of this program, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4_096
}
