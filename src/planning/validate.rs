//! Replays a sequence of actions: the judge of every plan, and the one place where a plan's account of itself is made.

use super::amount::{exact_sum, from_exact};
use super::domain::{Compiled, Effect, FactId, normal_requirements};
use super::plan::{Plan, Step, Supplier, Support};
use super::problem::Problem;
use super::state::{State, Truth};

/// Why a sequence of actions is no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// A step or goal needs a fact that has another value then.
    #[error("step {step} (`{name}`) needs `{fact}` to be {value}, which it is not at that point")]
    Requirement {
        /// Position of the step; the number of steps for the goal.
        step: usize,
        /// The action or goal.
        name: String,
        /// The fact.
        fact: String,
        /// The value it must have.
        value: bool,
    },
    /// A step makes nothing true that is not true already, and its action asks for that.
    #[error("step {step} (`{name}`) makes nothing true that is not true already")]
    NoProgress {
        /// Position of the step.
        step: usize,
        /// The action.
        name: String,
    },
    /// A step or goal that the domain does not have, or that is excluded.
    #[error("step {step} is action number {action}, which may not be used here")]
    NoSuchAction {
        /// Position of the step.
        step: usize,
        /// The action's number.
        action: usize,
    },
    /// The plan says something else about itself than its replay shows.
    #[error("the plan states {what} {stated}, its replay gives {found}")]
    Account {
        /// `cost`, `assumptions` or `suppliers`.
        what: &'static str,
        /// What the plan says.
        stated: String,
        /// What the replay gives.
        found: String,
    },
}

/// Replays a plan step by step from a start, at the domain's own costs, and compares its account of itself.
///
/// # Errors
/// What is wrong first.
pub fn validate(domain: &Compiled, start: &State, plan: &Plan) -> Result<(), Invalid> {
    validate_in(&Problem::new(domain, start.clone()), plan)
}

/// Like [`validate`], with the costs and restrictions of a planning round.
///
/// # Errors
/// What is wrong first.
pub fn validate_in(problem: &Problem, plan: &Plan) -> Result<(), Invalid> {
    let actions = plan.actions();
    let replayed = replay(problem, plan.goal, &actions).map_err(|fault| fault.say(problem, plan.goal, &actions))?;
    let differs = |what, stated: String, found: String| Err(Invalid::Account { what, stated, found });
    if replayed.cost != plan.cost {
        return differs("cost", plan.cost.to_string(), replayed.cost.to_string());
    }
    if replayed.assumed != plan.assumed {
        return differs("assumptions", plan.assumed.to_string(), replayed.assumed.to_string());
    }
    if replayed.steps != plan.steps {
        return differs("suppliers", format!("{:?}", plan.steps), format!("{:?}", replayed.steps));
    }
    Ok(())
}

/// Why a replay stops, without words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The step at this position (or the goal) lacks a requirement.
    Requirement(usize, (FactId, bool)),
    /// The step at this position makes no progress.
    NoProgress(usize),
    /// The step at this position is no action that may be used.
    NoSuchAction(usize),
}

impl Fault {
    fn say(self, problem: &Problem, goal: usize, actions: &[usize]) -> Invalid {
        let domain = problem.domain.domain();
        let name = |step: usize| match actions.get(step) {
            Some(&action) => domain.actions.get(action).map_or(String::new(), |action| action.name.clone()),
            None => domain.goals.get(goal).map_or(String::new(), |goal| goal.name.clone()),
        };
        match self {
            Fault::Requirement(step, (fact, value)) => {
                Invalid::Requirement { step, name: name(step), fact: domain.fact_name(fact).to_owned(), value }
            }
            Fault::NoProgress(step) => Invalid::NoProgress { step, name: name(step) },
            Fault::NoSuchAction(step) => {
                Invalid::NoSuchAction { step, action: actions.get(step).copied().unwrap_or(goal) }
            }
        }
    }
}

