//! The search proper: A* for the cost of the best plan, then a walk in declaration order for the first plan of that cost.
//!
//! The bound of a state is computed only when it decides something: a state waits at its parent's bound until it is the
//! best one waiting, and one that waits alone is expanded without asking. The second phase meets mostly states whose bounds
//! are known; a state that turns out to be no way to a best plan gets a higher bound, so it is entered once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::plan::Limit;
use super::super::problem::Limits;
use super::heuristic::{DEAD_END, LmCut};
use super::pairs;
use super::task::{ASSUMPTION, Op, Task};

/// Tasks up to this many actions are first tried at the start's own bound; in larger ones that bound costs too much to ask.
const DIVE_OPS_MAX: usize = 64;

/// Expanded states after which it is asked whether pairs of facts prove that there is no plan.
const PAIRS_AFTER: u64 = 2048;

/// How a search on a task ended.
pub(super) enum Found {
    /// Positions of the task's actions.
    Plan(Vec<usize>),
    /// Every state that can be reached was looked at, or shown to be a dead end.
    Nothing,
    /// A limit came first.
    Limit(Limit),
}

/// Finds the best plan of a task; also returns the number of expanded states.
pub(super) fn search(task: &Task, limits: &Limits) -> (Found, u64) {
    let mut search = Search::new(task, limits);
    match search.dive() {
        Ok(Some(plan)) => return (Found::Plan(plan), search.expanded),
        Ok(None) => {}
        Err(limit) => return (Found::Limit(limit), search.expanded),
    }
    let found = match search.least_cost() {
        Ok(None) => Found::Nothing,
        Ok(Some(cost)) => match search.first_of(cost, true) {
            Ok(plan) => plan.map_or(Found::Nothing, Found::Plan),
            Err(limit) => Found::Limit(limit),
        },
        Err(limit) => Found::Limit(limit),
    };
    (found, search.expanded)
}

struct Search<'a> {
    task: &'a Task,
    limits: &'a Limits<'a>,
    heuristic: LmCut,
    /// Words of one bitset.
    words: usize,
    /// The states: for each its can-be-true words, then its can-be-false words.
    bits: Vec<u64>,
    nodes: Vec<Node>,
    /// Open addressing by state; node number + 1, 0 for free.
    table: Vec<u32>,
    expanded: u64,
    scratch: Vec<u64>,
    /// The state that was judged last, with what the heuristic said.
    judged: Option<(u32, u128)>,
}

/// A state that waits to be expanded: least total first, then least bound, then the newest.
type Waiting = Reverse<(u128, u128, Reverse<u64>, u32)>;

#[derive(Clone, Copy)]
struct Node {
    /// Least known packed cost from the start.
    cost: u128,
    /// Lower bound on the packed cost to the goal.
    bound: u128,
    /// Whether the bound is the heuristic's own, not its parent's.
    evaluated: bool,
    /// Cost at which it was expanded last, so that it is not expanded twice for the same.
    expanded_at: u128,
}

impl<'a> Search<'a> {
    fn new(task: &'a Task, limits: &'a Limits<'a>) -> Self {
        let words = task.facts.div_ceil(64).max(1);
        let mut start = vec![0; 2 * words];
        for (fact, &(t, f)) in task.start.iter().enumerate() {
            put(&mut start, words, fact as u32, t, f);
        }
        let mut search = Search {
            task,
            limits,
            heuristic: LmCut::new(task),
            words,
            bits: Vec::new(),
            nodes: Vec::new(),
            table: vec![0; 64],
            expanded: 0,
            scratch: start,
            judged: None,
        };
        search.node_of_scratch();
        search
    }

