//! What to do next: the plan of this round, or why there is none.

use crate::decl::workflow::PlannerKind;
use crate::planning::{self, FactId, Outcome, Plan, Problem, Supplier};

use super::blackboard::Bound;
use super::facts::{self, Facts};
use super::run::Process;
use super::scope::Scope;

/// What was seen at the beginning of a round.
pub struct Seen {
    /// What conditions, costs and values see.
    pub scope: Scope,
    /// The facts.
    pub facts: Facts,
}

/// What is done next.
pub(super) enum Decision {
    /// These operators of the domain are performed; with the plan that says so, if one does.
    Act(Vec<usize>, Option<Plan>),
    /// This condition is asked first, because the first step hangs on it.
    Ask(usize),
    /// A model decides what is done.
    Supervise,
    /// It was done already in finding out.
    Nothing,
    /// Nothing is left to do, and nothing is missing.
    Done,
    /// There is no way.
    Stuck(String),
    /// Planning itself came to a limit: nothing is known about what was not looked at.
    Limit(String),
    /// A cost or value is wrong.
    Wrong(String),
}

/// An effect that did not come, and the state of the blackboard since when it is not assumed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disappointment {
    pub(super) operator: usize,
    pub(super) fact: FactId,
    /// [`Process::changes`] when it was noticed; once there are more, it may be tried again.
    pub(super) changes: u64,
    /// The action would now run on other data than when it disappointed, as one that improves its own output does: it
    /// may be tried again when nothing else is left.
    pub(super) has_new_inputs: bool,
}

impl Process {
    /// Reads the facts from the blackboard.
    pub fn observe(&mut self) -> Seen {
        let scope = self.scope();
        let facts = facts::read(&scope);
        self.note_disappointments(&facts);
        Seen { scope, facts }
    }

    /// Effects that the last step was to bring and did not are no longer assumed while nothing else changes.
    fn note_disappointments(&mut self, facts: &Facts) {
        let changes = self.changes;
        self.disappointments.retain(|disappointment| disappointment.changes == changes);
        for (operator, fact, value) in std::mem::take(&mut self.expected) {
            if !facts.state.knows(fact, value) {
                let has_new_inputs = self.has_new_inputs(operator);
                self.disappointments.push(Disappointment { operator, fact, changes, has_new_inputs });
            }
        }
    }

    /// Whether an action's inputs are other data now than those it ran on last.
    fn has_new_inputs(&self, operator: usize) -> bool {
        let agent = &self.core().agent;
        let Some(index) = agent.operators.get(operator).copied() else { return false };
        let Some(action) = agent.actions.get(index) else { return false };
        let (Some(before), Some(now)) = (self.ran_on.get(index), self.board.bind(&action.inputs)) else { return false };
        let value = |at: &usize| self.board.get(*at).map(|object| (object.type_id, object.value.clone()));
        let data = |bound: &Bound| match bound {
            Bound::One(at) => vec![value(at)],
            Bound::All(all) => all.iter().map(value).collect(),
            Bound::Absent => Vec::new(),
        };
        before.iter().map(data).ne(now.iter().map(data))
    }

    /// The goal that holds now: of several the one worth most, then the first.
    pub(super) fn reached(&self, seen: &Seen) -> Option<usize> {
        let domain = self.domain.domain();
        let holds = |goal: &usize| seen.facts.state.holds_strictly(&domain.goals[*goal].pre);
        let goals = self.considered_goals().filter(holds);
        let worth = |goal: usize| {
            let declared = &self.goals[goal];
            facts::number(&seen.scope, declared.value, "value", &declared.name).unwrap_or(0.0)
        };
        goals
            .map(|goal| (goal, worth(goal)))
            .reduce(|best, next| if next.1 > best.1 { next } else { best })
            .map(|(goal, _)| goal)
    }

