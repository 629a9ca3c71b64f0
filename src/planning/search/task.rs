//! A problem cut down to one goal: only what the search has to look at, renumbered.
//!
//! Four reductions, each of which keeps the best plan and its tie-breaks:
//! - *Relevance and reachability*: actions that nothing needs (followed back from the goal) or whose preconditions can never
//!   hold (followed forward, nothing ever undone) go; so do preconditions that hold at the start and are never undone.
//! - *What is lost for good*: where nothing supplies what the goal asks for, it must last from the start, and actions that use it
//!   up go; so do actions that need it and come too late. Two facts of the goal that every supplier of either undoes are a proof that there is no plan.
//! - *Dominance*: of two actions that do the same to what is left, one needs no more and costs no more (or is declared first):
//!   the other is never in the best plan.
//! - *Deferred restrictions*: "has not run yet" marks and the demand for progress forbid what a best plan hardly ever does.
//!   They are left out ([`Kept`] says which are not), the plan is replayed with them, and the ones it offends against are put
//!   back for another search. A plan that passes was the best among more plans than there are; no plan at all is a proof too.

use std::collections::BTreeSet;

use super::super::domain::{Effect, FactId, contradicts, literal, normal_requirements};
use super::super::problem::Problem;
use super::super::state::Truth;

/// Where the parts of a packed cost begin, from the low end: 24 bits specificity, 20 steps, 20 assumptions, 64 cost.
const STEP: u128 = 1 << 24;
/// The packed cost of one assumption.
pub(super) const ASSUMPTION: u128 = 1 << 44;
const COST_SHIFT: u32 = 64;
/// How many incomparable actions of one effect are compared with each further one.
const RIVALS_MAX: usize = 16;
/// How many things that nothing supplies are followed to where they are lost.
const LOSSES_MAX: usize = 8;
/// Times that relevance and reachability are repeated for what the others removed.
const ROUNDS: usize = 3;

/// Restrictions that are not left out.
#[derive(Default)]
pub(super) struct Kept {
    /// Preconditions by action.
    pub(super) pre: BTreeSet<(u32, FactId)>,
    /// Actions whose demand for progress counts.
    pub(super) progress: BTreeSet<u32>,
}

/// An action of a task.
#[derive(Clone, Debug)]
pub(super) struct Op {
    /// Its position in the domain.
    pub(super) action: u32,
    /// What it costs: cost, one step, specificity, packed.
    pub(super) cost: u128,
    /// Preconditions: sorted facts of the task with their values.
    pub(super) pre: Vec<(u32, bool)>,
    /// Facts of the task with the bits they get: can be true, can be false.
    pub(super) effects: Vec<(u32, bool, bool)>,
    /// Facts one of which must not be true yet.
    pub(super) progress: Option<Vec<u32>>,
    /// Facts of the domain that it asks to be false, left out of `pre`.
    pub(super) deferred: Vec<FactId>,
}

impl Op {
    /// Returns whether a precondition of the action was left out.
    pub(super) fn defers(&self, fact: FactId, value: bool) -> bool {
        !value && self.deferred.contains(&fact)
    }
}

/// A reduced problem.
#[derive(Debug)]
pub(super) struct Task {
    /// Actions in declaration order.
    pub(super) ops: Vec<Op>,
    /// What must hold in the end, sorted.
    pub(super) goal: Vec<(u32, bool)>,
    /// Number of facts.
    pub(super) facts: usize,
    /// Bits of the facts at the start: can be true, can be false.
    pub(super) start: Vec<(bool, bool)>,
}

impl Task {
    /// Returns the reduced problem, or `None` when the goal cannot be reached even if nothing is ever undone.
    pub(super) fn new(problem: &Problem, goal: usize, kept: &Kept) -> Option<Task> {
        let goal = normal_requirements(&problem.domain.domain().goals[goal].pre);
        if contradicts(&goal) {
            return None;
        }
        let mut reduction = Reduction::new(problem, kept, goal);
        reduction.forbid_losses();
        for round in 0..ROUNDS {
            reduction.follow_back();
            if !reduction.follow_forward() {
                return None;
            }
            if reduction.forbid_losses() | reduction.forbid_too_late() {
                reduction.follow_back();
                if !reduction.follow_forward() {
                    return None;
                }
            }
            reduction.follow_back();
            let task = reduction.build();
            if task.goal_excludes_itself() {
                return None;
            }
            let dominated = task.dominated();
            if dominated.is_empty() || round + 1 == ROUNDS {
                return Some(task.without(&dominated));
            }
            for op in dominated {
                reduction.allowed[task.ops[op].action as usize] = false;
            }
        }
        None
    }

