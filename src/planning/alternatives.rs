//! The next best plans: what else could be done, each without some action of a better plan.

use std::collections::BTreeSet;

use super::plan::Plan;
use super::problem::Problem;
use super::search::plan;

/// Returns up to `count` plans, best first: the best plan, then again and again the best plan that does without some action
/// of those before it. Searches that reach a limit contribute nothing.
pub fn alternatives(problem: &Problem, count: usize) -> Vec<Plan> {
    let mut found: Vec<Plan> = Vec::new();
    let mut waiting: Vec<(Plan, BTreeSet<usize>)> = Vec::new();
    let mut tried: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
    let mut seek = |without: BTreeSet<usize>, waiting: &mut Vec<(Plan, BTreeSet<usize>)>| {
        if tried.insert(without.clone()) {
            let mut problem = problem.clone();
            problem.excluded.extend(&without);
            if let Some(plan) = plan(&problem).plan() {
                waiting.push((plan.clone(), without));
            }
        }
    };
    seek(BTreeSet::new(), &mut waiting);
    while found.len() < count && !waiting.is_empty() {
        waiting.sort_by(|(a, _), (b, _)| a.rank(b).then_with(|| a.assumed.cmp(&b.assumed)));
        let (plan, without) = waiting.remove(0);
        for action in plan.actions() {
            let mut without = without.clone();
            without.insert(action);
            seek(without, &mut waiting);
        }
        if !found.iter().any(|known| known.goal == plan.goal && known.actions() == plan.actions()) {
            found.push(plan);
        }
    }
    found
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
        assert!(alternatives(&problem, 0).is_empty());
    }
}
