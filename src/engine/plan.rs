//! `plan`: what would be done, and why each goal can or cannot be reached; nothing is run (cli.md 3).

use std::sync::Arc;

use serde::Serialize;

use crate::planning::{self, FactId, Outcome, Plan, Problem, State, Truth};
use crate::program::{Agent, Fact};

use super::{Engine, Input, RunOptions, StartError, inputs};

/// What a plan is asked with.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Facts that are taken to hold; `not x` for one that is not.
    pub assume: Vec<String>,
    /// Actions that may not be used.
    pub without: Vec<String>,
}

/// The document of `plan --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanDocument {
    /// The agent.
    pub agent: String,
    /// The goal of the plan.
    pub goal: Option<String>,
    /// Whether there is a plan.
    pub reachable: bool,
    /// Sum of the costs of its steps.
    pub cost: Option<f64>,
    /// Its net value.
    pub value: Option<f64>,
    /// Its steps, in order.
    pub steps: Vec<StepDocument>,
    /// Every goal on its own.
    pub goals: Vec<GoalDocument>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepDocument {
    /// The action.
    pub action: String,
    /// Its cost.
    pub cost: f64,
    /// The facts it needs.
    pub because: Vec<String>,
    /// The open facts it relies on.
    pub assumes: Vec<String>,
}

/// Whether one goal can be reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GoalDocument {
    /// Its name.
    pub name: String,
    /// Whether there is a plan.
    pub reachable: bool,
    /// Cost of the best plan.
    pub cost: Option<f64>,
    /// What stands between, leaf first.
    pub missing: Vec<MissingDocument>,
}

/// A fact that nothing supplies, or that hangs on one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissingDocument {
    /// The fact.
    pub fact: String,
    /// Why it cannot hold.
    pub because: String,
}

impl Engine {
    /// The plan of an agent from the given inputs, or from its declared ones when none are given.
    ///
    /// # Errors
    /// A wrong input, goal, fact or action name.
    pub fn plan(
        &self,
        agent: &str,
        given: Vec<Input>,
        run: RunOptions,
        options: &PlanOptions,
    ) -> Result<PlanDocument, StartError> {
        let agent = self.agent(Some(agent))?;
        let assumed = given.is_empty();
        let given = inputs::given(&agent, given, self.inner.world.as_ref())?;
        let mut process = self.process(&agent, given, run)?;
        let mut seen = process.observe();
        if assumed {
            seen.facts.state = assumed_start(&agent);
        }
        assume(&agent, &mut seen.facts.state, &options.assume)?;
        let domain = process.domain().clone();
        let mut problem = process.problem(&domain, &seen).map_err(StartError::BadOption)?;
        problem.excluded.extend(excluded(&agent, &options.without)?);
        Ok(document(&agent, &problem))
    }
}

/// The facts when the declared inputs are there.
fn assumed_start(agent: &Arc<Agent>) -> State {
    let inputs: Vec<_> = match agent.inputs_declared {
        true => agent.inputs.iter().filter(|input| !input.optional).cloned().collect(),
        false => agent.inputs.clone(),
    };
    agent.assumed_start(if inputs.is_empty() { &agent.inputs } else { &inputs })
}

fn assume(agent: &Agent, state: &mut State, facts: &[String]) -> Result<(), StartError> {
    let domain = agent.domain.domain();
    for written in facts {
        let (name, value) = match written.trim().strip_prefix("not ") {
            Some(name) => (name.trim(), false),
            None => (written.trim(), true),
        };
        let Some(fact) = domain.fact_id(name) else {
            let help = crate::diag::suggest::near_or_all(name, domain.facts(), "its facts");
            return Err(StartError::BadOption(format!("the domain of `{}` has no fact `{name}`; {help}", agent.name)));
        };
        state.set(fact, Truth::known(value));
    }
    Ok(())
}

fn excluded(agent: &Agent, names: &[String]) -> Result<Vec<usize>, StartError> {
    let mut operators = Vec::new();
    for name in names {
        let Some(action) = agent.actions.iter().position(|action| action.name == *name) else {
            let all = agent.actions.iter().map(|action| action.name.as_str());
            let help = crate::diag::suggest::near_or_all(name, all, "its actions");
            return Err(StartError::BadOption(format!("the agent `{}` has no action `{name}`; {help}", agent.name)));
        };
        let of = agent.operators.iter().enumerate().filter(|(_, of)| **of == action);
        operators.extend(of.map(|(operator, _)| operator));
    }
    Ok(operators)
}

/// The document of a problem.
fn document(agent: &Agent, problem: &Problem<'_>) -> PlanDocument {
    let domain = problem.domain.domain();
    let best = match planning::plan(problem) {
        Outcome::Plan(plan) => Some(plan),
        Outcome::Unsolvable(_) | Outcome::LimitReached(_) => None,
    };
    let goal = |index: usize| {
        let plan = planning::plan_goal(problem, index);
        let plan = plan.plan();
        let missing = if plan.is_some() { Vec::new() } else { planning::explain::unreachable(problem, index) };
        let shown = missing.into_iter().map(|missing| MissingDocument {
            fact: literal(problem, missing.fact, missing.value),
            because: missing.because,
        });
        GoalDocument {
            name: domain.goals[index].name.clone(),
            reachable: plan.is_some(),
            cost: plan.map(|plan| plan.cost),
            missing: shown.collect(),
        }
    };
    PlanDocument {
        agent: agent.name.clone(),
        goal: best.as_ref().map(|plan| domain.goals[plan.goal].name.clone()),
        reachable: best.is_some(),
        cost: best.as_ref().map(|plan| plan.cost),
        value: best.as_ref().map(|plan| plan.value),
        steps: best.iter().flat_map(|plan| steps(agent, problem, plan)).collect(),
        goals: problem.goals().into_iter().map(goal).collect(),
    }
}

fn steps(agent: &Agent, problem: &Problem<'_>, plan: &Plan) -> Vec<StepDocument> {
    // That an action has not run yet is no reason that an author gave.
    let is_own_mark = |fact: FactId, operator: usize| match agent.facts.get(fact.0 as usize) {
        Some(Fact::Ran(action)) => agent.operators.get(operator) == Some(action),
        _ => false,
    };
    let step = |step: &planning::Step| StepDocument {
        action: match agent.operators.get(step.action).and_then(|action| agent.actions.get(*action)) {
            Some(action) => action.name.clone(),
            None => problem.domain.domain().actions[step.action].name.clone(),
        },
        cost: step.cost,
        because: step
            .relies_on
            .iter()
            .filter(|support| support.value || !is_own_mark(support.fact, step.action))
            .map(|support| literal(problem, support.fact, support.value))
            .collect(),
        assumes: step.assumes.iter().map(|(fact, value)| literal(problem, *fact, *value)).collect(),
    };
    plan.steps.iter().map(step).collect()
}

/// A fact with its value, as an author would say it.
fn literal(problem: &Problem<'_>, fact: FactId, value: bool) -> String {
    let name = problem.domain.domain().fact_name(fact);
    if value { name.to_owned() } else { format!("not {name}") }
}
