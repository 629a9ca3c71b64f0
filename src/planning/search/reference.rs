//! The plainest search there is: Dijkstra over whole states with the complete tie-break as its key. It has no idea that
//! could be wrong, so the tests hold every answer of the real search against it.

use std::collections::{BTreeSet, HashSet};

use super::super::domain::{FactId, normal_requirements};
use super::super::problem::Problem;
use super::super::state::{State, Truth};
use super::super::validate::{after, makes_progress};

/// Cost in units, facts assumed, steps, minus preconditions, actions by position: compared in this order.
type Key = (u128, u64, u64, i64, Vec<usize>);

/// Returns the best plan to a goal, or `None` when every reachable state was looked at; `Err` after `states_max` states.
pub(crate) fn search(problem: &Problem, goal: usize, states_max: usize) -> Result<Option<Vec<usize>>, ()> {
    let operators = &problem.domain.operators;
    let target = normal_requirements(&problem.domain.domain().goals[goal].pre);
    let mut states = vec![problem.start.clone()];
    let mut open: BTreeSet<(Key, bool, usize)> = BTreeSet::new();
    let mut closed: HashSet<State> = HashSet::new();
    open.insert(((0, 0, 0, 0, Vec::new()), false, 0));
    while let Some((key, done, id)) = open.pop_first() {
        if done {
            return Ok(Some(key.4));
        }
        let state = states[id].clone();
        if !closed.insert(state.clone()) {
            continue;
        }
        if closed.len() > states_max {
            return Err(());
        }
        if let Some((_, assumed)) = rely(&state, &target) {
            open.insert(((key.0, key.1 + assumed, key.2, key.3, key.4.clone()), true, id));
        }
        for (action, operator) in operators.iter().enumerate() {
            if problem.excluded.contains(&action) {
                continue;
            }
            let Some((mut next, assumed)) = rely(&state, &operator.pre) else { continue };
            if !makes_progress(problem, action, &next) {
                continue;
            }
            for &(fact, effect) in &operator.effects {
                if problem.assumes_effect(action, fact) {
                    next.set(fact, after(effect));
                }
            }
            if closed.contains(&next) {
                continue;
            }
            let mut actions = key.4.clone();
            actions.push(action);
            let cost = key.0 + u128::from(problem.amounts.units[action]);
            let key = (cost, key.1 + assumed, key.2 + 1, key.3 - i64::from(operator.specificity), actions);
            states.push(next);
            open.insert((key, false, states.len() - 1));
        }
    }
    Ok(None)
}

fn rely(state: &State, pre: &[(FactId, bool)]) -> Option<(State, u64)> {
    let (mut state, mut assumed) = (state.clone(), 0);
    for &(fact, value) in pre {
        if !state.allows(fact, value) {
            return None;
        }
        if !state.knows(fact, value) {
            assumed += 1;
            state.set(fact, Truth::known(value));
        }
    }
    Some((state, assumed))
}
