//! `plan`: the plan from the given inputs; nothing is run.

use indexmap::IndexSet;

use crate::engine::{
    AlternativeDocument, CandidateDocument, GoalDocument, LimitOptions, Need, PlanDocument, PlanOptions, RunOptions,
    StepDocument,
};

use crate::process::supervisor::Callable;
use crate::program::{Agent, Program};
use crate::tool::mcp::{ServerBody, ServerConfig};

use super::args::{Global, PlanArgs};
use super::choose::{Words, load_or_choose};
use super::loaded::{Clock, Outcome, options};
use super::output::{BOLD, DIM, GREEN, RED, YELLOW};
use super::{Exit, Fault, Out};

/// Plans and prints the plan with its reasons.
pub(super) fn plan(args: &PlanArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let clock = Clock::of(args.model.now.as_deref(), args.model.script().is_some())?;
    let words = Words::of(args.target.as_deref(), args.open, &args.input)?;
    let limits = LimitOptions { time: args.timeout, ..LimitOptions::default() };
    let mut run = RunOptions { limits, ..options(&args.input, &args.model)? };
    let loaded = match load_or_choose(&words, args.open, clock, None, &mut run, global, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    let given = words.given;
    let asked = PlanOptions {
        assume: args.assume.clone(),
        without: args.without.clone(),
        alternatives: args.alternatives.map(usize::from),
    };
    let document = loaded.engine.plan(&loaded.agent.name, given, run, &asked)?;
    if out.json {
        out.document(&document);
    } else {
        show(&document, out);
        if out.verbose {
            show_needs(&loaded.agent, &loaded.engine.program(), out);
        }
    }
    Ok(match (document.limit, document.reachable) {
        (Some(_), _) => Exit::Limit,
        (None, true) => Exit::Done,
        (None, false) => Exit::Stuck,
    })
}

fn show(document: &PlanDocument, out: &Out) {
    if let Some(callable) = &document.callable {
        show_callable(&document.agent, callable, out);
        if document.reachable {
            out.line(out.paint(BOLD, "a way it may take"));
        }
    }
    show_heading(document, out);
    show_steps(&document.steps, out);
    if !document.given.is_empty() {
        let types = crate::decl::read::listed(&document.given);
        out.line(format!("     {}", out.paint(YELLOW, format!("given by the supervisor: {types}"))));
    }
    if document.reachable && !document.goal_assumes.is_empty() {
        let assumed = format!("the goal assumes {}", document.goal_assumes.join(", "));
        out.line(format!("     {}", out.paint(YELLOW, assumed)));
    }
    if let Some(ranked) = document.ranked.as_ref().filter(|ranked| ranked.len() > 1) {
        out.line(out.paint(BOLD, "after it, by value - cost"));
        ranked[1..].iter().for_each(|candidate| show_candidate(candidate, out));
    }
    let others = document.goals.iter().filter(|goal| out.verbose || !goal.reachable || document.goals.len() > 1);
    for goal in others.filter(|goal| document.goal.as_ref() != Some(&goal.name)) {
        show_goal(goal, document.ranked.is_some(), out);
    }
    let Some(alternatives) = document.alternatives.as_ref().filter(|_| document.ranked.is_none()) else { return };
    for (index, alternative) in alternatives.iter().enumerate() {
        show_alternative(index, alternative, document.goal.as_deref(), out);
    }
    if alternatives.is_empty() && document.reachable {
        out.line("there is no other plan");
    }
}

/// What a supervisor can call at the start.
fn show_callable(agent: &str, callable: &[Callable], out: &Out) {
    out.line(format!("{}: a supervisor decides", out.paint(BOLD, agent)));
    for one in callable {
        let state = match (one.needs.is_empty(), one.asks.is_empty()) {
            (false, _) => out.paint(DIM, format!("needs {}", one.needs.join(", "))),
            (true, false) => out.paint(DIM, format!("asks for {}", one.asks.join(", "))),
            (true, true) => out.paint(GREEN, "ready"),
        };
        out.line(format!("  {}  {state}", one.action));
    }
}

/// One line: what is planned for, and at what cost.
fn show_heading(document: &PlanDocument, out: &Out) {
    let agent = out.paint(BOLD, &document.agent);
    if let Some(stopped) = &document.stopped {
        out.line(format!("{agent}: {}", out.paint(YELLOW, stopped)));
        return;
    }
    let figures = out.paint(DIM, figures(document.cost, document.value, &document.steps));
    match (&document.goal, document.reachable, document.steps.is_empty()) {
        (Some(goal), true, true) => {
            out.line(format!("{agent} → {}", out.paint(GREEN, goal)));
            out.line("  nothing to do: the goal holds already");
        }
        (Some(goal), true, false) => out.line(format!("{agent} → {}  {figures}", out.paint(GREEN, goal))),
        (None, true, false) => out.line(format!("{agent}: {}  {figures}", out.paint(GREEN, "the next step"))),
        (None, true, true) => out.line(format!("{agent}: nothing is left to do")),
        (_, false, _) if document.goals.is_empty() => {
            out.line(format!("{agent}: {}", out.paint(RED, "there is no goal to plan for")));
        }
        (_, false, _) => out.line(format!("{agent}: {}", out.paint(RED, "no goal can be reached"))),
    }
}

fn figures(cost: Option<f64>, value: Option<f64>, steps: &[StepDocument]) -> String {
    let unknown = steps.iter().filter(|step| step.cost_unknown.is_some()).count();
    let and_more = match unknown {
        0 => String::new(),
        1 => " and what one step turns out to cost".to_owned(),
        many => format!(" and what {many} steps turn out to cost"),
    };
    format!("cost {}{and_more}, net value {}", number(cost), number(value))
}

fn show_steps(steps: &[StepDocument], out: &Out) {
    let width = steps.iter().map(|step| step.action.chars().count()).max().unwrap_or(0);
    for (index, step) in steps.iter().enumerate() {
        let line = format!("  {}. {:width$}  {}", index + 1, step.action, out.paint(DIM, reasons(step)));
        out.line(line.trim_end());
        let assumed: Vec<String> = step.needs.iter().filter(|need| need.is_assumed).map(assumption).collect();
        if !assumed.is_empty() {
            let pad = " ".repeat(width + 7);
            out.line(format!("{pad}{}", out.paint(YELLOW, format!("assumes {}", assumed.join(", ")))));
        }
    }
}

/// What a step needs, who supplies it, and what it costs.
fn reasons(step: &StepDocument) -> String {
    let needs: Vec<String> = step.needs.iter().filter(|need| !need.is_assumed).map(need).collect();
    let cost = match &step.cost_unknown {
        Some(expr) => Some(format!("cost {expr}, not known yet")),
        None if step.cost != 0.0 => Some(format!("cost {}", figure(step.cost))),
        None => None,
    };
    let needs = if needs.is_empty() { None } else { Some(format!("needs {}", needs.join(", "))) };
    [needs, cost].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn need(need: &Need) -> String {
    match (&need.from, need.is_condition) {
        (Some(action), _) => format!("{} from {action}", need.what),
        (None, false) => format!("{} given", need.what),
        (None, true) => format!("{} now", need.what),
    }
}

fn assumption(need: &Need) -> String {
    match &need.from {
        Some(action) => format!("{} (open after {action})", need.what),
        None => format!("{} (open now)", need.what),
    }
}

fn show_candidate(candidate: &CandidateDocument, out: &Out) {
    let hangs = match candidate.assumes.is_empty() {
        true => String::new(),
        false => out.paint(YELLOW, format!("if {}", candidate.assumes.join(", "))),
    };
    let net = [figure(candidate.value), figure(candidate.cost), figure(candidate.net)];
    let net = out.paint(DIM, format!("{} - {} = {}", net[0], net[1], net[2]));
    out.line(format!("  {}  {net}  {hangs}", candidate.action).trim_end());
}

fn show_goal(goal: &GoalDocument, by_steps: bool, out: &Out) {
    if goal.reachable {
        // Where single steps are taken a goal that can be reached is not sought.
        let what = if by_steps { "ends at" } else { "also reachable:" };
        out.line(format!("  {what} {}  {}", goal.name, out.paint(DIM, format!("cost {}", number(goal.cost)))));
        return;
    }
    if goal.limit.is_some() {
        out.line(format!("  {} {}", out.paint(YELLOW, "not known whether reachable:"), goal.name));
        return;
    }
    out.line(format!("  {} {}", out.paint(RED, "out of reach:"), goal.name));
    for missing in &goal.missing {
        out.line(format!("    {}", missing.because));
    }
    if !goal.inputs_wanted.is_empty() {
        let wanted = crate::decl::read::listed(&goal.inputs_wanted);
        out.line(format!("    {}", out.paint(DIM, format!("with {wanted} among the inputs it could be reached"))));
    }
}

fn show_alternative(index: usize, alternative: &AlternativeDocument, goal: Option<&str>, out: &Out) {
    let other = alternative.goal.as_deref().filter(|name| Some(*name) != goal);
    let to = other.map(|goal| format!(" → {}", out.paint(GREEN, goal))).unwrap_or_default();
    let figures = figures(Some(alternative.cost), Some(alternative.value), &alternative.steps);
    let heading = out.paint(BOLD, format!("alternative {}", index + 1));
    out.line(format!("{heading}{to}  {}", out.paint(DIM, figures)));
    show_steps(&alternative.steps, out);
    if alternative.steps.is_empty() {
        out.line("  nothing to do: the goal holds already");
    }
}

/// The declared budget, permissions and endpoints (runtime.md 8).
fn show_needs(agent: &Agent, program: &Program, out: &Out) {
    let limits = &agent.limits;
    out.line(out.paint(BOLD, "budget"));
    out.line(format!("  at most {} actions, ${}, {} tokens", limits.actions, limits.cost, limits.tokens));
    let mut lines: IndexSet<String> = IndexSet::new();
    let mut line = |of: String, permission: &str, endpoints: &str| {
        lines.insert(format!("  {of}: {permission} {}", out.paint(DIM, endpoints)).trim_end().to_owned());
    };
    for action in &agent.actions {
        let needs = action.body.needs();
        needs.permissions.iter().for_each(|one| line(action.name.clone(), one, &needs.endpoints.join(", ")));
    }
    let reached = agent.reached();
    for tool in &reached.tools {
        let needs = tool.needs();
        needs.permissions.iter().for_each(|one| line(format!("tool {}", tool.name), one, &needs.endpoints.join(", ")));
    }
    for (group, server) in &reached.servers {
        let endpoint = program.mcp_servers.get(server).map(ServerConfig::endpoint).unwrap_or_default();
        line(format!("tool group {group}"), &ServerBody::permission(server), &endpoint);
    }
    for reference in agent.references.iter().flatten() {
        let place = reference.material.place();
        reference.permissions().iter().for_each(|one| line(format!("reference {}", reference.name), one, &place));
    }
    if !lines.is_empty() {
        out.line(out.paint(BOLD, "permissions and endpoints"));
        lines.iter().for_each(|line| out.line(line));
    }
}

/// A number for people: at most six decimals, so that sums of tenths look like it.
fn figure(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

fn number(value: Option<f64>) -> String {
    value.map(figure).unwrap_or_else(|| "?".to_owned())
}