    /// Returns whether two facts of the goal never hold together: not at the start, and whatever supplies one of them undoes
    /// the other.
    fn goal_excludes_itself(&self) -> bool {
        if self.goal.len() < 2 || self.goal.len() > 64 {
            return false;
        }
        let mut place = vec![None; self.facts];
        self.goal.iter().enumerate().for_each(|(at, &(fact, value))| place[fact as usize] = Some((at, value)));
        let start = |&(fact, value): &(u32, bool)| {
            let (t, f) = self.start[fact as usize];
            if value { t } else { f }
        };
        let given =
            self.goal.iter().enumerate().fold(0u64, |bits, (at, literal)| bits | u64::from(start(literal)) << at);
        let mut beside: Vec<u64> = self.goal.iter().map(|literal| if start(literal) { given } else { 0 }).collect();
        for op in &self.ops {
            let (mut made, mut undone) = (0u64, 0u64);
            for &(fact, needs) in &op.pre {
                if let Some((at, _)) = place[fact as usize].filter(|&(_, value)| value != needs) {
                    undone |= 1 << at;
                }
            }
            for &(fact, t, f) in &op.effects {
                if let Some((at, value)) = place[fact as usize] {
                    let makes = if value { t } else { f };
                    made |= u64::from(makes) << at;
                    undone = if makes { undone & !(1 << at) } else { undone | 1 << at };
                }
            }
            let mut rest = made;
            while rest != 0 {
                beside[rest.trailing_zeros() as usize] |= !undone;
                rest &= rest - 1;
            }
        }
        let pairs = (0..self.goal.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.into_iter().any(|(a, b)| beside[a] >> b & 1 == 0 && beside[b] >> a & 1 == 0)
    }

    fn dominated(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.ops.len()).collect();
        order.sort_unstable_by(|&a, &b| {
            let (x, y) = (&self.ops[a], &self.ops[b]);
            x.effects.cmp(&y.effects).then(x.cost.cmp(&y.cost)).then(a.cmp(&b))
        });
        let (mut dominated, mut rivals): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for index in order {
            let op = &self.ops[index];
            if rivals.first().is_some_and(|&rival| self.ops[rival].effects != op.effects) {
                rivals.clear();
            }
            let beats = |&rival: &usize| {
                let rival = &self.ops[rival];
                rival.progress.is_none() && rival.pre.iter().all(|pre| op.pre.binary_search(pre).is_ok())
            };
            if rivals.iter().any(beats) {
                dominated.push(index);
            } else if rivals.len() < RIVALS_MAX {
                rivals.push(index);
            }
        }
        dominated.sort_unstable();
        dominated
    }

    fn without(mut self, dominated: &[usize]) -> Self {
        let mut index = 0;
        self.ops.retain(|_| {
            index += 1;
            dominated.binary_search(&(index - 1)).is_err()
        });
        self
    }
}

/// Work in progress on a [`Task`].
struct Reduction<'a, 'p> {
    problem: &'a Problem<'p>,
    kept: &'a Kept,
    goal: Vec<(FactId, bool)>,
    /// By action: not excluded, not shown useless so far.
    allowed: Vec<bool>,
    /// Relevant actions, ascending.
    chosen: Vec<u32>,
    /// By literal: something relevant requires it.
    needed: Vec<bool>,
}

impl<'a, 'p> Reduction<'a, 'p> {
    fn new(problem: &'a Problem<'p>, kept: &'a Kept, goal: Vec<(FactId, bool)>) -> Self {
        let mut allowed: Vec<bool> = problem.domain.operators.iter().map(|operator| !operator.impossible).collect();
        for &action in &problem.excluded {
            if let Some(slot) = allowed.get_mut(action) {
                *slot = false;
            }
        }
        Reduction { problem, kept, goal, allowed, chosen: Vec::new(), needed: Vec::new() }
    }

