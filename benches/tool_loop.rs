//! A conversation with tools: `cargo bench --bench tool_loop`. Figures and their meaning: `docs/performance.md`.
//!
//! Each bench is one run whose scripted model calls a tool in each of 100 turns and then answers; divided by 100 it is
//! the time of a turn, the scripted model and the tool (a constant) included.

use std::fmt::Write;
use std::sync::Arc;

use agent_run::compile::{Entry, compile};
use agent_run::engine::{Engine, Input, RunOptions};
use agent_run::process::Status;
use agent_run::world::MemoryWorld;
use divan::Bencher;

/// Turns of one run.
const TURNS: usize = 100;

fn main() {
    divan::main();
}

/// A workflow whose prompt offers so many tools; its scripted model calls the last of them in every turn.
fn conversation(tools: usize) -> Engine {
    let mut workflow = "agent: desk\ninputs: UserInput\ntypes: {Report: string}\ntools:\n".to_owned();
    let mut names = Vec::new();
    for at in 0..tools {
        let _ = writeln!(
            workflow,
            "  look_up_{at}: {{description: Looks the record {at} up in the register, parameters: {{id: string, year?: \
             {{type: integer, default: 2026}}}}, set: found}}"
        );
        names.push(format!("look_up_{at}"));
    }
    let _ = write!(
        workflow,
        "actions:\n  report: {{inputs: UserInput, output: Report, tools: [{}], max_turns: {}, prompt: \"{{{{ \
         user_input.content }}}}\"}}\ngoals: {{done: {{output: Report}}}}\n",
        names.join(", "),
        TURNS + 1
    );
    let mut script = "replies:\n  - turns:\n".to_owned();
    for at in 0..TURNS {
        let _ = writeln!(script, "      - call: [{{tool: look_up_{}, with: {{id: a{at}}}}}]", tools - 1);
    }
    script.push_str("      - reply: Done\n");
    let project = "providers: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/model}\n\
                   limits: {llm_calls: 1000}\n";
    let world = MemoryWorld::with_files([
        ("agent-run.yaml", project),
        ("script.yaml", &script),
        ("workflows/desk.yaml", &workflow),
    ]);
    let compiled = compile(&world, Entry::File("workflows/desk.yaml".into()));
    let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    Engine::new(program, Arc::new(world))
}

/// 100 turns of a conversation that offers so many tools.
#[divan::bench(args = [1, 20, 500], counters = [divan::counter::ItemsCount::new(TURNS)])]
fn hundred_turns(bencher: Bencher, tools: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // A script's turns are used up by a run, so each has an engine of its own.
    bencher.with_inputs(|| conversation(tools)).bench_local_refs(|engine| {
        let question = vec![Input::Text("Look everything up".into())];
        let mut process = engine.start("desk", question, RunOptions::default()).expect("it starts");
        assert_eq!(runtime.block_on(process.run()), Status::Completed, "{:?}", process.failure());
    });
}
