//! `run`: an agent to its goal.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use crate::engine::{
    Engine, Input, LimitOptions, MissingInput, Person, Question, ReloadPolicy, RunOptions, StartError,
};
use crate::process::document::{FailureNote, Waiting};
use crate::process::{Document, Kill, Process, Status};
use crate::program::Agent;

use super::args::{Global, RunArgs};
use super::choose::{Words, load_or_choose};
use super::loaded::{Clock, Loaded, Outcome, options};
use super::observe::{Show, Watcher};
use super::output::{BOLD, DIM, RED};
use super::person::Lines;
use super::terminal::{Checklist, dollars, time};
use super::watching::Watching;
use super::{Exit, Fault, Out, form, keep, person, record};

/// Runs an agent, shows its steps, and prints its result last.
pub(super) fn run(args: &RunArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let events_on_stdout = args.events.as_deref() == Some(Path::new("-"));
    if events_on_stdout && out.json {
        return Err(Fault::wrong("`--events -` and `--json` both want stdout").help("write the events to a file"));
    }
    let list = Arc::new(Checklist::new(*out, out.interactive_output()));
    let kill = Kill::default();
    let person = AtTerminal { list: list.clone(), kill: kill.clone(), out: *out, lines: Lines::default() };
    let asked = out.interactive.then(|| Arc::new(person) as Arc<dyn Person>);
    let clock = Clock::of(args.model.now.as_deref(), args.model.script().is_some())?;
    let words = Words::of(args.target.as_deref(), args.open, &args.input)?;
    let mut options = run_options(args, kill.clone(), out)?;
    let mut loaded = match load_or_choose(&words, args.open, clock, asked, &mut options, global, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    if !args.no_store {
        loaded.engine = loaded.engine.with_store(keep::open(&loaded.root)?);
    }
    options.target.clone_from(&loaded.agent.file);
    options.context.clone_from(&args.context);
    list.speak(loaded.engine.program().voice.as_ref());
    let show = Show { prompts: args.show_prompts, responses: args.show_responses };
    let lines = args.events.as_deref().map(event_lines).transpose()?;
    options.observer = Some(Watcher::new(*out, show, list.clone(), lines).observer());
    loaded.refuse_unknown_providers(&options.models)?;
    let recorder = args.record.as_deref().map(|file| record::begin(file, &loaded.engine.program(), &mut options));
    let recorder = recorder.transpose()?;
    let target = words.target.as_deref().unwrap_or(&loaded.agent.name);
    if args.watch {
        let run = Rounds { given: &words.given, options: &options, list: &list, events_on_stdout };
        return watched(&loaded, target, &run, out);
    }
    let mut process = started(&loaded, target, words.given, options, out)?;
    block_on(&mut process, &loaded.engine, &kill, &list)?;
    let document = process.document();
    if let Some(recording) = recorder {
        recording.write(&document.agent, out)?;
    }
    report(&document, events_on_stdout, out);
    if let (Some(waiting), false) = (&document.waiting, out.json) {
        match args.no_store {
            true => out.note("nothing of the run was kept (`--no-store`), so it cannot be resumed"),
            false => out.note(resume_hint(&document.process, waiting, args.model.script())),
        }
    }
    Ok(exit(document.status))
}

/// How a process that waits is resumed: a line to copy, with an answer of the form.
pub(super) fn resume_hint(process: &str, waiting: &Waiting, script: Option<&Path>) -> String {
    let script = script.map(|script| format!(" --script {}", script.display())).unwrap_or_default();
    format!("agent-run resume {process} --form '{}'{script}", example(&waiting.form))
}

/// An answer that shows what a form asks for.
fn example(form: &Value) -> Value {
    if let Some(first) = form["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    let kind = form["type"].as_str().or_else(|| form["type"].as_array()?.first()?.as_str());
    match kind {
        Some("object") => {
            let fields = form["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(name, field)| (name.clone(), example(field))).collect())
        }
        Some("array") => Value::Array(vec![example(&form["items"])]),
        Some("boolean") => Value::Bool(true),
        Some("integer" | "number") => form.get("minimum").cloned().unwrap_or(Value::from(1)),
        _ => Value::from("…"),
    }
}

/// What every run under `--watch` begins with.
struct Rounds<'a> {
    given: &'a [Input],
    options: &'a RunOptions,
    list: &'a Arc<Checklist>,
    events_on_stdout: bool,
}

/// Runs, and runs again whenever the agent in force is another than the one that the last run ended with.
fn watched(loaded: &Loaded, target: &str, rounds: &Rounds<'_>, out: &Out) -> Result<Exit, Fault> {
    let Rounds { given, options, list, events_on_stdout } = *rounds;
    let (shown, engine) = (list.clone(), loaded.engine.clone());
    let say = move |text: &str| {
        shown.line(text);
        shown.speak(engine.program().voice.as_ref());
    };
    let watching = Watching::begin(loaded, *out, say)?;
    let options = RunOptions { reload: ReloadPolicy::Adopt, ..options.clone() };
    let mut interrupts = Interrupts::new()?;
    loop {
        // What the run before has used up of the project's scripts is there again.
        loaded.engine.rewind_scripts();
        let mut process = match started(loaded, target, given.to_vec(), options.clone(), out) {
            Ok(process) => process,
            // An edit may cure it.
            Err(fault) => {
                out.fault(&fault);
                match next_program(&watching, &options.kill, &mut interrupts, out) {
                    true => continue,
                    false => return Ok(fault.exit),
                }
            }
        };
        block_on(&mut process, &loaded.engine, &options.kill, list)?;
        report(&process.document(), events_on_stdout, out);
        let ended = exit(process.status());
        let ran = process.core().agent.clone();
        loop {
            let in_force = loaded.engine.agent(Some(&loaded.agent.name));
            if in_force.is_ok_and(|agent| !Arc::ptr_eq(&agent, &ran) && !agent.same_as(&ran)) {
                break;
            }
            if !next_program(&watching, &options.kill, &mut interrupts, out) {
                return Ok(ended);
            }
        }
    }
}

/// Waits for an edit that puts another program in force; false when the person would rather leave.
fn next_program(watching: &Watching, kill: &Kill, interrupts: &mut Interrupts, out: &Out) -> bool {
    if kill.is_killed() {
        return false;
    }
    out.note(out.paint_err(DIM, "waits for an edit; Ctrl-C ends"));
    let Interrupts { runtime, signal } = interrupts;
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = signal.heard() => false,
            () = watching.swapped() => true,
        }
    })
}