/// Runs actions from the problem's start to a goal and writes down who supplied what.
pub(crate) fn replay(problem: &Problem, goal: usize, actions: &[usize]) -> Result<Plan, Fault> {
    let domain = problem.domain.domain();
    let mut walk = Walk { state: problem.start.clone(), writer: vec![None; domain.fact_count()] };
    let mut steps = Vec::with_capacity(actions.len());
    for (position, &action) in actions.iter().enumerate() {
        steps.push(walk.step(problem, position, action)?);
    }
    let Some(target) = domain.goals.get(goal) else { return Err(Fault::NoSuchAction(actions.len())) };
    let (goal_relies_on, goal_assumes) =
        walk.rely(&normal_requirements(&target.pre)).map_err(|lacking| Fault::Requirement(actions.len(), lacking))?;
    let costs = || actions.iter().map(|&action| (action, problem.cost(action)));
    let values = actions.iter().map(|&action| problem.value(action));
    let net = exact_sum(std::iter::once(problem.goal_value(goal)).chain(values).chain(costs().map(|(_, c)| -c)));
    Ok(Plan {
        goal,
        cost: problem.amounts.total(costs()),
        value: from_exact(net),
        assumed: steps.iter().map(|step: &Step| step.assumes.len()).sum::<usize>() + goal_assumes.len(),
        steps,
        goal_relies_on,
        goal_assumes,
        expanded: 0,
        net,
        terms: problem.terms(),
    })
}

/// A state on its way through a plan, and who wrote each fact last.
struct Walk {
    state: State,
    writer: Vec<Option<u32>>,
}

type Reliance = (Vec<Support>, Vec<(FactId, bool)>);

impl Walk {
    fn step(&mut self, problem: &Problem, position: usize, action: usize) -> Result<Step, Fault> {
        let Some(operator) = problem.domain.operators.get(action).filter(|_| !problem.excluded.contains(&action))
        else {
            return Err(Fault::NoSuchAction(position));
        };
        let (relies_on, assumes) = self.rely(&operator.pre).map_err(|lacking| Fault::Requirement(position, lacking))?;
        if !makes_progress(problem, action, &self.state) {
            return Err(Fault::NoProgress(position));
        }
        for &(fact, effect) in &operator.effects {
            if problem.assumes_effect(action, fact) {
                self.state.set(fact, after(effect));
                self.writer[fact.0 as usize] = Some(position as u32);
            }
        }
        Ok(Step { action, cost: problem.cost(action), relies_on, assumes })
    }

    /// Checks requirements and fixes the open facts among them to what is assumed.
    fn rely(&mut self, pre: &[(FactId, bool)]) -> Result<Reliance, (FactId, bool)> {
        let (mut relies_on, mut assumes) = (Vec::with_capacity(pre.len()), Vec::new());
        for &(fact, value) in pre {
            if !self.state.allows(fact, value) {
                return Err((fact, value));
            }
            if !self.state.knows(fact, value) {
                assumes.push((fact, value));
                self.state.set(fact, Truth::known(value));
            }
            let writer = self.writer.get(fact.0 as usize).copied().flatten();
            let supplier = writer.map_or(Supplier::Start, |step| Supplier::Step(step as usize));
            relies_on.push(Support { fact, value, supplier });
        }
        Ok((relies_on, assumes))
    }
}

/// Returns the truth of a fact after an effect.
pub(crate) fn after(effect: Effect) -> Truth {
    match effect {
        Effect::Makes(value) => Truth::known(value),
        Effect::Opens => Truth::Open,
    }
}

/// Returns whether an action that asks for progress would make, or might make, some fact true that is not.
pub(crate) fn makes_progress(problem: &Problem, action: usize, state: &State) -> bool {
    let Some(facts) = &problem.domain.operators[action].progress else { return true };
    facts.iter().any(|&fact| problem.assumes_effect(action, fact) && state.get(fact) != Truth::True)
}
