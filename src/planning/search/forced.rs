//! Plans with few choices: what is missing is traced back to its suppliers, and the few ways of choosing them are tried.
//!
//! Why the answer is the best plan. Every plan supplies each thing that is missing somehow, so it contains one of the sets
//! that this collects, one for each way of choosing suppliers; the cost of the cheapest set is a lower bound. If the actions
//! of every cheapest set can be put in an order that is a plan at that cost (none undoes what another or the goal needs),
//! then, as every action costs something, the best plans are the orders of these sets; in each the action declared first
//! among those that are ready gives the first. Most workflows are of this kind and are planned in about linear time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::task::{ASSUMPTION, Task};

/// Choices that are tried before the search proper takes over.
const TRIES_MAX: u32 = 64;
/// The slot of a fact that stands for "it is open", after those of its two values.
const OPEN: usize = 2;
/// Marks an assumption among what was chosen.
const ASSUMED: u32 = 1 << 31;

/// Returns the best plan of a task as positions of its actions, or `None` when there are too many choices or a conflict.
pub(super) fn plan(task: &Task) -> Option<Vec<usize>> {
    let mut tracing = Tracing::new(task);
    tracing.explore(0, 0);
    if tracing.conflict || tracing.tries > TRIES_MAX { None } else { tracing.plan }
}

/// A way of choosing suppliers under construction, and the best ways found.
struct Tracing<'a> {
    task: &'a Task,
    /// By slot, where its makers end in `makers`.
    ends: Vec<u32>,
    /// Actions that make a literal known, or open a fact, by slot.
    makers: Vec<u32>,
    /// By slot, how many chosen actions make it; for the literals also whether it is assumed, in the top bit.
    supplied: Vec<u32>,
    /// What was chosen: actions, and slots of assumed literals.
    chosen: Vec<u32>,
    /// Slots that must be supplied, first all of them, then those with a choice.
    agenda: Vec<u32>,
    pending: Vec<u32>,
    cost: u128,
    least: u128,
    /// The first plan in declaration order among those of the least cost.
    plan: Option<Vec<usize>>,
    /// Whether a set of the least cost is no plan.
    conflict: bool,
    tries: u32,
}

impl<'a> Tracing<'a> {
    fn new(task: &'a Task) -> Self {
        let slots = 3 * task.facts;
        let mut ends = vec![0u32; slots + 1];
        let made =
            || task.ops.iter().enumerate().flat_map(|(index, op)| op.effects.iter().map(move |&made| (index, made)));
        for (_, (fact, t, f)) in made() {
            if let Some(slot) = slot_made(fact, t, f) {
                ends[slot + 1] += 1;
            }
        }
        (1..=slots).for_each(|slot| ends[slot] += ends[slot - 1]);
        let mut makers = vec![0u32; ends[slots] as usize];
        // Filling moves each end from where its list begins to where it ends.
        for (index, (fact, t, f)) in made() {
            if let Some(slot) = slot_made(fact, t, f) {
                makers[ends[slot] as usize] = index as u32;
                ends[slot] += 1;
            }
        }
        Tracing {
            task,
            ends,
            makers,
            supplied: vec![0; slots],
            chosen: Vec::with_capacity(16),
            agenda: task.goal.iter().map(|&(fact, value)| slot_of(fact, value) as u32).collect(),
            pending: Vec::new(),
            cost: 0,
            least: u128::MAX,
            plan: None,
            conflict: false,
            tries: 0,
        }
    }

    /// Supplies what is missing from these positions on, where there is no choice; then tries each choice for the first that
    /// has one.
    fn explore(&mut self, mut next: usize, mut choice: usize) {
        self.tries += 1;
        loop {
            if self.cost > self.least || self.tries > TRIES_MAX {
                return;
            }
            if let Some(&slot) = self.agenda.get(next) {
                next += 1;
                if self.is_supplied(slot as usize) {
                    continue;
                }
                match (self.makers_of(slot as usize), self.may_assume(slot as usize)) {
                    (&[], false) => return,
                    (&[], true) => self.assume(slot),
                    (&[only], false) => self.choose(only),
                    _ => self.pending.push(slot),
                }
            } else if let Some(&slot) = self.pending.get(choice) {
                choice += 1;
                if self.is_supplied(slot as usize) {
                    continue;
                }
                let before = (self.chosen.len(), self.agenda.len(), self.pending.len());
                for index in 0..self.makers_of(slot as usize).len() {
                    self.choose(self.makers_of(slot as usize)[index]);
                    self.explore(next, choice);
                    self.undo(before);
                }
                if self.may_assume(slot as usize) {
                    self.assume(slot);
                    self.explore(next, choice);
                    self.undo(before);
                }
                return;
            } else {
                return self.complete();
            }
        }
    }

    fn makers_of(&self, slot: usize) -> &[u32] {
        let begin = if slot == 0 { 0 } else { self.ends[slot - 1] };
        &self.makers[begin as usize..self.ends[slot] as usize]
    }

    fn is_supplied(&self, slot: usize) -> bool {
        let start = self.task.start[slot / 3];
        let given = match slot % 3 {
            OPEN => (true, true),
            value => (value == 1, value == 0),
        };
        self.supplied[slot] > 0 || start == given
    }

    /// Returns whether a slot is a literal whose fact is or may become open.
    fn may_assume(&self, slot: usize) -> bool {
        let open = slot - slot % 3 + OPEN;
        slot != open && (self.task.start[slot / 3] == (true, true) || !self.makers_of(open).is_empty())
    }

