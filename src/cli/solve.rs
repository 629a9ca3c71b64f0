//! `solve PROBLEM.json`: the planner alone, on a grounded problem (cli.md 4).

use std::io::Read;
use std::time::Instant;

use crate::planning::Limits;
use crate::planning::solve::{SolveResult, solve as solve_problem};

use super::args::SolveArgs;
use super::output::{BOLD, DIM, GREEN, RED};
use super::{Exit, Fault, Out};

/// Most bytes of a problem that are read.
const PROBLEM_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Solves a problem and prints its plan.
pub(super) fn solve(args: &SolveArgs, out: &Out) -> Result<Exit, Fault> {
    let text = read(args)?;
    let started = Instant::now();
    let stop = || args.time_limit.is_some_and(|limit| started.elapsed() >= limit);
    let memory_bytes_max = args.memory_limit.unwrap_or(Limits::default().memory_bytes_max);
    let limits = Limits { stop: Some(&stop), memory_bytes_max };
    let mut result =
        solve_problem(&text, limits).map_err(|error| Fault::wrong(format!("`{}`: {error}", args.problem.display())))?;
    result.ms = Some((started.elapsed().as_secs_f64() * 1e6).round() / 1e3);
    // The answer is JSON (cli.md 4); only a person at a terminal is told in words.
    if out.json || !out.stdout_terminal {
        out.document(&result);
    } else {
        show(&result, out);
    }
    Ok(match (result.solved, result.exhausted) {
        (true, _) => Exit::Done,
        (false, Some(false)) => Exit::Limit,
        (false, _) => Exit::Stuck,
    })
}

fn read(args: &SolveArgs) -> Result<String, Fault> {
    let mut text = String::new();
    let read = if args.problem.as_os_str() == "-" {
        std::io::stdin().take(PROBLEM_BYTES_MAX).read_to_string(&mut text)
    } else {
        std::fs::File::open(&args.problem).and_then(|file| file.take(PROBLEM_BYTES_MAX).read_to_string(&mut text))
    };
    read.map_err(|error| Fault::wrong(format!("`{}` cannot be read: {error}", args.problem.display())))?;
    Ok(text)
}

fn show(result: &SolveResult, out: &Out) {
    let figures = format!("{} states looked at, {:.3} ms", result.expanded, result.ms.unwrap_or_default());
    if !result.solved {
        let verdict = match result.exhausted {
            Some(false) => {
                let limit = if result.limit == Some("memory") { "memory" } else { "time" };
                format!("the limit of {limit} was reached before a plan was found or excluded")
            }
            _ => "there is no plan".to_owned(),
        };
        out.line(format!("{}  {}", out.paint(RED, verdict), out.paint(DIM, figures)));
        return;
    }
    let goal = result.goal.as_deref().unwrap_or_default();
    let plan = result.plan.as_deref().unwrap_or_default();
    out.line(format!("{} {}", out.paint(BOLD, goal), out.paint(GREEN, "is reached by")));
    for (index, step) in plan.iter().enumerate() {
        out.line(format!("  {}. {step}", index + 1));
    }
    if plan.is_empty() {
        out.line("  nothing: it holds already");
    }
    let cost = result.cost.unwrap_or_default();
    out.line(out.paint(DIM, format!("cost {cost}, {} facts assumed, {figures}", result.assumed.unwrap_or_default())));
}
