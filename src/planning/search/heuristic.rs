//! A lower bound on what is left to do: LM-cut (Helmert and Domshlak, "Landmarks, Critical Paths and Abstractions", ICAPS
//! 2009) on packed costs, so that assumptions, steps and specificity guide the search too where costs are zero or tie.
//!
//! Nothing is ever undone in the relaxed task. A fact is three atoms: it can be true, it can be false, it is open; from open
//! either value can be had for the price of an assumption.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::task::{ASSUMPTION, Task};

/// The bound of a state from which the goal cannot be reached.
pub(super) const DEAD_END: u128 = u128::MAX;
/// The atom that always holds, for actions without preconditions.
const ALWAYS: u32 = 0;
/// The atom that the goal makes.
const GOAL: u32 = 1;

/// The relaxed task with the memory that evaluating it takes.
pub(super) struct LmCut {
    pre: Vec<Vec<u32>>,
    adds: Vec<Vec<u32>>,
    costs: Vec<u128>,
    /// By atom, the operators that require it.
    users: Vec<Vec<u32>>,
    /// By atom, the operators that add it.
    makers: Vec<Vec<u32>>,
    left: Vec<u128>,
    level: Vec<u128>,
    lacking: Vec<u32>,
    supporter: Vec<u32>,
    heap: BinaryHeap<Reverse<(u128, u32)>>,
    mark: Vec<Zone>,
    stack: Vec<u32>,
    in_cut: Vec<bool>,
    cut: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum Zone {
    /// Neither.
    Between,
    /// The goal follows from it for free.
    Goal,
    /// Reached from the state without entering the goal zone.
    Start,
}

impl LmCut {
    pub(super) fn new(task: &Task) -> Self {
        let atoms = 2 + 3 * task.facts;
        let mut relaxed = LmCut {
            pre: Vec::new(),
            adds: Vec::new(),
            costs: Vec::new(),
            users: vec![Vec::new(); atoms],
            makers: vec![Vec::new(); atoms],
            left: Vec::new(),
            level: vec![DEAD_END; atoms],
            lacking: Vec::new(),
            supporter: Vec::new(),
            heap: BinaryHeap::new(),
            mark: vec![Zone::Between; atoms],
            stack: Vec::new(),
            in_cut: Vec::new(),
            cut: Vec::new(),
        };
        let required = |pre: &[(u32, bool)]| pre.iter().map(|&(fact, value)| atom(fact, value)).collect();
        for op in &task.ops {
            let adds = op.effects.iter().filter_map(|&(fact, t, f)| made(fact, t, f));
            relaxed.add(required(&op.pre), adds.collect(), op.cost);
        }
        for fact in 0..task.facts as u32 {
            let opens = task.start[fact as usize] == (true, true) || !relaxed.makers[open(fact) as usize].is_empty();
            for value in [false, true] {
                if opens {
                    relaxed.add(vec![open(fact)], vec![atom(fact, value)], ASSUMPTION);
                }
            }
        }
        relaxed.add(required(&task.goal), vec![GOAL], 0);
        relaxed
    }

    fn add(&mut self, mut pre: Vec<u32>, adds: Vec<u32>, cost: u128) {
        if pre.is_empty() {
            pre.push(ALWAYS);
        }
        let op = self.pre.len() as u32;
        pre.iter().for_each(|&atom| self.users[atom as usize].push(op));
        adds.iter().for_each(|&atom| self.makers[atom as usize].push(op));
        self.pre.push(pre);
        self.adds.push(adds);
        self.costs.push(cost);
        self.in_cut.push(false);
        self.lacking.push(0);
        self.supporter.push(ALWAYS);
    }

    /// Returns a lower bound on the packed cost from a state to the goal; `holds` gives a fact's bits.
    pub(super) fn bound(&mut self, facts: usize, holds: impl Fn(usize) -> (bool, bool)) -> u128 {
        self.left.clone_from(&self.costs);
        let begin: Vec<u32> = std::iter::once(ALWAYS)
            .chain((0..facts).filter_map(|fact| {
                let (t, f) = holds(fact);
                made(fact as u32, t, f)
            }))
            .collect();
        self.level_all(&begin);
        if self.level[GOAL as usize] == DEAD_END {
            return DEAD_END;
        }
        let mut total = 0u128;
        while self.level[GOAL as usize] > 0 {
            self.find_cut(&begin);
            let Some(least) = self.cut.iter().map(|&op| self.left[op as usize]).min().filter(|least| *least > 0) else {
                return total;
            };
            total = total.saturating_add(least);
            for index in 0..self.cut.len() {
                let op = self.cut[index];
                self.left[op as usize] -= least;
                self.in_cut[op as usize] = false;
                self.offer(op);
            }
            self.relevel();
        }
        total
    }

