//! Finding the best plan: cut the problem down, take the plan that leaves no choice, else search.

mod astar;
mod forced;
mod heuristic;
mod pairs;
#[cfg(test)]
mod reference;
mod tail;
mod task;
#[cfg(test)]
mod classical;
#[cfg(test)]
mod tests;

pub use tail::continue_plan;

use astar::Found;
use task::{Kept, Task};

use super::plan::{Limit, Outcome, Plan, Proof, Reached};
use super::problem::Problem;
use super::validate::{Fault, replay};

/// Returns the best plan over all goals of the problem: the highest net value, then the lower cost, the fewer steps, the goal
/// declared first.
pub fn plan(problem: &Problem) -> Outcome {
    let (mut best, mut expanded): (Option<Plan>, u64) = (None, 0);
    for goal in problem.goals() {
        match plan_goal(problem, goal) {
            Outcome::Plan(plan) => {
                expanded += plan.expanded;
                if best.as_ref().is_none_or(|best| plan.rank(best).is_lt()) {
                    best = Some(plan);
                }
            }
            Outcome::Unsolvable(proof) => expanded += proof.expanded,
            Outcome::LimitReached(reached) => {
                let expanded = expanded + reached.expanded;
                return Outcome::LimitReached(Reached { best: best.map(Box::new), expanded, ..reached });
            }
        }
    }
    match best {
        Some(plan) => Outcome::Plan(Plan { expanded, ..plan }),
        None => Outcome::Unsolvable(Proof { expanded }),
    }
}

/// Returns the best plan to one goal: the lowest cost, then fewer facts assumed, fewer steps, more preconditions in total, the
/// declaration order of its actions. A goal that the domain does not have is unsolvable.
pub fn plan_goal(problem: &Problem, goal: usize) -> Outcome {
    if goal >= problem.domain.domain().goals.len() {
        return Outcome::Unsolvable(Proof { expanded: 0 });
    }
    let (mut kept, mut expanded) = (Kept::default(), 0);
    loop {
        let Some(task) = Task::new(problem, goal, &kept) else { return Outcome::Unsolvable(Proof { expanded }) };
        let found = match forced::plan(&task) {
            Some(plan) => Found::Plan(plan),
            None => {
                let (found, more) = astar::search(&task, &problem.limits);
                expanded += more;
                found
            }
        };
        let ops = match found {
            Found::Plan(ops) => ops,
            Found::Nothing => return Outcome::Unsolvable(Proof { expanded }),
            Found::Limit(limit) => return Outcome::LimitReached(Reached { limit, expanded, best: None }),
        };
        let actions: Vec<usize> = ops.iter().map(|&op| task.ops[op].action as usize).collect();
        let kept_more = match replay(problem, goal, &actions) {
            Ok(plan) => {
                let offended = assumed_marks(&task, &ops, &plan);
                if offended.is_empty() {
                    return Outcome::Plan(Plan { expanded, ..plan });
                }
                let before = kept.pre.len();
                kept.pre.extend(offended);
                kept.pre.len() > before
            }
            Err(Fault::Requirement(step, (fact, _))) => {
                actions.get(step).is_some_and(|&action| kept.pre.insert((action as u32, fact)))
            }
            Err(Fault::NoProgress(step)) => kept.progress.insert(actions[step] as u32),
            Err(Fault::NoSuchAction(_)) => false,
        };
        if !kept_more {
            // Cannot be: a plan of the task offends only against what was left out of it.
            return Outcome::LimitReached(Reached { limit: Limit::Time, expanded, best: None });
        }
    }
}

/// Returns the left-out marks that a plan turned out to rely on as assumptions, which the search did not count.
fn assumed_marks(task: &Task, ops: &[usize], plan: &Plan) -> Vec<(u32, super::domain::FactId)> {
    let mut marks = Vec::new();
    if plan.assumed > 0 {
        for (&op, step) in ops.iter().zip(&plan.steps) {
            let op = &task.ops[op];
            marks.extend(
                step.assumes
                    .iter()
                    .filter(|(fact, value)| op.defers(*fact, *value))
                    .map(|(fact, _)| (op.action, *fact)),
            );
        }
    }
    marks
}
