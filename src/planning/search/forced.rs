//! Plans without a choice: when each thing that is missing has one supplier, the actions of every plan are known at once.
//!
//! Each of these actions is in every plan, and their costs are a lower bound; if together they are a plan, every best plan
//! is an order of them. When none of them undoes what another or the goal needs, any order that respects who supplies whom
//! is a plan, and taking the one declared first among those that are ready gives the first in declaration order. Most
//! workflows are of this kind, and are planned in linear time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::task::Task;

/// Returns the best plan of a task as positions of its actions, or `None` when there is a choice or a conflict.
pub(super) fn plan(task: &Task) -> Option<Vec<usize>> {
    let mut supplier: Vec<Supplier> = vec![Supplier::None; 2 * task.facts];
    for (index, op) in task.ops.iter().enumerate() {
        for &(fact, t, f) in &op.effects {
            for (value, brings, alone) in [(false, f, !t), (true, t, !f)] {
                if brings {
                    let slot = &mut supplier[at(fact, value)];
                    *slot = if *slot == Supplier::None && alone { Supplier::One(index) } else { Supplier::Many };
                }
            }
        }
    }
    let mut forced = vec![false; task.ops.len()];
    let mut needs = vec![0u32; 2 * task.facts];
    let mut queue: Vec<(u32, bool)> = task.goal.clone();
    let mut count = 0;
    while let Some((fact, value)) = queue.pop() {
        needs[at(fact, value)] += 1;
        if knows(task, fact, value) {
            continue;
        }
        if task.start[fact as usize] == (true, true) {
            return None;
        }
        let Supplier::One(op) = supplier[at(fact, value)] else { return None };
        if !forced[op] {
            forced[op] = true;
            count += 1;
            queue.extend(&task.ops[op].pre);
        }
    }
    order(task, &forced, &needs, count)
}

#[derive(Clone, Copy, PartialEq)]
enum Supplier {
    None,
    One(usize),
    /// Several, or one that only may bring it.
    Many,
}

/// Orders actions by who supplies whom, the one declared first where there is a choice; `None` on a conflict.
fn order(task: &Task, forced: &[bool], needs: &[u32], count: usize) -> Option<Vec<usize>> {
    let mut lacking = vec![0u32; task.ops.len()];
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); 2 * task.facts];
    let mut ready = BinaryHeap::new();
    for (index, op) in task.ops.iter().enumerate().filter(|(index, _)| forced[*index]) {
        if op.progress.is_some() {
            return None;
        }
        for &(fact, t, f) in &op.effects {
            let own = |value| u32::from(op.pre.binary_search(&(fact, value)).is_ok());
            let undoes = |value, kept: bool| !kept && needs[at(fact, value)] > own(value);
            if undoes(true, t) || undoes(false, f) || (t && f && needs[at(fact, true)] + needs[at(fact, false)] > 0) {
                return None;
            }
        }
        for &(fact, value) in op.pre.iter().filter(|&&(fact, value)| !knows(task, fact, value)) {
            lacking[index] += 1;
            users[at(fact, value)].push(index as u32);
        }
        if lacking[index] == 0 {
            ready.push(Reverse(index));
        }
    }
    let mut plan = Vec::with_capacity(count);
    while let Some(Reverse(index)) = ready.pop() {
        plan.push(index);
        for &(fact, t, f) in &task.ops[index].effects {
            for (value, _) in [(false, f), (true, t)].into_iter().filter(|(_, brings)| *brings) {
                for user in std::mem::take(&mut users[at(fact, value)]) {
                    lacking[user as usize] -= 1;
                    if lacking[user as usize] == 0 {
                        ready.push(Reverse(user as usize));
                    }
                }
            }
        }
    }
    (plan.len() == count).then_some(plan)
}

fn at(fact: u32, value: bool) -> usize {
    2 * fact as usize + usize::from(value)
}

fn knows(task: &Task, fact: u32, value: bool) -> bool {
    task.start[fact as usize] == (value, !value)
}
