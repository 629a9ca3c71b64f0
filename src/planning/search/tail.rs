//! After a step that came out as planned, the rest of the plan is the best plan: told without a search.
//!
//! Why it holds. If the state is the predicted one, a better rest would have made a better whole. If facts that were open are
//! now known as the rest takes them to be, and the rest relies on each of them, then every other plan saves at most as many
//! assumptions as the rest does, so the rest is still at least as good; a tie that comes first in declaration order would
//! have tied before too.

use super::super::domain::FactId;
use super::super::plan::{Plan, Supplier};
use super::super::problem::Problem;
use super::super::state::{State, Truth};
use super::super::validate::{after, replay};

/// Returns the rest of a plan when it is provably what [`plan`](super::plan) would answer to `now`, without searching; `None`
/// when that takes a search.
///
/// `before` is the start that the plan was made for. The problem must consider the plan's goal alone, at the same costs and
/// restrictions; else the answer is `None` too.
pub fn continue_plan(before: &State, plan: &Plan, now: &Problem) -> Option<Plan> {
    if now.goals() != [plan.goal] || now.terms() != plan.terms {
        return None;
    }
    let first = plan.steps.first()?;
    let mut predicted = before.clone();
    for &(fact, value) in &first.assumes {
        predicted.set(fact, Truth::known(value));
    }
    for &(fact, effect) in &now.domain.operators[first.action].effects {
        if now.assumes_effect(first.action, fact) {
            predicted.set(fact, after(effect));
        }
    }
    let assumed = &plan.steps[1..];
    let relied = |fact: FactId, value: bool| {
        let of_steps = assumed.iter().flat_map(|step| step.assumes.iter().map(move |on| (on, &step.relies_on)));
        let of_goal = plan.goal_assumes.iter().map(|on| (on, &plan.goal_relies_on));
        of_steps.chain(of_goal).any(|(&on, supports)| {
            on == (fact, value)
                && supports.iter().any(|support| {
                    support.fact == fact && matches!(support.supplier, Supplier::Start | Supplier::Step(0))
                })
        })
    };
    agrees(&predicted, &now.start, relied).then_some(())?;
    let rest: Vec<usize> = assumed.iter().map(|step| step.action).collect();
    replay(now, plan.goal, &rest).ok()
}

/// Returns whether a state is the predicted one, but for open facts that turned out as they were relied on.
fn agrees(predicted: &State, now: &State, relied: impl Fn(FactId, bool) -> bool) -> bool {
    predicted.len() == now.len()
        && (predicted == now
            || (0..now.len() as u32).map(FactId).all(|fact| match (predicted.get(fact), now.get(fact)) {
                (Truth::Open, Truth::True) => relied(fact, true),
                (Truth::Open, Truth::False) => relied(fact, false),
                (before, after) => before == after,
            }))
}