    /// Returns whether a precondition is a mark that may be left out: it asks for false what the action itself makes true,
    /// and at the start it holds.
    fn may_defer(&self, action: u32, fact: FactId, value: bool) -> bool {
        if value || !self.problem.start.knows(fact, false) || self.kept.pre.contains(&(action, fact)) {
            return false;
        }
        let effects = &self.problem.domain.operators[action as usize].effects;
        effects.binary_search_by_key(&fact, |(fact, _)| *fact).is_ok_and(|at| effects[at].1 == Effect::Makes(true))
    }

    fn deferred(&self, action: u32, fact: FactId, value: bool) -> bool {
        !value && !self.needed[literal(fact, true)] && self.may_defer(action, fact, value)
    }

    fn keeps_progress(&self, action: u32) -> bool {
        let Some(facts) = &self.problem.domain.operators[action as usize].progress else { return false };
        self.kept.progress.contains(&action)
            || facts.iter().all(|&fact| {
                self.problem.start.get(fact) == Truth::True || !self.problem.assumes_effect(action as usize, fact)
            })
    }

    /// Follows requirements back from the goal to the actions that may bring them about.
    fn follow_back(&mut self) {
        let domain = self.problem.domain;
        let doubts = !self.problem.no_longer_assumed.is_empty();
        self.needed = vec![false; 2 * domain.domain().fact_count()];
        let mut taken = vec![false; domain.operators.len()];
        let mut queue: Vec<(FactId, bool)> = self.goal.clone();
        let mut marks: Vec<FactId> = Vec::new();
        self.chosen.clear();
        loop {
            while let Some((fact, value)) = queue.pop() {
                if std::mem::replace(&mut self.needed[literal(fact, value)], true) {
                    continue;
                }
                for &action in domain.brought_by.of(literal(fact, value)) {
                    let brings = !doubts || self.problem.assumes_effect(action as usize, fact);
                    if taken[action as usize] || !self.allowed[action as usize] || !brings {
                        continue;
                    }
                    taken[action as usize] = true;
                    self.chosen.push(action);
                    let operator = &domain.operators[action as usize];
                    for &(fact, value) in &operator.pre {
                        if self.may_defer(action, fact, value) {
                            marks.push(fact);
                        } else {
                            queue.push((fact, value));
                        }
                    }
                    if self.keeps_progress(action) {
                        queue.extend(operator.progress.iter().flatten().map(|&fact| (fact, false)));
                    }
                }
            }
            marks.retain(|&fact| {
                let real = self.needed[literal(fact, true)];
                if real {
                    queue.push((fact, false));
                }
                !real
            });
            if queue.is_empty() {
                break;
            }
        }
        self.chosen.sort_unstable();
    }

    /// Follows effects forward from the start as if nothing were ever undone; says whether the goal is reached and forbids
    /// the actions that are not.
    fn follow_forward(&mut self) -> bool {
        let (fired, reached) = self.reach(None);
        for &action in &self.chosen {
            self.allowed[action as usize] &= fired[action as usize];
        }
        self.goal.iter().all(|&(fact, value)| self.problem.start.allows(fact, value) || reached[literal(fact, value)])
    }

    /// Returns which actions can run, and which literals can be had, if nothing were ever undone; actions that lose a literal
    /// bring nothing about, but may be among those that run.
    fn reach(&self, keeping: Option<(FactId, bool)>) -> (Vec<bool>, Vec<bool>) {
        let domain = self.problem.domain;
        let mut lacking = vec![u32::MAX; domain.operators.len()];
        let mut reached = vec![false; self.needed.len()];
        let mut ready: Vec<u32> = Vec::new();
        for &action in self.chosen.iter().filter(|&&action| self.allowed[action as usize]) {
            let pre = &domain.operators[action as usize].pre;
            let open = pre.iter().filter(|&&(fact, value)| {
                !self.problem.start.allows(fact, value) && !self.deferred(action, fact, value)
            });
            lacking[action as usize] = open.count() as u32;
            if lacking[action as usize] == 0 && self.can_progress(action) {
                ready.push(action);
            }
        }
        let mut fired = vec![false; domain.operators.len()];
        while let Some(action) = ready.pop() {
            fired[action as usize] = true;
            if keeping.is_some_and(|(fact, value)| self.loses(action, fact, value)) {
                continue;
            }
            for &(fact, effect) in &domain.operators[action as usize].effects {
                if !self.problem.assumes_effect(action as usize, fact) {
                    continue;
                }
                for value in [false, true] {
                    let brings = effect == Effect::Opens || effect == Effect::Makes(value);
                    let known = !brings || self.problem.start.allows(fact, value);
                    if known || std::mem::replace(&mut reached[literal(fact, value)], true) {
                        continue;
                    }
                    for &user in domain.required_by.of(literal(fact, value)) {
                        let count = &mut lacking[user as usize];
                        if *count != u32::MAX && *count > 0 {
                            *count -= 1;
                            if *count == 0 && self.can_progress(user) {
                                ready.push(user);
                            }
                        }
                    }
                }
            }
        }
        (fired, reached)
    }

