//! Inside a run: `cargo bench --bench process`. Figures and their meaning: `docs/performance.md`.

mod support;

use std::sync::Arc;

use agent_run::engine::{Engine, Input, RunOptions};
use agent_run::planning::plan;
use agent_run::process::{ActionContext, Process, Status};
use agent_run::world::MemoryWorld;
use divan::Bencher;
use serde_json::{Value, json};

use support::run::{CONCURRENT, engine, finish, one_thread, question, star_news, two_threads};
use support::server::FastServer;

fn main() {
    divan::main();
}

/// A process of star-news after so many actions.
fn star_news_after(actions: usize) -> Process {
    let mut process = star_news().start("star-news-finder", question(), RunOptions::default()).expect("it starts");
    one_thread().block_on(async {
        for _ in 0..actions {
            process.tick().await;
        }
    });
    process
}

/// One planning step of star-news, after so many of its four actions: the facts are read and the best plan is found.
#[divan::bench(args = [0, 1, 2, 3])]
fn observe_and_plan(bencher: Bencher, actions: usize) {
    let mut process = star_news_after(actions);
    let domain = process.domain().clone();
    bencher.bench_local(|| {
        let seen = process.observe();
        let problem = process.problem(&domain, &seen).expect("costs are numbers");
        let outcome = plan(&problem);
        assert!(outcome.plan().is_some());
        outcome
    });
}

/// One prompt: a template file with a loop, a macro of another file and an include; with its messages and the schema of
/// the reply.
#[divan::bench]
fn render_prompt(bencher: Bencher) {
    let process = star_news_after(3);
    let action = process.core().agent.actions.iter().find(|action| action.name == "writeup").expect("it is there");
    let bound = process.blackboard().bind(&action.inputs).expect("its inputs are there");
    let scope = process.scope().with_inputs(&action.inputs, &bound);
    let cx = ActionContext::detached(process.core().clone(), "writeup", scope, action.output.clone());
    bencher.bench_local(|| action.body.prompt(&cx).expect("it renders").expect("it asks a model"));
}

/// The whole of star-news, four actions, from the start to the document of its result, on the scripted model.
#[divan::bench]
fn run_star_news(bencher: Bencher) {
    let (engine, runtime) = (star_news(), one_thread());
    bencher.bench_local(|| {
        let mut process = engine.start("star-news-finder", question(), RunOptions::default()).expect("it starts");
        assert_eq!(runtime.block_on(process.run()), Status::Completed);
        process.document()
    });
}

/// The prompt of the workflows below.
const PROMPT: &str = "Continue this text with one sentence of your own: It was a dark and stormy night";

/// A workflow of `calls` actions, each one call of the model at `url`.
fn chain_of_calls(url: &str, calls: usize) -> Engine {
    let mut workflow = "agent: chain\ninputs: Text0\ntypes:\n".to_owned();
    (0..=calls).for_each(|at| workflow.push_str(&format!("  Text{at}: {{text: string}}\n")));
    workflow.push_str("goals:\n  done: {output: Text");
    workflow.push_str(&format!("{calls}, description: The last text}}\nactions:\n"));
    for at in 0..calls {
        let next = at + 1;
        workflow.push_str(&format!(
            "  write{next}:\n    description: Go on\n    inputs: Text{at}\n    output: Text{next}\n    \
             prompt: \"Continue this text with one sentence of your own: {{{{ text{at}.text }}}}\"\n"
        ));
    }
    let project = format!(
        "project: {{name: bench}}\nproviders:\n  local: {{kind: openai, base_url: \"{url}\"}}\n\
         models: {{default: local/mock-1}}\n"
    );
    let world = MemoryWorld::with_files([("agent-run.yaml", project.as_str()), ("workflows/chain.yaml", &workflow)]);
    engine(world, "workflows/chain.yaml")
}

fn chain_input() -> Vec<Input> {
    vec![Input::Typed("Text0".into(), json!({"text": "It was a dark and stormy night"}))]
}

async fn run_chain(engine: Engine) {
    let mut process = engine.start("chain", chain_input(), RunOptions::default()).expect("it starts");
    let status = process.run().await;
    assert_eq!(status, Status::Completed, "{:?}", process.failure());
}

fn server() -> FastServer {
    FastServer::answering(r#"{"text": "Nobody had closed the window."}"#)
}

/// A call as small as it can be made by hand: the same client, the prompt alone, the reply read as JSON.
async fn bare_call(client: &reqwest::Client, url: &str) -> Value {
    let body = json!({"model": "mock-1", "messages": [{"role": "user", "content": PROMPT}]});
    let answer = client.post(url).json(&body).send().await.expect("the server answers");
    serde_json::from_slice(&answer.bytes().await.expect("a body")).expect("JSON")
}

fn client() -> reqwest::Client {
    agent_run::llm::client_builder().tls_certs_only(std::iter::empty()).no_proxy().build().expect("a client")
}

/// One call of a model over loopback, by hand.
#[divan::bench(sample_count = 2_000, sample_size = 1)]
fn call_by_hand(bencher: Bencher) {
    let (server, runtime, client) = (server(), one_thread(), client());
    let url = format!("{}/chat/completions", server.url());
    bencher.bench_local(|| runtime.block_on(bare_call(&client, &url)));
}

/// A process of one action with the same call: started, planned, prompted, called, parsed, validated, recorded.
#[divan::bench(sample_count = 2_000, sample_size = 1)]
fn call_in_an_action(bencher: Bencher) {
    let (server, runtime) = (server(), one_thread());
    let engine = chain_of_calls(&server.url(), 1);
    bencher.bench_local(|| runtime.block_on(run_chain(engine.clone())));
}

/// 1,000 tasks at once, each four calls one after the other, by hand.
#[divan::bench(sample_count = 20, sample_size = 1, counters = [divan::counter::ItemsCount::new(CONCURRENT)])]
fn thousand_by_hand(bencher: Bencher) {
    let (server, runtime, client) = (server(), two_threads(), client());
    let url: Arc<str> = format!("{}/chat/completions", server.url()).into();
    bencher.bench_local(|| {
        let task = |_| {
            let (client, url) = (client.clone(), url.clone());
            runtime.spawn(async move {
                for _ in 0..4 {
                    bare_call(&client, &url).await;
                }
            })
        };
        finish(&runtime, (0..CONCURRENT).map(task).collect());
    });
}

/// 1,000 runs at once of a workflow of four calls.
#[divan::bench(sample_count = 20, sample_size = 1, counters = [divan::counter::ItemsCount::new(CONCURRENT)])]
fn thousand_runs(bencher: Bencher) {
    let (server, runtime) = (server(), two_threads());
    let engine = chain_of_calls(&server.url(), 4);
    bencher.bench_local(|| {
        finish(&runtime, (0..CONCURRENT).map(|_| runtime.spawn(run_chain(engine.clone()))).collect());
    });
}