    fn choose(&mut self, op: u32) {
        self.chosen.push(op);
        let op = &self.task.ops[op as usize];
        self.cost = self.cost.saturating_add(op.cost);
        for &(fact, t, f) in &op.effects {
            if let Some(slot) = slot_made(fact, t, f) {
                self.supplied[slot] += 1;
            }
        }
        self.agenda.extend(op.pre.iter().map(|&(fact, value)| slot_of(fact, value) as u32));
    }

    fn assume(&mut self, slot: u32) {
        self.chosen.push(slot | ASSUMED);
        self.cost = self.cost.saturating_add(ASSUMPTION);
        self.supplied[slot as usize] |= ASSUMED;
        self.agenda.push(slot - slot % 3 + OPEN as u32);
    }

    fn undo(&mut self, (chosen, agenda, pending): (usize, usize, usize)) {
        for index in chosen..self.chosen.len() {
            let last = self.chosen[index];
            if last & ASSUMED != 0 {
                self.supplied[(last & !ASSUMED) as usize] &= !ASSUMED;
                self.cost -= ASSUMPTION;
                continue;
            }
            let op = &self.task.ops[last as usize];
            self.cost -= op.cost;
            for &(fact, t, f) in &op.effects {
                if let Some(slot) = slot_made(fact, t, f) {
                    self.supplied[slot] -= 1;
                }
            }
        }
        self.chosen.truncate(chosen);
        self.agenda.truncate(agenda);
        self.pending.truncate(pending);
    }

    /// Takes note of a set that supplies everything, and costs no more than any before.
    fn complete(&mut self) {
        if self.cost < self.least {
            (self.least, self.plan, self.conflict) = (self.cost, None, false);
        }
        match self.order() {
            Some(plan) if self.plan.as_ref().is_none_or(|best| plan < *best) => self.plan = Some(plan),
            Some(_) => {}
            None => self.conflict = true,
        }
    }

    /// Orders the chosen actions by who supplies whom, the one declared first where there is a choice; `None` on a conflict.
    fn order(&self) -> Option<Vec<usize>> {
        let task = self.task;
        let mut needs = vec![0u32; 3 * task.facts];
        let mut writers = vec![0u32; task.facts];
        let ops = || self.chosen.iter().filter(|&&op| op & ASSUMED == 0).map(|&op| op as usize);
        task.goal.iter().for_each(|&(fact, value)| needs[slot_of(fact, value)] += 1);
        for op in ops().map(|op| &task.ops[op]) {
            op.pre.iter().for_each(|&(fact, value)| needs[slot_of(fact, value)] += 1);
            op.effects.iter().for_each(|&(fact, _, _)| writers[fact as usize] += 1);
        }
        for slot in self.chosen.iter().filter(|&&slot| slot & ASSUMED != 0).map(|slot| (slot & !ASSUMED) as usize) {
            // Open at the start and never written, or opened by the one action that writes it: one assumption is enough.
            let open = task.start[slot / 3] == (true, true);
            let other = slot - slot % 3 + (1 - slot % 3);
            if writers[slot / 3] != u32::from(!open) || (open && needs[other] > 0) {
                return None;
            }
        }
        let mut waiting: Vec<(u32, u32)> = Vec::new();
        let mut lacking = vec![0u32; task.ops.len()];
        let mut ready = BinaryHeap::new();
        for index in ops() {
            let op = &task.ops[index];
            if op.progress.is_some() {
                return None;
            }
            for &(fact, t, f) in &op.effects {
                // What others need must be kept; of an open fact they may need one value, as an assumption.
                let needed = |value| {
                    let own = u32::from(op.pre.binary_search(&(fact, value)).is_ok());
                    needs[slot_of(fact, value)] > own
                };
                let undoes = |value, kept: bool| {
                    let assumed = self.supplied[slot_of(fact, value)] & ASSUMED != 0;
                    needed(value) && (!kept || (t && f && !assumed))
                };
                if undoes(true, t) || undoes(false, f) || (needed(true) && needed(false)) {
                    return None;
                }
            }
            for &(fact, value) in &op.pre {
                let (start, slot) = (task.start[fact as usize], slot_of(fact, value));
                let assumed = start == (true, true) && self.supplied[slot] & ASSUMED != 0;
                if start != (value, !value) && !assumed {
                    lacking[index] += 1;
                    waiting.push((slot as u32, index as u32));
                }
            }
            if lacking[index] == 0 {
                ready.push(Reverse(index));
            }
        }
        waiting.sort_unstable();
        let mut done = vec![false; 3 * task.facts];
        let mut plan = Vec::with_capacity(self.chosen.len());
        while let Some(Reverse(index)) = ready.pop() {
            plan.push(index);
            for &(fact, t, f) in &task.ops[index].effects {
                for slot in
                    [(false, f), (true, t)].into_iter().filter(|(_, on)| *on).map(|(value, _)| slot_of(fact, value))
                {
                    if std::mem::replace(&mut done[slot], true) {
                        continue;
                    }
                    let begin = waiting.partition_point(|&(of, _)| (of as usize) < slot);
                    for &(_, user) in waiting[begin..].iter().take_while(|&&(of, _)| of as usize == slot) {
                        lacking[user as usize] -= 1;
                        if lacking[user as usize] == 0 {
                            ready.push(Reverse(user as usize));
                        }
                    }
                }
            }
        }
        (plan.len() == ops().count()).then_some(plan)
    }
}

fn slot_of(fact: u32, value: bool) -> usize {
    3 * fact as usize + usize::from(value)
}

/// Returns the slot that an effect supplies, if any.
fn slot_made(fact: u32, t: bool, f: bool) -> Option<usize> {
    match (t, f) {
        (true, true) => Some(3 * fact as usize + OPEN),
        (false, false) => None,
        (value, _) => Some(slot_of(fact, value)),
    }
}