    /// Returns whether nothing supplies a literal, so that once lost it is lost for good.
    fn is_given_once(&self, fact: FactId, value: bool) -> bool {
        let mut suppliers = self.problem.domain.brought_by.of(literal(fact, value)).iter();
        !suppliers.any(|&action| self.allowed[action as usize] && self.problem.assumes_effect(action as usize, fact))
    }

    /// Returns whether an action loses a literal that nothing supplies: by its effect, or by taking an open fact to be otherwise.
    fn loses(&self, action: u32, fact: FactId, value: bool) -> bool {
        let operator = &self.problem.domain.operators[action as usize];
        let undoes = operator.effects.contains(&(fact, Effect::Makes(!value)));
        undoes && self.problem.assumes_effect(action as usize, fact) || operator.pre.contains(&(fact, !value))
    }

    /// Forbids the actions that no plan has because they lose for good what the goal asks for, or need what the way to them
    /// has lost for good. Says whether there were any.
    fn forbid_losses(&mut self) -> bool {
        let domain = self.problem.domain;
        let mut lost = false;
        for index in 0..self.goal.len() {
            let (fact, value) = self.goal[index];
            if !self.is_given_once(fact, value) {
                continue;
            }
            let losers = [domain.brought_by.of(literal(fact, !value)), domain.required_by.of(literal(fact, !value))];
            for &action in losers.into_iter().flatten() {
                if self.loses(action, fact, value) {
                    lost |= std::mem::replace(&mut self.allowed[action as usize], false);
                }
            }
        }
        lost
    }

