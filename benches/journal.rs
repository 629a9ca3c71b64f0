//! What keeping processes costs: `cargo bench --bench journal`. Figures and their meaning: `docs/performance.md`.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_run::engine::{Engine, Input, RunOptions};
use agent_run::process::{Process, Status};
use agent_run::store::{SqliteStore, Store};
use agent_run::world::MemoryWorld;
use divan::Bencher;

use support::run::{CONCURRENT, engine, finish, one_thread, question, star_news, two_threads};
use support::usage::{peak, processor_time, resident};

/// Actions of star-news.
const ACTIONS: u32 = 4;
/// Processes that wait, in the figure of their memory.
const WAITING: u64 = 5_000;

fn main() {
    // Each figure with its target; divan's table below shows how what is in them spreads.
    if !std::env::args().any(|arg| arg == "--list" || arg == "--test") {
        // First, as long as nothing else has been resident.
        idle_waits();
        thousand();
        cost_of_an_action();
        resume();
    }
    divan::main();
}

fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(&dir.path().join("state.db")).expect("a store");
    (dir, Arc::new(store))
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

/// 1,000 of them at once on two threads.
fn thousand_of(engine: &Engine, runtime: &tokio::runtime::Runtime) {
    let one = |_| {
        let engine = engine.clone();
        runtime.spawn(async move { run(&engine).await })
    };
    finish(runtime, (0..CONCURRENT).map(one).collect());
}

/// 1,000 of them at once, kept, on two threads.
#[divan::bench(sample_count = 10, sample_size = 1, counters = [divan::counter::ItemsCount::new(CONCURRENT)])]
fn thousand_kept(bencher: Bencher) {
    let (_dir, store) = store();
    let (engine, runtime) = (star_news().with_store(store), two_threads());
    bencher.bench_local(|| thousand_of(&engine, &runtime));
}

/// The same with nothing kept.
#[divan::bench(sample_count = 10, sample_size = 1, counters = [divan::counter::ItemsCount::new(CONCURRENT)])]
fn thousand_not_kept(bencher: Bencher) {
    let (engine, runtime) = (star_news(), two_threads());
    bencher.bench_local(|| thousand_of(&engine, &runtime));
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

#[allow(clippy::print_stdout, reason = "figures of their own, beside those of the benches")]
fn tell(what: &str, figure: String, target: &str) {
    println!("{what}: {figure} (target: {target})");
}

/// What a process that waits in this program holds of its memory.
fn idle_waits() {
    let (_dir, store) = store();
    let (engine, runtime) = (long(0).with_store(store), one_thread());
    // The first ones pay for what all share.
    let mut kept: Vec<Process> = (0..100).map(|_| runtime.block_on(waiting(&engine))).collect();
    let before = resident();
    kept.extend((0..WAITING).map(|_| runtime.block_on(waiting(&engine))));
    let each = resident().saturating_sub(before) / WAITING;
    tell("an idle waiting process", format!("{:.1} KiB resident", each as f64 / 1024.0), "20 KiB");
}

/// 1,000 at once, ten times over: how many in a second, what each costs, the most memory.
fn thousand() {
    const ROUNDS: u32 = 10;
    let (_dir, store) = store();
    let (engine, runtime) = (star_news().with_store(store), two_threads());
    thousand_of(&engine, &runtime);
    let (started, used) = (Instant::now(), processor_time());
    (0..ROUNDS).for_each(|_| thousand_of(&engine, &runtime));
    let (took, used) = (started.elapsed(), processor_time().saturating_sub(used));
    let processes = f64::from(ROUNDS) * CONCURRENT as f64;
    tell("1,000 processes at once, kept", format!("{:.0} processes/s", processes / took.as_secs_f64()), "2,000/s");
    let each = used.as_secs_f64() * 1e6 / processes;
    tell("processor time of each", format!("{each:.0} µs, the store's thread too"), "none");
    tell("the most memory so far", format!("{:.0} MiB resident", peak() as f64 / f64::from(1 << 20)), "none");
}

/// What keeping adds to an action: the middle of runs that are kept, less that of runs that are not.
fn cost_of_an_action() {
    let (_dir, store) = store();
    let (kept, plain) = (star_news().with_store(store), star_news());
    let runtime = one_thread();
    let middle = |engine: &Engine| {
        let timed = |_| {
            let started = Instant::now();
            runtime.block_on(run(engine));
            started.elapsed()
        };
        let mut times: Vec<Duration> = (0..1_000).map(timed).collect();
        times.sort();
        times[times.len() / 2]
    };
    let (with, without) = (middle(&kept), middle(&plain));
    let each = with.saturating_sub(without) / ACTIONS;
    tell("an action's journal, durable before the next step", format!("{} µs", each.as_micros()), "300 µs");
}

/// How long a process of more than 500 events takes to come back from the store.
fn resume() {
    let (_dir, store) = store();
    let (engine, runtime) = (long(165).with_store(store.clone()), one_thread());
    let id = runtime.block_on(waiting(&engine)).core().id.clone();
    let events = runtime.block_on(store.lines(&id, "event")).expect("it is read").len();
    let timed = |_| {
        let started = Instant::now();
        runtime.block_on(engine.resume(&id, RunOptions::default())).expect("it is resumed");
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..200).map(timed).collect();
    times.sort();
    let middle = times[times.len() / 2].as_secs_f64() * 1e3;
    tell(&format!("resume of a process of {events} events"), format!("{middle:.2} ms"), "5 ms");
}
