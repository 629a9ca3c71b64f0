//! Utility planning: no look-ahead, the most worthwhile of what can run now.

use super::amount::{exact_sum, from_exact};
use super::domain::FactId;
use super::problem::Problem;
use super::state::State;
use super::validate::makes_progress;

/// Returns whether an action can run now: it may be used, its preconditions are known to hold, and it makes progress if it
/// has to.
pub fn applicable_now(problem: &Problem, action: usize) -> bool {
    let Some(operator) = problem.domain.operators.get(action) else { return false };
    !problem.excluded.contains(&action)
        && problem.start.holds_strictly(&operator.pre)
        && makes_progress(problem, action, &problem.start)
}

/// Returns whether an action would make some fact true that is not, or has no need to.
pub fn brings_news(problem: &Problem, action: usize) -> bool {
    problem.domain.operators.get(action).is_some() && makes_progress(problem, action, &problem.start)
}

/// Returns the action with the highest `value - cost` among those that can run now; ties go to the one declared first.
/// `None` when nothing is left to run.
pub fn utility_step(problem: &Problem) -> Option<usize> {
    let mut best: Option<(i128, usize)> = None;
    for action in 0..problem.domain.operators.len() {
        let net = exact_sum([problem.value(action), -problem.cost(action)].into_iter());
        if best.is_none_or(|(most, _)| net > most) && applicable_now(problem, action) {
            best = Some((net, action));
        }
    }
    best.map(|(_, action)| action)
}

/// An action that can run now, or could if open facts turn out as it needs them.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The action, by position.
    pub action: usize,
    /// Its value minus its cost.
    pub net: f64,
    /// The open facts that it hangs on, with the value it needs; empty when it can run now.
    pub hangs_on: Vec<(FactId, bool)>,
}

/// Returns what can run now or could, the highest `value - cost` first; ties in declaration order. The first that hangs on
/// nothing is [`utility_step`].
pub fn candidates(problem: &Problem) -> Vec<Candidate> {
    let mut found: Vec<(i128, Candidate)> = Vec::new();
    for (action, operator) in problem.domain.operators.iter().enumerate() {
        let allowed = operator.pre.iter().all(|&(fact, value)| problem.start.allows(fact, value));
        let impossible = operator.impossible || problem.excluded.contains(&action);
        if allowed && !impossible && makes_progress(problem, action, &problem.start) {
            let net = exact_sum([problem.value(action), -problem.cost(action)].into_iter());
            let open = operator.pre.iter().copied().filter(|&(fact, value)| !problem.start.knows(fact, value));
            found.push((net, Candidate { action, net: from_exact(net), hangs_on: open.collect() }));
        }
    }
    found.sort_by(|(a, _), (b, _)| b.cmp(a));
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns the first goal, in declaration order, whose facts are all known to hold in a state.
pub fn goal_reached(problem: &Problem, state: &State) -> Option<usize> {
    let goals = &problem.domain.domain().goals;
    problem.goals().into_iter().find(|&goal| state.holds_strictly(&goals[goal].pre))
}

#[cfg(test)]
mod tests {
    use super::super::domain::{Action, Domain, Effect};
    use super::super::state::Truth;
    use super::*;

    #[test]
    fn the_most_worthwhile_runnable_action_is_taken() {
        let mut domain = Domain::new();
        let (x, y) = (domain.fact("x"), domain.fact("y"));
        let action = |name: &str, cost, value| Action { cost, value, ..Action::new(name) };
        domain.actions = vec![
            action("dear", 0.3, 0.5),
            action("tie", 0.1, 0.4),
            action("tied", 0.2, 0.5),
            Action { pre: vec![(x, true)], ..action("best_but_not_known", 0.0, 1.0) },
            Action {
                needs_progress: true,
                effects: vec![(y, Effect::Makes(true))],
                ..action("best_but_done", 0.0, 1.0)
            },
        ];
        let compiled = domain.compile().expect("a good domain");
        let mut start = State::all(2, Truth::Open);
        start.set(y, Truth::True);
        let open = Problem::new(&compiled, start.clone());
        assert_eq!(utility_step(&open), Some(1));
        let ranked: Vec<(usize, bool)> =
            candidates(&open).iter().map(|candidate| (candidate.action, candidate.hangs_on.is_empty())).collect();
        assert_eq!(ranked, [(3, false), (1, true), (2, true), (0, true)]);
        start.set(x, Truth::True);
        start.set(y, Truth::False);
        let mut problem = Problem::new(&compiled, start);
        assert_eq!(utility_step(&problem), Some(3));
        problem.excluded = vec![0, 1, 2, 3];
        assert_eq!(utility_step(&problem), Some(4));
        problem.excluded.push(4);
        assert_eq!(utility_step(&problem), None);
    }
}
