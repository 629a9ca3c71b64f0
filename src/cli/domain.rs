//! `domain FILE`: the compiled planning domain.

use std::path::Path;

use crate::compile::domain_json;
use crate::engine::{Engine, PlanOptions, RunOptions};
use crate::planning::pddl::Pddl;

use super::args::{DomainArgs, DomainFormat, Global};
use super::loaded::{Clock, Outcome, load};
use super::{Exit, Fault, Out};

/// Prints the domain.
pub(super) fn domain(args: &DomainArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let loaded = match load(&args.target, Clock::default(), None, global, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    match args.format {
        DomainFormat::Json => {
            let document = domain_json::document(&loaded.agent);
            match &args.out {
                None => out.document(&document),
                Some(dir) => write(dir, "domain.json", &format!("{document:#}\n"))?,
            }
        }
        DomainFormat::Pddl => {
            let pddl = pddl(&loaded.engine, &loaded.agent.name, args.goal.clone())?;
            match &args.out {
                None if out.json => {
                    out.document(&serde_json::json!({"domain": pddl.domain, "problem": pddl.problem}));
                }
                // A reader of one stream finds both: a file of PDDL may hold several definitions.
                None => out.line(format!("{}\n{}", pddl.domain, pddl.problem).trim_end()),
                Some(dir) => {
                    write(dir, "domain.pddl", &pddl.domain)?;
                    write(dir, "problem.pddl", &pddl.problem)?;
                }
            }
        }
    }
    Ok(Exit::Done)
}

/// The domain in PDDL, with the problem of reaching a goal from the declared inputs.
fn pddl(engine: &Engine, agent: &str, goal: Option<String>) -> Result<Pddl, Fault> {
    let run = RunOptions { goal, ..RunOptions::default() };
    engine.pddl(agent, run, &PlanOptions::default())?.ok_or_else(|| {
        Fault::wrong(format!("the agent `{agent}` has no goal, and a problem in PDDL has one"))
            .help("`--format json` prints the domain without a problem")
    })
}

fn write(dir: &Path, name: &str, text: &str) -> Result<(), Fault> {
    let path = dir.join(name);
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| Fault::failed(format!("`{}` cannot be written: {error}", path.display())))
}
