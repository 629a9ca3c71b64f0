//! From a target on the command line to an engine: locate, compile, show what is wrong.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::compile::{Compiled, Entry, compile};
use crate::diag::{Diagnostic, Severity, render, suggest};
use crate::engine::{Engine, Input, Person, RunOptions, StartError};
use crate::llm::Script;
use crate::program::{Agent, PlannerKind, Program};
use crate::source::{Sources, read};
use crate::world::{FIXED_NOW, SystemWorld, World};

use super::args::{Global, InputArgs, ModelArgs};
use super::project::{Located, Target, locate};
use super::{Exit, Fault, Out, input};

/// A compiled agent that can be run, planned and rendered.
pub(super) struct Loaded {
    /// The host.
    pub(super) engine: Engine,
    /// The agent that the command line means.
    pub(super) agent: Arc<Agent>,
    /// The project's root.
    pub(super) root: PathBuf,
    /// What it was compiled from.
    pub(super) entry: Entry,
    /// Where its files are.
    pub(super) world: Arc<dyn World>,
}

/// What loading gave: an agent, or findings that have been shown.
pub(super) enum Outcome {
    /// An agent.
    Ready(Box<Loaded>),
    /// The files are wrong; the command ends so.
    Ended(Exit),
}

/// Compiles what `target` names. Findings are shown: errors end the command, warnings do not.
pub(super) fn load(
    target: &str,
    clock: Clock,
    person: Option<Arc<dyn Person>>,
    global: &Global,
    out: &Out,
) -> Result<Outcome, Fault> {
    let located = locate(target, global)?;
    let entry = located.entry();
    load_entry(&located.root, entry, no_agent(&located), clock, person, out)
}

/// Compiles an entry of the project at `root`; the agent is the program's first, and `no_agent` is said without one.
pub(super) fn load_entry(
    root: &Path,
    entry: Entry,
    no_agent: Fault,
    clock: Clock,
    person: Option<Arc<dyn Person>>,
    out: &Out,
) -> Result<Outcome, Fault> {
    let mut world = SystemWorld::new(root);
    if let Some(now) = clock.0 {
        world = world.with_fixed_clock(now);
    }
    let is_open = matches!(entry, Entry::Open { .. });
    let mut compiled = compile(&world, entry.clone());
    if is_open && out.verbose {
        compiled.checked.not_checked.iter().for_each(|line| out.note(format!("left out: {line}")));
    }
    let has_errors = compiled.diagnostics.has_errors();
    let shown = std::mem::take(&mut compiled.diagnostics).sorted(&compiled.sources);
    show(&shown, &compiled, has_errors, out);
    let Some(program) = compiled.program.filter(|_| !has_errors) else {
        return Ok(Outcome::Ended(Exit::Wrong));
    };
    let world: Arc<dyn World> = Arc::new(world);
    let engine = match person {
        Some(person) => Engine::with_person(program, world.clone(), person),
        None => Engine::new(program, world.clone()),
    };
    let agent = engine.agent(None).map_err(|_| no_agent)?;
    Ok(Outcome::Ready(Box::new(Loaded { engine, agent, root: root.to_owned(), entry, world })))
}

/// Compiles an entry for a command that only tells what is configured: what is wrong is shown, and there is nothing then.
pub(super) fn configured(root: &Path, entry: Entry, out: &Out) -> Option<(Compiled, Arc<Program>)> {
    let mut compiled = compile(&SystemWorld::new(root), entry);
    if let Some(program) = compiled.program.clone() {
        return Some((compiled, program));
    }
    let shown = std::mem::take(&mut compiled.diagnostics).sorted(&compiled.sources);
    show(&shown, &compiled, true, out);
    None
}

/// What is said of a project without agents.
pub(super) const NO_AGENTS: &str = "the project declares no agent";

fn no_agent(located: &Located) -> Fault {
    let what = match &located.target {
        Target::File(file) => format!("`{}` declares no agent", file.display()),
        Target::Agent(name) => format!("there is no agent `{name}`"),
        Target::Directory(_) => NO_AGENTS.to_owned(),
    };
    Fault::wrong(what).help("a workflow file begins with `agent: name`")
}

/// On a broken file `--json` prints the `check` document; people see the findings on stderr.
fn show(findings: &[Diagnostic], compiled: &Compiled, has_errors: bool, out: &Out) {
    if has_errors && out.json {
        out.document(&render::json(findings, &compiled.sources, compiled.checked.to_json()));
    } else if !findings.is_empty() {
        show_on_stderr(findings, &compiled.sources, out);
    }
}

fn show_on_stderr(findings: &[Diagnostic], sources: &Sources, out: &Out) {
    let text = render::human(findings, sources, render_options(out.color_err));
    let errors = findings.iter().any(|finding| finding.severity == Severity::Error);
    // Errors are shown even when quiet: the command ends with them.
    Out { quiet: out.quiet && !errors, ..*out }.note(text.trim_end());
}

