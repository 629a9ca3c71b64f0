//! `plan`: the plan from the given inputs; nothing is run.

use crate::engine::{GoalDocument, PlanDocument, PlanOptions, StartError};

use super::args::{Global, PlanArgs};
use super::loaded::{Clock, Outcome, inputs, load, options};
use super::output::{BOLD, DIM, GREEN, RED, YELLOW};
use super::{Exit, Fault, Out};

/// Plans and prints the plan with its reasons.
pub(super) fn plan(args: &PlanArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let clock = Clock::of(args.model.now.as_deref(), args.model.script.is_some())?;
    let loaded = match load(&args.target, clock, None, global, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    let given = inputs(&args.input.text, &args.input.inputs)?;
    let run = options(&args.input, &args.model)?;
    let asked = PlanOptions { assume: args.assume.clone(), without: args.without.clone() };
    let planned: Result<PlanDocument, StartError> = loaded.engine.plan(&loaded.agent.name, given, run, &asked);
    let document = planned?;
    if out.json {
        out.document(&document);
    } else {
        show(&document, out);
        if out.verbose {
            show_needs(&loaded.agent, out);
        }
    }
    Ok(if document.reachable { Exit::Done } else { Exit::Stuck })
}

fn show(document: &PlanDocument, out: &Out) {
    if let (true, Some(goal)) = (document.reachable, &document.goal) {
        let figures = format!("cost {}, net value {}", number(document.cost), number(document.value));
        out.line(format!(
            "{} → {}  {}",
            out.paint(BOLD, &document.agent),
            out.paint(GREEN, goal),
            out.paint(DIM, figures)
        ));
        let width = document.steps.iter().map(|step| step.action.chars().count()).max().unwrap_or(0);
        for (index, step) in document.steps.iter().enumerate() {
            let because = step.because.join(", ");
            let needs = if because.is_empty() { String::new() } else { out.paint(DIM, format!("needs {because}")) };
            let line = format!("  {}. {:width$}  {needs}", index + 1, step.action);
            out.line(line.trim_end());
            if !step.assumes.is_empty() {
                out.line(format!("     {}", out.paint(YELLOW, format!("assumes {}", step.assumes.join(", ")))));
            }
        }
        if document.steps.is_empty() {
            out.line("  nothing to do: the goal holds already");
        }
    } else {
        out.line(format!("{}: {}", out.paint(BOLD, &document.agent), out.paint(RED, "no goal can be reached")));
    }
    let others = document.goals.iter().filter(|goal| out.verbose || !goal.reachable || document.goals.len() > 1);
    for goal in others.filter(|goal| document.goal.as_ref() != Some(&goal.name)) {
        show_goal(goal, out);
    }
}

fn show_goal(goal: &GoalDocument, out: &Out) {
    if goal.reachable {
        out.line(format!("  also reachable: {}  {}", goal.name, out.paint(DIM, format!("cost {}", number(goal.cost)))));
        return;
    }
    out.line(format!("  {} {}", out.paint(RED, "out of reach:"), goal.name));
    for missing in &goal.missing {
        out.line(format!("    {}: {}", out.paint(BOLD, &missing.fact), missing.because));
    }
}

/// The declared budget, permissions and endpoints (runtime.md 8).
fn show_needs(agent: &crate::program::Agent, out: &Out) {
    let limits = &agent.limits;
    out.line(out.paint(BOLD, "budget"));
    out.line(format!("  at most {} actions, ${}, {} tokens", limits.actions, limits.cost, limits.tokens));
    let mut lines: Vec<String> = Vec::new();
    for action in &agent.actions {
        let needs = action.body.needs();
        for permission in needs.permissions {
            let endpoints = needs.endpoints.join(", ");
            lines.push(format!("  {}: {permission} {}", action.name, out.paint(DIM, endpoints)).trim_end().to_owned());
        }
    }
    if !lines.is_empty() {
        out.line(out.paint(BOLD, "permissions and endpoints"));
        lines.iter().for_each(|line| out.line(line));
    }
}

fn number(value: Option<f64>) -> String {
    value.map(|value| format!("{value}")).unwrap_or_else(|| "?".to_owned())
}
