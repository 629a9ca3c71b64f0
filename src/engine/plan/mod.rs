//! `plan`: what would be done, and why each goal can or cannot be reached; nothing is run (cli.md 3).

mod document;
mod start;

use std::sync::Arc;

use crate::planning::pddl::{self, Pddl};
use crate::planning::{self, FactId, Outcome, Problem};
use crate::process::Process;
use crate::process::decide::Seen;
use crate::program::{Agent, Fact, PlannerKind};
use crate::value::TypeId;

use super::{Engine, Input, RunOptions, StartError, inputs};

pub use document::{
    AlternativeDocument, CandidateDocument, GoalDocument, MissingDocument, Need, PlanDocument, StepDocument,
};

use document::Writer;

/// What a plan is asked with.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Facts that are taken to hold; `not x` for one that is not.
    pub assume: Vec<String>,
    /// Actions that may not be used.
    pub without: Vec<String>,
    /// How many further plans are wanted, if any.
    pub alternatives: Option<usize>,
}

impl Engine {
    /// The plan of an agent from the given inputs, or from its declared ones when none are given. Under the planner
    /// `utility`, and under `hybrid` while no goal can be reached, it is the next step alone. Under a supervisor it is a way
    /// that the model may take, with what can be called at once.
    ///
    /// # Errors
    /// A wrong input, goal, fact or action name, a wrong cost or value.
    pub fn plan(
        &self,
        agent: &str,
        given: Vec<Input>,
        run: RunOptions,
        options: &PlanOptions,
    ) -> Result<PlanDocument, StartError> {
        let agent = self.agent(Some(agent))?;
        let answered = |problem: &Problem<'_>, seen: &Seen, process: &Process| {
            let mut document = document(&agent, problem, seen, process.planner(), options.alternatives);
            if process.planner() == PlannerKind::Supervisor {
                supervised(&agent, problem, seen, process, &mut document);
            }
            document
        };
        self.with_problem(&agent, given, run, options, answered)
    }

    /// The domain of an agent in PDDL, with the problem of reaching a goal from the declared inputs: of several goals the
    /// one that the best plan leads to, or the first. `None` when there is no goal.
    ///
    /// # Errors
    /// As for [`Engine::plan`].
    pub fn pddl(&self, agent: &str, run: RunOptions, options: &PlanOptions) -> Result<Option<Pddl>, StartError> {
        let agent = self.agent(Some(agent))?;
        let exported = |problem: &Problem<'_>, _: &Seen, _: &Process| {
            let best = planning::plan(problem).plan().map(|plan| plan.goal);
            let goal = best.or_else(|| problem.goals().first().copied())?;
            Some(pddl::export(problem, goal))
        };
        self.with_problem(&agent, Vec::new(), run, options, exported)
    }

    /// Puts the planner's question, as it stands before anything has run, to `ask`.
    fn with_problem<T>(
        &self,
        agent: &Arc<Agent>,
        given: Vec<Input>,
        run: RunOptions,
        options: &PlanOptions,
        ask: impl FnOnce(&Problem<'_>, &Seen, &Process) -> T,
    ) -> Result<T, StartError> {
        let assumed = given.is_empty();
        let given = inputs::given(agent, given, self.inner().world.as_ref())?;
        let mut process = self.process(agent, given, run)?;
        process.hear_given();
        let mut seen = process.observe();
        if assumed {
            seen.facts.state = start::assumed(agent, &seen.facts.state);
        }
        seen.facts.state = start::assume(agent, &seen.facts.state, &options.assume)?;
        let domain = process.domain().clone();
        let mut problem = process.problem(&domain, &seen).map_err(StartError::BadOption)?;
        problem.excluded.extend(start::excluded(agent, &options.without)?);
        let ledger = process.core().ledger.clone();
        let stop = move || ledger.is_out_of_time();
        problem.limits.stop = Some(&stop);
        Ok(ask(&problem, &seen, &process))
    }
}

/// What a supervisor may do now; where no plan is found without it, one for when it gives what actions ask for.
fn supervised(agent: &Agent, problem: &Problem<'_>, seen: &Seen, process: &Process, document: &mut PlanDocument) {
    document.callable = Some(process.callable(seen, problem));
    let asked = agent.asked_for();
    if document.reachable || document.limit.is_some() || asked.is_empty() {
        return;
    }
    let is_there = |id: &TypeId| {
        let has = agent.facts.iter().position(|fact| *fact == Fact::Has { type_id: *id, count: 1 });
        has.is_some_and(|at| problem.start.knows(FactId(at as u32), true))
    };
    let mut types: Vec<TypeId> = asked.iter().map(|input| input.type_id).filter(|id| !is_there(id)).collect();
    types.dedup();
    let mut then = problem.clone();
    then.start = agent.state_with(&problem.start, &types);
    let writer = Writer { agent, problem: &then, seen };
    if let Outcome::Plan(plan) = planning::plan(&then) {
        writer.follow(&plan, document);
        document.goals = then.goals().into_iter().map(|goal| writer.goal(goal)).collect();
        document.given = types.iter().map(|id| agent.types.name(*id).to_owned()).collect();
    }
}

/// The document of a problem.
fn document(
    agent: &Agent,
    problem: &Problem<'_>,
    seen: &Seen,
    planner: PlannerKind,
    alternatives: Option<usize>,
) -> PlanDocument {
    let writer = Writer { agent, problem, seen };
    let goals: Vec<GoalDocument> = problem.goals().into_iter().map(|goal| writer.goal(goal)).collect();
    let mut document = PlanDocument { agent: agent.name.clone(), goals, ..PlanDocument::default() };
    if planner != PlannerKind::Utility {
        match planning::plan(problem) {
            Outcome::Plan(plan) => writer.follow(&plan, &mut document),
            Outcome::LimitReached(reached) => {
                document.limit = Some(reached.limit.word());
                document.stopped = Some(reached.to_string());
            }
            Outcome::Unsolvable(_) => {}
        }
        if let Some(count) = alternatives {
            let plans = planning::alternatives(problem, count.saturating_add(1));
            document.alternatives = Some(plans.iter().skip(1).map(|plan| writer.alternative(plan)).collect());
        }
    }
    let by_utility = match planner {
        PlannerKind::Utility => true,
        PlannerKind::Hybrid => !document.reachable && document.limit.is_none(),
        PlannerKind::Goap | PlannerKind::Supervisor => false,
    };
    if by_utility {
        writer.next_by_utility(&mut document);
        if planner == PlannerKind::Utility
            && let (Some(count), Some(ranked)) = (alternatives, &document.ranked)
        {
            let others = ranked.iter().skip(1).take(count);
            document.alternatives = Some(others.map(CandidateDocument::as_alternative).collect());
        }
    }
    document
}
