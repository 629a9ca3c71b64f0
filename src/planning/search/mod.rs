//! Finding the best plan.

mod reference;

use super::plan::{Outcome, Plan, Proof, Reached};
use super::problem::Problem;
use super::validate::replay;

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
/// declaration order of its actions.
pub fn plan_goal(problem: &Problem, goal: usize) -> Outcome {
    if goal >= problem.domain.domain().goals.len() {
        return Outcome::Unsolvable(Proof { expanded: 0 });
    }
    match reference::search(problem, goal, usize::MAX) {
        Ok(Some(actions)) => match replay(problem, goal, &actions) {
            Ok(plan) => Outcome::Plan(plan),
            Err(_) => Outcome::Unsolvable(Proof { expanded: 0 }),
        },
        _ => Outcome::Unsolvable(Proof { expanded: 0 }),
    }
}
