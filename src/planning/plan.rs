//! What planning answers: a plan that explains itself, a proof that there is none, or the limit that was reached.

use std::cmp::Ordering;
use std::fmt;

use super::domain::FactId;

/// The best plan to one goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The goal, by position.
    pub goal: usize,
    /// What to do, in order; empty when the goal holds already.
    pub steps: Vec<Step>,
    /// Sum of the costs of the steps.
    pub cost: f64,
    /// Net value: the goal's value plus the values of the steps minus their costs.
    pub value: f64,
    /// How many times the plan relies on an open fact.
    pub assumed: usize,
    /// Who supplies what the goal asks for.
    pub goal_relies_on: Vec<Support>,
    /// Open facts that the goal itself relies on after the last step.
    pub goal_assumes: Vec<(FactId, bool)>,
    /// States that the search looked at.
    pub expanded: u64,
    /// The net value without rounding, for ranking.
    pub(crate) net: i128,
    /// Fingerprint of the costs and restrictions it was found under.
    pub(crate) terms: u64,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The action, by position.
    pub action: usize,
    /// Its cost in this round.
    pub cost: f64,
    /// Each precondition and who supplies it.
    pub relies_on: Vec<Support>,
    /// Open facts that this step relies on, with the value it takes them to have.
    pub assumes: Vec<(FactId, bool)>,
}

/// A requirement and who sees to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// The fact.
    pub fact: FactId,
    /// The value it must have.
    pub value: bool,
    /// Who set or opened it last.
    pub supplier: Supplier,
}

/// Who supplies a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supplier {
    /// It holds, or is open, at the start.
    Start,
    /// The step at this position of the plan.
    Step(usize),
}

/// How planning ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The best plan.
    Plan(Plan),
    /// No plan exists.
    Unsolvable(Proof),
    /// A stated limit came first; nothing is known about what was not looked at.
    LimitReached(Reached),
}

impl Outcome {
    /// Returns the plan, if there is one.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Outcome::Plan(plan) => Some(plan),
            Outcome::Unsolvable(_) | Outcome::LimitReached(_) => None,
        }
    }
}

/// How it was shown that no plan exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// States that were looked at; 0 when a needed fact can never be supplied even if nothing is ever undone.
    pub expanded: u64,
}

/// A search that ended without a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// Which limit.
    pub limit: Limit,
    /// States that had been looked at.
    pub expanded: u64,
    /// With several goals, the best plan among the goals that were finished; another goal may have a better one.
    pub best: Option<Box<Plan>>,
}

/// A stated limit of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::stop`](super::Limits::stop) said so.
    Time,
    /// The search's tables would pass [`Limits::memory_bytes_max`](super::Limits::memory_bytes_max).
    Memory,
}

impl Limit {
    /// Returns the word for it in documents: `time` or `memory`.
    pub fn word(self) -> &'static str {
        match self {
            Limit::Time => "time",
            Limit::Memory => "memory",
        }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = match self.limit {
            Limit::Time => "its time limit",
            Limit::Memory => "the limit of its memory",
        };
        write!(
            f,
            "planning came to {limit} after looking at {} states; whether there is a plan is not known",
            self.expanded
        )
    }
}

impl Plan {
    /// Returns the actions in order, by position.
    pub fn actions(&self) -> Vec<usize> {
        self.steps.iter().map(|step| step.action).collect()
    }

    /// Returns the open facts that the first step hangs on (for an empty plan: that the goal hangs on). When this is empty the
    /// step's preconditions are known to hold and it can run now.
    pub fn hangs_on(&self) -> &[(FactId, bool)] {
        self.steps.first().map_or(&self.goal_assumes, |step| &step.assumes)
    }

    /// Orders plans to different goals, the one to follow first: higher net value, lower cost, fewer steps, earlier goal.
    pub fn rank(&self, other: &Plan) -> Ordering {
        let by_value = other.net.cmp(&self.net);
        let by_cost = by_value.then(self.cost.total_cmp(&other.cost));
        by_cost.then(self.steps.len().cmp(&other.steps.len())).then(self.goal.cmp(&other.goal))
    }
}
