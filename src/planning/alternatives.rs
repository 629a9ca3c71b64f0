//! The next best plans: what else could be done, each without some action of a better plan.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::plan::Plan;
use super::problem::Problem;
use super::search::plan_goal;

/// Returns up to `count` plans, best first: to each goal the best plan, then again and again the best plan to it that does
/// without some action of those before it. Searches that reach a limit contribute nothing.
pub fn alternatives(problem: &Problem, count: usize) -> Vec<Plan> {
    let mut queues: Vec<Queue> = problem.goals().into_iter().map(|goal| Queue::new(problem, goal)).collect();
    let mut found: Vec<Plan> = Vec::new();
    while found.len() < count {
        let heads = queues.iter_mut().filter_map(|queue| Some((queue.waiting.first()?.0.clone(), queue)));
        let Some((plan, queue)) = heads.min_by(|(a, _), (b, _)| a.rank(b)) else { break };
        queue.take_first();
        if !found.iter().any(|known| known.goal == plan.goal && known.actions() == plan.actions()) {
            found.push(plan);
        }
    }
    found
}

/// Plans to one goal that are known and not yet told, best first, each with the actions that it was to do without.
struct Queue<'a, 'p> {
    problem: &'a Problem<'p>,
    goal: usize,
    waiting: Vec<(Plan, BTreeSet<usize>)>,
    tried: BTreeSet<BTreeSet<usize>>,
}

impl<'a, 'p> Queue<'a, 'p> {
    fn new(problem: &'a Problem<'p>, goal: usize) -> Self {
        let mut queue = Queue { problem, goal, waiting: Vec::new(), tried: BTreeSet::new() };
        queue.seek(BTreeSet::new());
        queue
    }

    fn seek(&mut self, without: BTreeSet<usize>) {
        if !self.tried.insert(without.clone()) {
            return;
        }
        let mut problem = self.problem.clone();
        problem.excluded.extend(&without);
        if let Some(plan) = plan_goal(&problem, self.goal).plan() {
            let at = self.waiting.partition_point(|(other, _)| order(other, plan).is_le());
            self.waiting.insert(at, (plan.clone(), without));
        }
    }

    /// Takes the first plan off, and seeks those that do without one of its actions.
    fn take_first(&mut self) {
        let (plan, without) = self.waiting.remove(0);
        for action in plan.actions() {
            let mut without = without.clone();
            without.insert(action);
            self.seek(without);
        }
    }
}

/// Orders plans to one goal: lower cost, fewer facts assumed, fewer steps.
fn order(a: &Plan, b: &Plan) -> Ordering {
    a.cost.total_cmp(&b.cost).then(a.assumed.cmp(&b.assumed)).then(a.steps.len().cmp(&b.steps.len()))
}

#[cfg(test)]
mod tests {
    use super::super::solve::{self, ProblemFile};
    use super::*;

    #[test]
    fn alternatives_come_best_first_and_differ() {
        let text = r#"{"actions": [
            {"name": "a", "effects": {"g": true}, "cost": 1}, {"name": "b", "effects": {"g": true}, "cost": 2},
            {"name": "c", "effects": {"h": true}, "cost": 1},
            {"name": "d", "pre": {"h": true}, "effects": {"g": true}, "cost": 0.5}],
            "goals": [{"name": "g", "pre": {"g": true}}]}"#;
        let file: ProblemFile = solve::read(text).expect("a good problem");
        let (compiled, start) = file.lower().expect("a good problem");
        let problem = Problem::new(&compiled, start);
        let names = |plan: &Plan| plan.actions();
        let found: Vec<_> = alternatives(&problem, 9).iter().map(names).collect();
        assert_eq!(found, [vec![0], vec![2, 3], vec![1]]);
        assert_eq!(alternatives(&problem, 2).len(), 2);
        let goal = r#""goals": [{"name": "g","#;
        let several = text.replace(
            goal,
            &format!(r#"{} {{"name": "h", "pre": {{"h": true}}, "value": -0.25}}, {{"name": "g","#, r#""goals": ["#),
        );
        let (compiled, start) = solve::read(&several).and_then(|file| file.lower()).expect("a good problem");
        let goals: Vec<usize> = alternatives(&Problem::new(&compiled, start), 9).iter().map(|plan| plan.goal).collect();
        assert_eq!(goals, [1, 0, 1, 1]);
        assert!(alternatives(&problem, 0).is_empty());
    }
}