/// Hears Ctrl-C from its making on, also while nobody waits: once a program has listened for it, the system no longer
/// ends the program by itself, so one that came between two waits would be lost.
struct Interrupts {
    runtime: tokio::runtime::Runtime,
    signal: Signal,
}

#[cfg(unix)]
struct Signal(tokio::signal::unix::Signal);

#[cfg(windows)]
struct Signal(tokio::signal::windows::CtrlC);

impl Interrupts {
    fn new() -> Result<Interrupts, Fault> {
        let runtime = runtime()?;
        let signal = {
            let _inside = runtime.enter();
            #[cfg(unix)]
            let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
            #[cfg(windows)]
            let signal = tokio::signal::windows::ctrl_c();
            signal.map_err(|error| Fault::failed(format!("Ctrl-C cannot be heard: {error}")))?
        };
        Ok(Interrupts { runtime, signal: Signal(signal) })
    }
}

impl Signal {
    async fn heard(&mut self) {
        self.0.recv().await;
    }
}

fn run_options(args: &RunArgs, kill: Kill, out: &Out) -> Result<RunOptions, Fault> {
    Ok(RunOptions {
        limits: LimitOptions {
            actions: args.max_actions,
            cost: args.max_cost,
            tokens: args.max_tokens,
            time: args.timeout,
        },
        dry_run: args.dry_run,
        yes: args.yes,
        stream: out.interactive_output() || args.events.is_some(),
        kill,
        ..options(&args.input, &args.model)?
    })
}