    /// The goals that this run is about.
    pub(super) fn considered_goals(&self) -> impl Iterator<Item = usize> + '_ {
        let all = 0..self.domain.domain().goals.len();
        all.filter(|goal| self.only_goals.as_ref().is_none_or(|only| only.contains(goal)))
    }

    /// Finds the best plan, or the best action, of this round.
    pub(super) fn decide(&self, seen: &Seen) -> Decision {
        let domain = self.domain.clone();
        let mut problem = match self.problem(&domain, seen) {
            Ok(problem) => problem,
            Err(why) => return Decision::Wrong(why),
        };
        let stop = || self.core().kill.is_killed() || self.core().ledger.is_out_of_time();
        problem.limits.stop = Some(&stop);
        match self.planner {
            PlannerKind::Goap => self.by_plan(&problem, seen),
            PlannerKind::Utility => self.by_utility(&problem, seen),
            PlannerKind::Hybrid => match self.by_plan(&problem, seen) {
                Decision::Stuck(_) => self.by_utility(&problem, seen),
                decision => decision,
            },
            PlannerKind::Supervisor => Decision::Supervise,
        }
    }

    /// The planner's question of this round.
    ///
    /// # Errors
    /// Says which cost or value is wrong.
    pub fn problem<'a>(&self, domain: &'a planning::Compiled, seen: &Seen) -> Result<Problem<'a>, String> {
        let mut problem = Problem::new(domain, seen.facts.state.clone());
        problem.only_goals.clone_from(&self.only_goals);
        problem.excluded = self.excluded();
        problem.no_longer_assumed = self.disappointments.iter().map(|of| (of.operator, of.fact)).collect();
        if !self.core().index.has_number_exprs {
            return Ok(problem);
        }
        let agent = &self.core().agent;
        let (mut costs, mut values) = (Vec::new(), Vec::new());
        for action in agent.operators.iter().filter_map(|action| agent.actions.get(*action)) {
            let number = |number, what| facts::known_number_of(&seen.scope, action, number, what);
            costs.push(number(action.cost, "cost")?.unwrap_or(0.0));
            values.push(number(action.value, "value")?.unwrap_or(0.0));
        }
        let goals = self.goals.iter().map(|goal| facts::number(&seen.scope, goal.value, "value", &goal.name));
        let goal_values: Vec<f64> = goals.collect::<Result<_, _>>()?;
        let problem = problem.with_costs(&costs).and_then(|problem| problem.with_values(&values));
        problem.and_then(|problem| problem.with_goal_values(&goal_values)).map_err(|why| why.to_string())
    }

    /// Operators of actions that are out, and of those that a trigger has run for the newest object already.
    fn excluded(&self) -> Vec<usize> {
        let newest = self.board.last().map(|(at, _)| at);
        let is_out = |action: usize| {
            let on_stuck = self.core().agent.actions.get(action).is_some_and(|action| action.on_stuck);
            on_stuck
                || self.out.contains(&action)
                || self.triggered.get(action).is_some_and(|by| by.is_some() && *by == newest)
        };
        let operators = self.core().agent.operators.iter().enumerate();
        operators.filter(|(_, action)| is_out(**action)).map(|(operator, _)| operator).collect()
    }

    fn by_plan(&self, problem: &Problem<'_>, seen: &Seen) -> Decision {
        // After a step that came out as planned the rest of the plan is the best one, without a search.
        let rest = self.in_force.as_ref().and_then(|(before, plan)| planning::continue_plan(before, plan, problem));
        let plan = match rest.map_or_else(|| planning::plan(problem), Outcome::Plan) {
            Outcome::Plan(plan) => plan,
            Outcome::Unsolvable(_) if self.disappointments.iter().any(|of| of.has_new_inputs) => {
                let tried = self.disappointments.iter().filter(|of| !of.has_new_inputs);
                let mut once_more = problem.clone();
                once_more.no_longer_assumed = tried.map(|of| (of.operator, of.fact)).collect();
                match planning::plan(&once_more) {
                    Outcome::Plan(plan) => plan,
                    _ => return Decision::Stuck(self.why_unreachable(problem)),
                }
            }
            Outcome::Unsolvable(_) => return Decision::Stuck(self.why_unreachable(problem)),
            Outcome::LimitReached(reached) => return Decision::Limit(reached.to_string()),
        };
        if !plan.hangs_on().is_empty() {
            return self.open_first_step(&plan, seen);
        }
        let steps = self.ready(&plan, problem);
        Decision::Act(steps, Some(plan))
    }

    /// A plan that begins with an open fact: a condition to ask, or the end.
    fn open_first_step(&self, plan: &Plan, seen: &Seen) -> Decision {
        for (fact, _) in plan.hangs_on() {
            if let Some((_, condition)) = seen.facts.to_ask.iter().find(|(open, _)| open == fact) {
                return Decision::Ask(*condition);
            }
        }
        let domain = self.domain.domain();
        let names: Vec<String> =
            plan.hangs_on().iter().map(|(fact, _)| format!("`{}`", domain.fact_name(*fact))).collect();
        Decision::Stuck(format!("every plan begins with what is not known: {}", names.join(", ")))
    }

    /// The steps that can run now: the first, and under `concurrency` others that depend on no step of the plan.
    fn ready(&self, plan: &Plan, problem: &Problem<'_>) -> Vec<usize> {
        let Some(first) = plan.steps.first() else { return Vec::new() };
        let at_once = self.core().agent.concurrency.max(1) as usize;
        let mut ready = vec![first.action];
        if at_once == 1 || !self.is_independent(first.action) {
            return ready;
        }
        for step in &plan.steps[1..] {
            let from_start = step.relies_on.iter().all(|support| support.supplier == Supplier::Start);
            let now = from_start && step.assumes.is_empty() && planning::applicable_now(problem, step.action);
            if now && self.is_independent(step.action) && !ready.contains(&step.action) && ready.len() < at_once {
                ready.push(step.action);
            }
        }
        ready
    }

    /// Whether an action takes nothing away from those beside it.
    fn is_independent(&self, operator: usize) -> bool {
        let agent = &self.core().agent;
        let action = agent.operators.get(operator).and_then(|action| agent.actions.get(*action));
        action.is_some_and(|action| !action.clear_blackboard && action.hide.is_empty() && action.trigger.is_none())
    }

    /// The most worthwhile of what can run now. What hangs on a condition that a model has yet to be asked about is
    /// asked about first, if it would be the most worthwhile.
    fn by_utility(&self, problem: &Problem<'_>, seen: &Seen) -> Decision {
        for candidate in planning::candidates(problem) {
            let asked = |open: &(FactId, bool)| seen.facts.to_ask.iter().find(|(fact, _)| *fact == open.0);
            match candidate.hangs_on.first().map(asked) {
                None => return Decision::Act(vec![candidate.action], None),
                Some(Some((_, condition))) => return Decision::Ask(*condition),
                Some(None) => {}
            }
        }
        if self.considered_goals().next().is_none() {
            return Decision::Done;
        }
        Decision::Stuck(self.why_unreachable(problem))
    }

    /// Why no goal can be reached, leaf first.
    pub(super) fn why_unreachable(&self, problem: &Problem<'_>) -> String {
        let goals = problem.goals();
        if goals.is_empty() {
            return "there is no goal to plan for".to_owned();
        }
        let mut reasons: Vec<String> = Vec::new();
        for goal in goals {
            let name = &self.domain.domain().goals[goal].name;
            let missing = self.core().agent.words_for_process().unreachable(problem, goal);
            let because: Vec<&str> = missing.iter().map(|missing| missing.because.as_str()).collect();
            reasons.push(match because.is_empty() {
                true => format!("no plan reaches `{name}`"),
                false => format!("no plan reaches `{name}`: {}", because.join("; ")),
            });
        }
        reasons.join(". ")
    }
}