    /// Tries whether the bound of the start is the cost of a plan already: where the heuristic is exact, that is all.
    fn dive(&mut self) -> Result<Option<Vec<usize>>, Limit> {
        self.check_time()?;
        if self.task.ops.len() > DIVE_OPS_MAX {
            return Ok(None);
        }
        self.nodes[0].cost = 0;
        self.evaluate(0);
        let bound = self.nodes[0].bound;
        if bound == DEAD_END {
            return Ok(None);
        }
        let plan = self.first_of(bound, false)?;
        if plan.is_none() {
            self.nodes.iter_mut().for_each(|node| node.cost = u128::MAX);
        }
        Ok(plan)
    }

    /// A*: returns the packed cost of the best plans, `None` when there is no plan.
    fn least_cost(&mut self) -> Result<Option<u128>, Limit> {
        let mut open: BinaryHeap<Waiting> = BinaryHeap::new();
        let mut best: Option<u128> = None;
        let mut pushed = 0u64;
        self.nodes[0].cost = 0;
        open.push(Reverse((0, 0, Reverse(0), 0)));
        while let Some(Reverse((total, rest, _, id))) = open.pop() {
            if best.is_some_and(|best| total >= best) {
                break;
            }
            let node = self.nodes[id as usize];
            if node.cost.saturating_add(rest) != total || node.expanded_at <= node.cost {
                continue;
            }
            let alone = open.is_empty() && best.is_none();
            if !node.evaluated && !alone {
                self.check_time()?;
                self.evaluate(id);
                let bound = self.nodes[id as usize].bound;
                if bound > rest {
                    if bound != DEAD_END {
                        pushed += 1;
                        open.push(Reverse((node.cost.saturating_add(bound), bound, Reverse(pushed), id)));
                    }
                    continue;
                }
            }
            self.expanded += 1;
            if self.expanded.is_multiple_of(64) {
                self.check_time()?;
            }
            self.check_memory(open.len())?;
            if self.expanded == PAIRS_AFTER && best.is_none() && pairs::disprove(self.task, self.limits) {
                return Ok(None);
            }
            self.nodes[id as usize].expanded_at = node.cost;
            if let Some(assumed) = self.goal_assumes(id) {
                let total = node.cost.saturating_add(ASSUMPTION * u128::from(assumed));
                best = Some(best.map_or(total, |best| best.min(total)));
            }
            if node.evaluated && self.judged.is_none_or(|(judged, _)| judged != id) {
                self.check_time()?;
                self.evaluate(id);
            }
            for (index, op) in self.task.ops.iter().enumerate() {
                let Some(step) = self.apply(id, op) else { continue };
                let child = self.node_of_scratch();
                let cost = node.cost.saturating_add(step);
                let known = self.nodes[child as usize];
                if cost >= known.cost || known.bound == DEAD_END {
                    continue;
                }
                let bound = known.bound.max(self.inherited(id, index, step));
                self.nodes[child as usize] = Node { cost, bound, ..known };
                pushed += 1;
                open.push(Reverse((cost.saturating_add(bound), bound, Reverse(pushed), child)));
            }
        }
        Ok(best)
    }

    /// Depth first in declaration order, within the cost of the best plans (or a lower bound on it): returns the first of
    /// them, `None` when there is none, or none without turning back when that is not wanted.
    fn first_of(&mut self, best: u128, turning_back: bool) -> Result<Option<Vec<usize>>, Limit> {
        let mut plan: Vec<usize> = Vec::new();
        let mut path: Vec<(u32, u128, usize)> = vec![(0, 0, 0)];
        let mut ticks = 0u64;
        while let Some(&mut (id, cost, ref mut next)) = path.last_mut() {
            let from = *next;
            if from == 0
                && let Some(assumed) = self.goal_assumes(id)
                && cost + ASSUMPTION * u128::from(assumed) == best
            {
                return Ok(Some(plan));
            }
            ticks += 1;
            self.expanded += u64::from(from == 0);
            if ticks.is_multiple_of(16) {
                self.check_time()?;
                self.check_memory(0)?;
            }
            let mut deeper = if from == 0 { self.only_way(id, cost, best) } else { None };
            let from = if deeper.is_some() { self.task.ops.len() } else { from };
            for index in from..self.task.ops.len() {
                let Some(step) = self.apply(id, &self.task.ops[index]) else { continue };
                let total = cost.saturating_add(step);
                let child = self.node_of_scratch();
                if self.leads_to(child, total, best) {
                    deeper = Some((index, child, total));
                    break;
                }
            }
            match deeper {
                Some((index, child, total)) => {
                    if let Some(frame) = path.last_mut() {
                        frame.2 = index + 1;
                    }
                    plan.push(index);
                    path.push((child, total, 0));
                }
                None if !turning_back => return Ok(None),
                None => {
                    // No best plan goes on from here at this cost.
                    let node = &mut self.nodes[id as usize];
                    node.bound = node.bound.max((best - cost).saturating_add(1));
                    path.pop();
                    plan.pop();
                }
            }
        }
        Ok(None)
    }