    /// Forbids the actions that need what the way to them has lost for good. Says whether there were any.
    fn forbid_too_late(&mut self) -> bool {
        let mut given: Vec<(FactId, bool)> = Vec::new();
        'actions: for &action in &self.chosen {
            for &(fact, value) in &self.problem.domain.operators[action as usize].pre {
                if self.problem.start.allows(fact, value)
                    && !given.contains(&(fact, value))
                    && !self.may_defer(action, fact, value)
                    && self.is_lost_before(action, fact, value)
                {
                    given.push((fact, value));
                    if given.len() == LOSSES_MAX {
                        break 'actions;
                    }
                }
            }
        }
        let mut lost = false;
        for (fact, value) in given {
            let (fired, _) = self.reach(Some((fact, value)));
            for &action in self.problem.domain.required_by.of(literal(fact, value)) {
                if !fired[action as usize] && !self.may_defer(action, fact, value) {
                    lost |= std::mem::replace(&mut self.allowed[action as usize], false);
                }
            }
        }
        lost
    }

    /// Returns whether some other relevant action may lose what an action needs, and nothing supplies it anew.
    fn is_lost_before(&self, action: u32, fact: FactId, value: bool) -> bool {
        let domain = self.problem.domain;
        let losers = [domain.brought_by.of(literal(fact, !value)), domain.required_by.of(literal(fact, !value))];
        let mut losers = losers.into_iter().flatten().filter(|&&other| other != action && self.allowed[other as usize]);
        losers.any(|other| self.chosen.binary_search(other).is_ok()) && self.is_given_once(fact, value)
    }

    /// Returns whether an action that has to make progress could ever make any: some fact is not true, or can stop being so.
    fn can_progress(&self, action: u32) -> bool {
        if !self.keeps_progress(action) {
            return true;
        }
        let domain = self.problem.domain;
        domain.operators[action as usize].progress.iter().flatten().any(|&fact| {
            self.problem.assumes_effect(action as usize, fact)
                && (self.problem.start.get(fact) != Truth::True
                    || domain.brought_by.of(literal(fact, false)).iter().any(|&other| self.allowed[other as usize]))
        })
    }

    fn build(&self) -> Task {
        let domain = self.problem.domain;
        let start = &self.problem.start;
        // A needed literal is settled when it holds at the start and no chosen action ever does anything else to the fact.
        let mut unsettled = vec![false; self.needed.len()];
        let mut whole = vec![false; domain.domain().fact_count()];
        for &action in &self.chosen {
            let operator = &domain.operators[action as usize];
            for &(fact, effect) in &operator.effects {
                if self.problem.assumes_effect(action as usize, fact) {
                    for value in [false, true] {
                        unsettled[literal(fact, value)] |= effect != Effect::Makes(value);
                    }
                }
            }
            if self.keeps_progress(action) {
                operator.progress.iter().flatten().for_each(|&fact| whole[fact.0 as usize] = true);
            }
        }
        let settled = |fact: FactId, value| start.knows(fact, value) && !unsettled[literal(fact, value)];
        let mut number = vec![u32::MAX; domain.domain().fact_count()];
        let mut facts: Vec<FactId> = Vec::new();
        let mut track = |fact: FactId| {
            if number[fact.0 as usize] == u32::MAX {
                number[fact.0 as usize] = facts.len() as u32;
                facts.push(fact);
            }
        };
        let goal: Vec<(FactId, bool)> =
            self.goal.iter().copied().filter(|&(fact, value)| !settled(fact, value)).collect();
        goal.iter().for_each(|&(fact, _)| track(fact));
        for &action in &self.chosen {
            for &(fact, value) in &domain.operators[action as usize].pre {
                if !self.deferred(action, fact, value) && !settled(fact, value) {
                    track(fact);
                }
            }
            if self.keeps_progress(action) {
                domain.operators[action as usize].progress.iter().flatten().for_each(|&fact| track(fact));
            }
        }
        // Where only one value of a fact matters, the other one is the same as knowing nothing.
        let bits = |fact: FactId, t: bool, f: bool| {
            let whole = whole[fact.0 as usize];
            match (t, f) {
                (true, false) if !whole && !self.needed[literal(fact, true)] => (false, false),
                (false, true) if !whole && !self.needed[literal(fact, false)] => (false, false),
                both => both,
            }
        };
        let renumber = |pre: Vec<(FactId, bool)>| {
            let mut pre: Vec<(u32, bool)> =
                pre.into_iter().map(|(fact, value)| (number[fact.0 as usize], value)).collect();
            pre.sort_unstable();
            pre
        };
        let specific_most = self.chosen.iter().map(|&action| domain.operators[action as usize].specificity).max();
        let specific_most = specific_most.unwrap_or(0);
        let ops = self.chosen.iter().map(|&action| {
            let operator = &domain.operators[action as usize];
            let pre = operator.pre.iter().copied();
            let pre = pre.filter(|&(fact, value)| !self.deferred(action, fact, value) && !settled(fact, value));
            let mut effects: Vec<(u32, bool, bool)> = Vec::with_capacity(operator.effects.len());
            for &(fact, effect) in &operator.effects {
                if number[fact.0 as usize] != u32::MAX && self.problem.assumes_effect(action as usize, fact) {
                    let (t, f) = bits(fact, effect != Effect::Makes(false), effect != Effect::Makes(true));
                    effects.push((number[fact.0 as usize], t, f));
                }
            }
            effects.sort_unstable();
            let progress = self.keeps_progress(action).then(|| {
                let facts = operator.progress.iter().flatten().copied();
                let facts = facts.filter(|&fact| self.problem.assumes_effect(action as usize, fact));
                facts.map(|fact| number[fact.0 as usize]).collect()
            });
            let units = u128::from(self.problem.amounts.units[action as usize]);
            let cost = (units << COST_SHIFT) + STEP + u128::from(specific_most - operator.specificity);
            let pre = renumber(pre.collect());
            let all = operator.pre.iter().filter(|&&(fact, value)| self.deferred(action, fact, value));
            Op { action, cost, pre, effects, progress, deferred: all.map(|(fact, _)| *fact).collect() }
        });
        Task {
            ops: ops.collect(),
            start: facts.iter().map(|&fact| bits(fact, start.allows(fact, true), start.allows(fact, false))).collect(),
            goal: renumber(goal.clone()),
            facts: facts.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::domain::{Action, Domain, Goal};
    use super::super::super::state::State;
    use super::*;

    /// `+fact` holds or is made so, `-fact` does not hold or is undone.
    type Literals<'a> = &'a [&'a str];

    /// Names of the actions that are left of a problem, or `None` when there is proof that no plan exists.
    fn left(start: &[&str], actions: &[(&str, Literals, Literals)], goal: Literals) -> Option<Vec<String>> {
        let mut domain = Domain::new();
        let mut read = |text: &&str| (domain.fact(&text[1..]), text.starts_with('+'));
        let mut lowered = Vec::new();
        for (name, pre, effects) in actions {
            let pre = pre.iter().map(&mut read).collect();
            let effects = effects.iter().map(&mut read).map(|(fact, value)| (fact, Effect::Makes(value))).collect();
            lowered.push(Action { pre, effects, cost: 1.0, ..Action::new(*name) });
        }
        let goal = Goal { name: "goal".into(), pre: goal.iter().map(&mut read).collect(), value: 0.0 };
        let given: Vec<FactId> = start.iter().map(|fact| domain.fact(fact)).collect();
        domain.actions = lowered;
        domain.goals.push(goal);
        let compiled = domain.compile().expect("a good domain");
        let mut state = State::all(compiled.domain().fact_count(), Truth::False);
        given.iter().for_each(|fact| state.set(*fact, Truth::True));
        let problem = Problem::new(&compiled, state);
        let task = Task::new(&problem, 0, &Kept::default())?;
        Some(task.ops.iter().map(|op| compiled.domain().actions[op.action as usize].name.clone()).collect())
    }

    #[test]
    fn an_action_that_loses_for_good_what_the_goal_asks_for_goes() {
        let burn = ("burn", &["+token"][..], &["+done", "-token"][..]);
        let keep = ("keep", &["+coal"][..], &["+done"][..]);
        let goal = &["+done", "+token"];
        assert_eq!(left(&["token", "coal"], &[burn, keep], goal), Some(vec!["keep".to_owned()]));
        assert_eq!(left(&["token"], &[burn], goal), None);
        // What can be had again is not lost for good, and what the goal does not ask for may go.
        let mint = ("mint", &["+done"][..], &["+token"][..]);
        assert_eq!(left(&["token"], &[burn, mint], goal), Some(vec!["burn".to_owned(), "mint".to_owned()]));
        assert_eq!(left(&["token"], &[burn], &["+done"]), Some(vec!["burn".to_owned()]));
    }

    #[test]
    fn an_action_whose_only_way_has_used_up_what_it_needs_goes() {
        let open = ("open", &["+key"][..], &["+inside", "-key"][..]);
        let lock = ("lock", &["+inside", "+key"][..], &["+safe"][..]);
        let bolt = ("bolt", &["+inside"][..], &["+safe"][..]);
        assert_eq!(left(&["key"], &[open, lock], &["+safe"]), None);
        assert_eq!(left(&["key"], &[open, lock, bolt], &["+safe"]), Some(vec!["open".to_owned(), "bolt".to_owned()]));
        // A way in that keeps the key leaves the other one possible.
        let climb = ("climb", &[][..], &["+inside"][..]);
        assert!(left(&["key"], &[open, lock, climb], &["+safe"]).is_some());
    }

    #[test]
    fn facts_of_the_goal_that_undo_each_other_are_a_proof() {
        let up = ("up", &[][..], &["+up", "-down"][..]);
        let down = ("down", &[][..], &["+down", "-up"][..]);
        assert_eq!(left(&["up"], &[up, down], &["+up", "+down"]), None);
        assert!(left(&["up"], &[up, down], &["+down"]).is_some());
        // One supplier that leaves the other as it is, or both at the start, and nothing is proved.
        let also = ("also", &[][..], &["+down"][..]);
        assert!(left(&["up"], &[up, down, also], &["+up", "+down"]).is_some());
        assert!(left(&["up", "down"], &[up, down], &["+up", "+down"]).is_some());
    }
}