    /// Returns how much of an operator's cost the last bound is made of. Whatever follows the operator still has to pay the
    /// rest of that bound: a landmark that the operator is not in is left for those after it.
    pub(super) fn used(&self, op: usize) -> u128 {
        self.costs[op] - self.left[op]
    }

    /// Computes for every atom what its dearest unavoidable chain costs (h-max), and each operator's dearest precondition.
    fn level_all(&mut self, begin: &[u32]) {
        self.level.fill(DEAD_END);
        for (op, pre) in self.pre.iter().enumerate() {
            self.lacking[op] = pre.len() as u32;
        }
        self.heap.clear();
        for &atom in begin {
            self.level[atom as usize] = 0;
            self.heap.push(Reverse((0, atom)));
        }
        while let Some(Reverse((level, atom))) = self.heap.pop() {
            if level > self.level[atom as usize] {
                continue;
            }
            for user in 0..self.users[atom as usize].len() {
                let op = self.users[atom as usize][user];
                self.lacking[op as usize] -= 1;
                if self.lacking[op as usize] == 0 {
                    self.supporter[op as usize] = atom;
                    self.offer(op);
                }
            }
        }
    }

    /// Lowers what an operator adds to its present cost, where that is lower.
    fn offer(&mut self, op: u32) {
        let level = self.level[self.supporter[op as usize] as usize].saturating_add(self.left[op as usize]);
        for index in 0..self.adds[op as usize].len() {
            let atom = self.adds[op as usize][index];
            if level < self.level[atom as usize] {
                self.level[atom as usize] = level;
                self.heap.push(Reverse((level, atom)));
            }
        }
    }

    /// Carries lowered levels on, through the operators whose dearest precondition became cheaper.
    fn relevel(&mut self) {
        while let Some(Reverse((level, atom))) = self.heap.pop() {
            if level > self.level[atom as usize] {
                continue;
            }
            for user in 0..self.users[atom as usize].len() {
                let op = self.users[atom as usize][user];
                if self.lacking[op as usize] > 0 || self.supporter[op as usize] != atom {
                    continue;
                }
                let dearest = self.pre[op as usize].iter().copied().max_by_key(|&pre| self.level[pre as usize]);
                self.supporter[op as usize] = dearest.unwrap_or(ALWAYS);
                self.offer(op);
            }
        }
    }

    /// Finds the operators that enter the zone from which the goal is free: one of them is in every plan.
    fn find_cut(&mut self, begin: &[u32]) {
        self.mark.fill(Zone::Between);
        self.cut.clear();
        self.stack.clear();
        self.mark[GOAL as usize] = Zone::Goal;
        self.stack.push(GOAL);
        while let Some(atom) = self.stack.pop() {
            for &op in &self.makers[atom as usize] {
                let supporter = self.supporter[op as usize];
                let free = self.left[op as usize] == 0 && self.lacking[op as usize] == 0;
                if free && self.mark[supporter as usize] != Zone::Goal {
                    self.mark[supporter as usize] = Zone::Goal;
                    self.stack.push(supporter);
                }
            }
        }
        for &atom in begin {
            if self.mark[atom as usize] == Zone::Between {
                self.mark[atom as usize] = Zone::Start;
                self.stack.push(atom);
            }
        }
        while let Some(atom) = self.stack.pop() {
            for &op in &self.users[atom as usize] {
                if self.lacking[op as usize] > 0 || self.supporter[op as usize] != atom {
                    continue;
                }
                let enters = self.adds[op as usize].iter().any(|&add| self.mark[add as usize] == Zone::Goal);
                if enters {
                    if !std::mem::replace(&mut self.in_cut[op as usize], true) {
                        self.cut.push(op);
                    }
                    continue;
                }
                for &add in &self.adds[op as usize] {
                    if self.mark[add as usize] == Zone::Between {
                        self.mark[add as usize] = Zone::Start;
                        self.stack.push(add);
                    }
                }
            }
        }
    }
}

fn atom(fact: u32, value: bool) -> u32 {
    2 + 3 * fact + u32::from(value)
}

fn open(fact: u32) -> u32 {
    4 + 3 * fact
}

/// Returns the atom that holds for a fact's bits, if any does.
fn made(fact: u32, t: bool, f: bool) -> Option<u32> {
    match (t, f) {
        (true, true) => Some(open(fact)),
        (true, false) => Some(atom(fact, true)),
        (false, true) => Some(atom(fact, false)),
        (false, false) => None,
    }
}