    /// Hands a state's bound on to those after it; returns the one way on, if the bounds allow only one: it need not be judged.
    fn only_way(&mut self, id: u32, cost: u128, best: u128) -> Option<(usize, u32, u128)> {
        let (mut only, mut ways) = (None, 0);
        for (index, op) in self.task.ops.iter().enumerate() {
            let Some(step) = self.apply(id, op) else { continue };
            let child = self.node_of_scratch();
            let inherited = self.inherited(id, index, step);
            let node = &mut self.nodes[child as usize];
            node.bound = node.bound.max(inherited);
            let total = cost.saturating_add(step);
            if total <= node.cost && total <= best && node.bound <= best - total {
                only = Some((index, child, total));
                ways += 1;
            }
        }
        if ways > 1 {
            return None;
        }
        let (_, child, total) = only?;
        self.nodes[child as usize].cost = total;
        only
    }

    /// Returns whether a state at a cost may still lie on a plan of the best cost.
    fn leads_to(&mut self, id: u32, cost: u128, best: u128) -> bool {
        let node = &mut self.nodes[id as usize];
        if cost > node.cost || cost > best || node.bound > best - cost {
            return false;
        }
        node.cost = cost;
        if !node.evaluated {
            self.evaluate(id);
        }
        self.nodes[id as usize].bound <= best - cost
    }

    fn evaluate(&mut self, id: u32) {
        let (words, at) = (self.words, id as usize * 2 * self.words);
        let bits = &self.bits[at..at + 2 * words];
        let bound = self.heuristic.bound(self.task.facts, |fact| get(bits, words, fact as u32));
        let node = &mut self.nodes[id as usize];
        node.bound = node.bound.max(bound);
        node.evaluated = true;
        self.judged = (bound != DEAD_END).then_some((id, bound));
    }

    /// Returns what a parent's bound says about the state after one of its actions: the parent's known bound less the whole
    /// step, or, if the parent was judged last, what the judgement did not take from that action.
    fn inherited(&self, id: u32, index: usize, step: u128) -> u128 {
        let known = self.nodes[id as usize].bound.saturating_sub(step);
        let Some((judged, bound)) = self.judged.filter(|(judged, _)| *judged == id) else { return known };
        debug_assert_eq!(judged, id);
        let assumptions = step - self.task.ops[index].cost;
        known.max(bound.saturating_sub(self.heuristic.used(index)).saturating_sub(assumptions))
    }

    /// Returns how many open facts the goal relies on in a state, `None` when it does not hold.
    fn goal_assumes(&self, id: u32) -> Option<u32> {
        let at = id as usize * 2 * self.words;
        let bits = &self.bits[at..at + 2 * self.words];
        let mut assumed = 0;
        for &(fact, value) in &self.task.goal {
            match (get(bits, self.words, fact), value) {
                ((true, true), _) => assumed += 1,
                ((true, false), true) | ((false, true), false) => {}
                _ => return None,
            }
        }
        Some(assumed)
    }

