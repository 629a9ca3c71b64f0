//! A command line that names no file: a model chooses the agent, or with `--open` the goal (cli.md `run`).

use std::path::Path;
use std::sync::Arc;

use crate::compile::Entry;
use crate::engine::{Candidate, Input, Person, Ranked, RunOptions};

use super::args::{Global, InputArgs};
use super::loaded::{Clock, Loaded, NO_AGENTS, Outcome, inputs, load, load_entry};
use super::output::{BOLD, DIM};
use super::project::root_of_command;
use super::{Exit, Fault, Out};

/// What the positional words of a command line say.
pub(super) struct Words {
    /// A workflow file or an agent's name; `None` when something has to be chosen.
    pub(super) target: Option<String>,
    /// What it starts from.
    pub(super) given: Vec<Input>,
    /// The text of the request.
    text: String,
}

impl Words {
    /// Tells a file or an agent's name from a request: a request has white space, or follows `--open`.
    pub(super) fn of(target: Option<&str>, open: bool, args: &InputArgs) -> Result<Words, Fault> {
        let is_request = |target: &str| target.contains(char::is_whitespace) && !Path::new(target).is_file();
        let names = |target: &&str| !open && !is_request(target);
        let named = target.filter(names);
        let mut text: Vec<String> = args.text.clone();
        if let (None, Some(first)) = (named, target) {
            text.insert(0, first.to_owned());
        }
        let given = inputs(&text, &args.inputs)?;
        Ok(Words { target: named.map(str::to_owned), given, text: text.join(" ") })
    }
}

/// Loads what the command line means. A choice is told on stderr, and sets the goal of `options` in open mode.
pub(super) fn load_or_choose(
    words: &Words,
    open: bool,
    clock: Clock,
    person: Option<Arc<dyn Person>>,
    options: &mut RunOptions,
    global: &Global,
    out: &Out,
) -> Result<Outcome, Fault> {
    if let Some(target) = &words.target {
        return load(target, clock, person, global, out);
    }
    if words.given.is_empty() && options.returns.is_none() {
        return Err(Fault::wrong("there is nothing to run")
            .help("name a workflow file or an agent: `agent-run run workflows/NAME.yaml \"…\"`")
            .help("or say what you want, and a model chooses an agent: `agent-run run \"…\"`"));
    }
    let root = root_of_command(global)?;
    let loaded = match load_entry(&root, Entry::Project, Fault::wrong(NO_AGENTS), clock, person.clone(), out)? {
        Outcome::Ready(loaded) => *loaded,
        ended @ Outcome::Ended(_) => return Ok(ended),
    };
    if open {
        choose_goal(words, loaded, &root, clock, person, options, out)
    } else {
        choose_agent(words, loaded, options, out)
    }
}

fn choose_agent(words: &Words, mut loaded: Loaded, options: &RunOptions, out: &Out) -> Result<Outcome, Fault> {
    let (candidates, left_out) = loaded.engine.agents_for(&words.given, options.returns.as_deref());
    if out.verbose {
        left_out.iter().for_each(|line| out.note(out.paint_err(DIM, line)));
    }
    let none = || {
        let fault = Fault::wrong("no agent of the project can start from this");
        left_out.iter().fold(fault, |fault, line| fault.help(line.clone()))
    };
    let least = loaded.engine.program().autonomy.agent_cut_off;
    let chosen = choose(words, &loaded, &candidates, least, "agent", options, out)?.ok_or_else(none)?;
    loaded.agent = loaded.engine.agent(Some(&chosen.agent))?;
    Ok(Outcome::Ready(Box::new(loaded)))
}

fn choose_goal(
    words: &Words,
    loaded: Loaded,
    root: &Path,
    clock: Clock,
    person: Option<Arc<dyn Person>>,
    options: &mut RunOptions,
    out: &Out,
) -> Result<Outcome, Fault> {
    let candidates = loaded.engine.goals_for(options.returns.as_deref());
    let none = || match &options.returns {
        Some(returns) => Fault::wrong(format!("no goal of the project gives `{returns}`")),
        None => Fault::wrong("the project has no goals"),
    };
    let least = loaded.engine.program().autonomy.goal_cut_off;
    let chosen = choose(words, &loaded, &candidates, least, "goal", options, out)?.ok_or_else(none)?;
    let goal = chosen.goal.clone().unwrap_or_default();
    let entry = Entry::Open { agent: chosen.agent.clone(), goal: goal.clone() };
    // The goal is named; its type was only for choosing.
    (options.goal, options.returns) = (Some(goal.clone()), None);
    options.open = Some((chosen.agent.clone(), goal));
    load_entry(root, entry, Fault::wrong(NO_AGENTS), clock, person, out)
}

/// The best candidate, if it is good enough; the only one without asking.
fn choose<'a>(
    words: &Words,
    loaded: &Loaded,
    candidates: &'a [Candidate],
    least: f64,
    what: &str,
    options: &RunOptions,
    out: &Out,
) -> Result<Option<&'a Candidate>, Fault> {
    let only = match candidates {
        [] => return Ok(None),
        // A type of result that one candidate gives is a choice already; a request has yet to fit.
        [only] if options.returns.is_some() => Some(only),
        _ => None,
    };
    if let Some(only) = only {
        out.note(format!(
            "{} {}",
            out.paint_err(BOLD, format!("{what} {}", only.name)),
            out.paint_err(DIM, "(the only one)")
        ));
        return Ok(Some(only));
    }
    loaded.refuse_unknown_providers(&options.models)?;
    let request = if words.text.is_empty() { format!("{:?}", words.given) } else { words.text.clone() };
    let ranked = super::run::runtime()?.block_on(loaded.engine.rank(&request, candidates, options.clone()));
    let ranked = ranked.map_err(|failure| Fault::failed(format!("the {what}s could not be ranked: {failure}")))?;
    let best = ranked.first().filter(|best| best.confidence >= least);
    let Some((best, chosen)) =
        best.and_then(|best| Some((best, candidates.iter().find(|candidate| candidate.name == best.name)?)))
    else {
        let message = format!("no {what} is sure enough for this; the least confidence is {least}");
        let fault = ranked
            .iter()
            .fold(Fault { exit: Exit::Failed, ..Fault::wrong(message) }, |fault, one| fault.help(line(one)));
        return Err(fault.help(format!(
            "name one: `agent-run run NAME \"…\"`, or lower `autonomy: {{{what}_cut_off: …}}` in the project file"
        )));
    };
    out.note(format!("{} {}", out.paint_err(BOLD, format!("{what} {}", best.name)), out.paint_err(DIM, shown(best))));
    if out.verbose {
        ranked.iter().skip(1).for_each(|one| out.note(out.paint_err(DIM, line(one))));
    }
    Ok(Some(chosen))
}

fn line(one: &Ranked) -> String {
    format!("{} {}", one.name, shown(one))
}

fn shown(one: &Ranked) -> String {
    format!("{:.2}: {}", one.confidence, one.why)
}