/// Starts the process; inputs that are missing are asked for at a terminal.
fn started(
    loaded: &Loaded,
    target: &str,
    mut given: Vec<Input>,
    options: RunOptions,
    out: &Out,
) -> Result<Process, Fault> {
    let start = |given: Vec<Input>| loaded.engine.start(&loaded.agent.name, given, options.clone());
    match start(given.clone()) {
        Err(StartError::MissingInputs(missing)) if out.interactive && !out.json => {
            for input in missing.iter().take(if loaded.agent.inputs_declared { usize::MAX } else { 1 }) {
                given.push(asked_input(&loaded.agent, &input.name, &input.type_name, out)?);
            }
            Ok(start(given)?)
        }
        Err(StartError::MissingInputs(missing)) => Err(missing_inputs(&missing, target)),
        started => Ok(started?),
    }
}

/// Names all that is missing, with a line to copy.
fn missing_inputs(missing: &[MissingInput], target: &str) -> Fault {
    let named: Vec<String> = missing.iter().map(|input| format!("`{}` (`{}`)", input.name, input.type_name)).collect();
    let what = if missing.len() == 1 { "the input is missing" } else { "inputs are missing" };
    let examples: Vec<&str> = missing.iter().map(|input| input.example.as_str()).collect();
    Fault::wrong(format!("{what}: {}", named.join(", "))).help(format!("agent-run run {target} {}", examples.join(" ")))
}

fn asked_input(agent: &Agent, name: &str, type_name: &str, out: &Out) -> Result<Input, Fault> {
    let Some(id) = agent.types.id(type_name) else {
        return Err(Fault::failed(format!("there is no type `{type_name}`")));
    };
    if type_name == "UserInput" {
        return Ok(Input::Text(person::text(name, out)?));
    }
    Ok(Input::Typed(name.to_owned(), person::object(&agent.validators, id, name, out)?))
}

/// Runs the process to its end.
pub(super) fn block_on(
    process: &mut Process,
    engine: &Engine,
    kill: &Kill,
    list: &Arc<Checklist>,
) -> Result<(), Fault> {
    let runtime = runtime()?;
    // Dropped when the run has ended: the next Ctrl-C is not this run's.
    let _heard = hear_interrupts(kill.clone(), list.clone());
    runtime.block_on(async {
        process.run().await;
        if !kill.is_killed() {
            engine.close().await;
        }
    });
    runtime.shutdown_background();
    Ok(())
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Fault> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Fault::failed(format!("the asynchronous runtime did not start: {error}")))
}

/// The first Ctrl-C kills the process, which ends cleanly; the second ends the program at once. They are heard on a
/// thread of their own, because the process waits for the person's word on its own.
#[allow(clippy::exit, reason = "the second Ctrl-C ends the program whatever it is doing")]
fn hear_interrupts(kill: Kill, list: Arc<Checklist>) -> Option<tokio::sync::oneshot::Sender<()>> {
    // Where signals cannot be heard the run goes on without them.
    let runtime = runtime().ok()?;
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let heard = async {
            if tokio::signal::ctrl_c().await.is_ok() {
                list.interrupted();
                kill.kill();
            }
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
        };
        runtime.block_on(async {
            tokio::select! {
                () = heard => {}
                _ = ended => {}
            }
        });
    });
    Some(end)
}

pub(super) fn event_lines(path: &Path) -> Result<Box<dyn Write + Send>, Fault> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdout()));
    }
    let file = std::fs::File::create(path)
        .map_err(|error| Fault::wrong(format!("`--events {}` cannot be written: {error}", path.display())))?;
    Ok(Box::new(file))
}

pub(super) fn exit(status: Status) -> Exit {
    match status {
        Status::Completed => Exit::Done,
        Status::Waiting | Status::Paused => Exit::Waiting,
        Status::Stuck => Exit::Stuck,
        Status::Terminated => Exit::Limit,
        Status::Killed => Exit::Interrupted,
        Status::Failed | Status::NotStarted | Status::Running => Exit::Failed,
    }
}