    /// Applies an action to a state, if it is applicable and changes anything: the new state goes to `scratch`, the packed cost is returned.
    fn apply(&mut self, id: u32, op: &Op) -> Option<u128> {
        let (words, at) = (self.words, id as usize * 2 * self.words);
        let bits = &self.bits[at..at + 2 * words];
        let mut assumed = 0u32;
        for &(fact, value) in &op.pre {
            match (get(bits, words, fact), value) {
                ((true, true), _) => assumed += 1,
                ((true, false), true) | ((false, true), false) => {}
                _ => return None,
            }
        }
        if assumed == 0 && op.effects.iter().all(|&(fact, t, f)| get(bits, words, fact) == (t, f)) {
            return None;
        }
        self.scratch.copy_from_slice(bits);
        if assumed > 0 {
            op.pre.iter().for_each(|&(fact, value)| put(&mut self.scratch, words, fact, value, !value));
        }
        if let Some(facts) = &op.progress
            && !facts.iter().any(|&fact| get(&self.scratch, words, fact) != (true, false))
        {
            return None;
        }
        op.effects.iter().for_each(|&(fact, t, f)| put(&mut self.scratch, words, fact, t, f));
        Some(op.cost + ASSUMPTION * u128::from(assumed))
    }

    /// Returns the node of the state in `scratch`, new if it was not met before.
    fn node_of_scratch(&mut self) -> u32 {
        let mask = self.table.len() - 1;
        let mut slot = hash(&self.scratch) as usize & mask;
        while self.table[slot] != 0 {
            let id = self.table[slot] - 1;
            let at = id as usize * 2 * self.words;
            if self.bits[at..at + 2 * self.words] == self.scratch[..] {
                return id;
            }
            slot = (slot + 1) & mask;
        }
        let id = self.nodes.len() as u32;
        self.table[slot] = id + 1;
        self.bits.extend_from_slice(&self.scratch);
        self.nodes.push(Node { cost: u128::MAX, bound: 0, evaluated: false, expanded_at: u128::MAX });
        if self.nodes.len() * 2 > self.table.len() {
            self.grow();
        }
        id
    }

    fn grow(&mut self) {
        let size = self.table.len() * 2;
        self.table = vec![0; size];
        for id in 0..self.nodes.len() {
            let at = id * 2 * self.words;
            let mut slot = hash(&self.bits[at..at + 2 * self.words]) as usize & (size - 1);
            while self.table[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.table[slot] = id as u32 + 1;
        }
    }

    fn check_time(&self) -> Result<(), Limit> {
        if self.limits.stop.is_some_and(|stop| stop()) { Err(Limit::Time) } else { Ok(()) }
    }

    fn check_memory(&self, open: usize) -> Result<(), Limit> {
        let bytes = self.bits.capacity() * 8
            + self.nodes.capacity() * size_of::<Node>()
            + self.table.len() * 4
            + open * size_of::<Waiting>();
        let full = bytes > self.limits.memory_bytes_max || self.nodes.len() >= u32::MAX as usize / 2;
        if full { Err(Limit::Memory) } else { Ok(()) }
    }
}

fn get(bits: &[u64], words: usize, fact: u32) -> (bool, bool) {
    let (word, shift) = (fact as usize / 64, fact % 64);
    (bits[word] >> shift & 1 == 1, bits[words + word] >> shift & 1 == 1)
}

fn put(bits: &mut [u64], words: usize, fact: u32, t: bool, f: bool) {
    let (word, bit) = (fact as usize / 64, 1u64 << (fact % 64));
    bits[word] = if t { bits[word] | bit } else { bits[word] & !bit };
    bits[words + word] = if f { bits[words + word] | bit } else { bits[words + word] & !bit };
}

fn hash(bits: &[u64]) -> u64 {
    let mixed = bits.iter().fold(0x9e37_79b9_7f4a_7c15u64, |sum, word| {
        let sum = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^ (sum >> 32)
    });
    mixed ^ (mixed >> 29)
}