/// How findings look on a stream.
pub(super) fn render_options(color: bool) -> render::Options {
    render::Options { color, ..render::Options::default() }
}

/// The clock of a command: the system's, or one that stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock(Option<jiff::Timestamp>);

impl Clock {
    /// The system's clock, unless a time or a script is given.
    pub(super) fn of(now: Option<&str>, scripted: bool) -> Result<Clock, Fault> {
        let Some(text) = now else {
            return Ok(Clock(scripted.then_some(FIXED_NOW)));
        };
        let parsed = text.parse().map_err(|_| {
            Fault::wrong(format!("`--now {text}` is not a time")).help("write it as `2025-01-01T00:00:00Z`")
        });
        parsed.map(|now| Clock(Some(now)))
    }
}

/// The objects of the command line as an engine takes them.
pub(super) fn inputs(text: &[String], objects: &[String]) -> Result<Vec<Input>, Fault> {
    let given = input::given(text, objects)?;
    let mut inputs: Vec<Input> = given.text.map(Input::Text).into_iter().collect();
    inputs.extend(given.objects.into_iter().map(|(name, value)| match name {
        Some(name) => Input::Typed(name, value),
        None => Input::Bare(value),
    }));
    Ok(inputs)
}

/// The options that `run` and `plan` share.
pub(super) fn options(args: &InputArgs, model: &ModelArgs) -> Result<RunOptions, Fault> {
    Ok(RunOptions {
        goal: args.goal.clone(),
        returns: args.returns.clone(),
        planner: args.planner.as_deref().map(planner).transpose()?,
        models: input::models(&model.llm)?.into_iter().collect(),
        config: config(&args.config)?,
        script: model.script().map(script).transpose()?,
        ..RunOptions::default()
    })
}

/// `--set KEY=VALUE` as the engine takes it.
pub(super) fn config(settings: &[String]) -> Result<IndexMap<String, serde_json::Value>, Fault> {
    Ok(input::config(settings)?.into_iter().collect())
}

fn planner(word: &str) -> Result<PlannerKind, Fault> {
    let all = [PlannerKind::Goap, PlannerKind::Utility, PlannerKind::Hybrid, PlannerKind::Supervisor];
    all.into_iter().find(|kind| kind.word() == word).ok_or_else(|| {
        let words = crate::decl::read::listed(PlannerKind::WORDS);
        Fault::wrong(format!("there is no planner `{word}`")).help(format!("the planners are {words}"))
    })
}

/// Reads a script of cli.md 6 in YAML, TOML or JSON.
pub(super) fn script(path: &Path) -> Result<Script, Fault> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Fault::wrong(format!("the script `{name}` cannot be read: {error}")))?;
    let mut sources = Sources::new();
    let id = sources.add(path.to_string_lossy(), text);
    let (node, errors) = read(id, sources.get(id));
    if !errors.is_empty() {
        let findings: Vec<Diagnostic> = errors.into_iter().map(Diagnostic::from).collect();
        return Err(Fault::wrong(render::short(&findings, &sources).trim_end().to_owned()));
    }
    let Some(node) = node else { return Ok(Script::default()) };
    Script::from_value(&node.to_json()).map_err(|errors| {
        let finding = |error: &crate::llm::ScriptError| {
            let span = crate::compile::place_of(&node, &error.pointer);
            Diagnostic::error("bad-script", span, error.message.clone())
        };
        let findings: Vec<Diagnostic> = errors.iter().map(finding).collect();
        Fault::wrong(format!("`{name}` is not a script\n{}", render::short(&findings, &sources).trim_end()))
    })
}

impl Loaded {
    /// Refuses models of `--llm` whose provider the project does not have.
    pub(super) fn refuse_unknown_providers(&self, models: &IndexMap<String, String>) -> Result<(), Fault> {
        let program = self.engine.program();
        let providers = &program.providers;
        for (role, model) in models {
            let Some((name, _)) = model.split_once('/') else {
                return Err(Fault::wrong(format!("`--llm {role}={model}` names no provider")).help(format!(
                    "write `--llm {role}=PROVIDER/{model}`; the providers are {}",
                    names(providers.keys())
                )));
            };
            if !providers.contains_key(name) {
                let fault = Fault::wrong(format!("there is no provider `{name}`"));
                let near = suggest::did_you_mean(name, providers.keys().map(String::as_str));
                return Err(
                    fault.help(near.unwrap_or_else(|| format!("the providers are {}", names(providers.keys()))))
                );
            }
        }
        Ok(())
    }
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    suggest::listed(&names.collect::<Vec<_>>())
}

impl From<StartError> for Fault {
    fn from(error: StartError) -> Fault {
        Fault::wrong(error.to_string())
    }
}