pub(super) fn report(document: &Document, events_on_stdout: bool, out: &Out) {
    if out.json {
        out.document(document);
        return;
    }
    out.note(summary(document, out));
    // What failed in an action stands under its step already; a supervisor, a condition and a chat have none.
    let is_step =
        |failure: &FailureNote| document.history.iter().any(|entry| Some(&entry.action) == failure.action.as_ref());
    if let Some(failure) = document.failure.as_ref().filter(|failure| out.quiet || !is_step(failure)) {
        let action = failure.action.as_deref().map(|action| format!(" in {action}")).unwrap_or_default();
        // Why it failed is shown even when quiet: it is all the result there is.
        let text = format!("{} {}", out.paint_err(RED, format!("{}{action}:", failure.kind)), failure.message);
        Out { quiet: false, ..*out }.note(text);
    }
    if let Some(waiting) = &document.waiting {
        out.note(format!("{} {}", out.paint_err(BOLD, format!("{} asks:", waiting.action)), waiting.prompt));
    }
    if let (Some(output), false) = (&document.output, events_on_stdout) {
        out.line(result_text(&output.value));
    }
}

/// One line: how it ended and what it used.
fn summary(document: &Document, out: &Out) -> String {
    let usage = &document.usage;
    let ms: u64 = document.history.iter().map(|entry| entry.ms).sum();
    let goal = document.goal.as_deref().map(|goal| format!(" {goal}")).unwrap_or_default();
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut parts = vec![counted(document.history.len(), "action"), time(ms)];
    if usage.llm_calls > 0 {
        parts.push(counted(usize::try_from(usage.llm_calls).unwrap_or(usize::MAX), "model call"));
        parts.push(format!("{} → {} tokens", usage.input_tokens, usage.output_tokens));
    }
    if usage.cost_usd > 0.0 {
        parts.push(dollars(usage.cost_usd));
    }
    let status = out.paint_err(BOLD, format!("{}{goal}", document.status.word()));
    format!("{status}  {}", out.paint_err(DIM, parts.join(", ")))
}

/// A result for people: text as it is, an object with one text as that text, anything else as YAML, which keeps the
/// lines of long texts.
pub(super) fn result_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => match fields.values().collect::<Vec<_>>().as_slice() {
            [Value::String(text)] => text.clone(),
            _ => yaml(value),
        },
        _ => yaml(value),
    }
}

fn yaml(value: &Value) -> String {
    let text = serde_yaml::to_string(value).unwrap_or_else(|_| value.to_string());
    text.trim_end().to_owned()
}

/// The person at the terminal.
pub(super) struct AtTerminal {
    pub(super) list: Arc<Checklist>,
    pub(super) kill: Kill,
    pub(super) out: Out,
    pub(super) lines: Lines,
}

impl Person for AtTerminal {
    fn confirm(&self, question: &str) -> bool {
        self.list.suspended(|| self.lines.agrees(question, &|| self.kill.is_killed(), &self.out))
    }

    fn answer(&self, question: &Question) -> Option<Value> {
        // A question with a timeout is no longer asked once that is over.
        let ends = question.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let is_over = || self.kill.is_killed() || ends.is_some_and(|ends| ends <= Instant::now());
        self.list.suspended(|| form::fill_in(question, &self.lines, &is_over, &self.out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_read_well() {
        assert_eq!(result_text(&json!("plain")), "plain");
        assert_eq!(result_text(&json!({"text": "only"})), "only");
        assert_eq!(result_text(&json!({"title": "T", "text": "a\nb\n"})), "title: T\ntext: |\n  a\n  b");
    }

    #[test]
    fn missing_inputs_are_named_with_a_line_to_copy() {
        let missing = [MissingInput { name: "a".into(), type_name: "A".into(), example: "--input 'A={}'".into() }];
        let fault = missing_inputs(&missing, "w.yaml");
        assert_eq!(
            (fault.message.as_str(), fault.help[0].as_str()),
            ("the input is missing: `a` (`A`)", "agent-run run w.yaml --input 'A={}'")
        );
    }
}
