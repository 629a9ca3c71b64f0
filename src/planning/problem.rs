//! A domain at one moment: where planning starts, at which costs, under which restrictions.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::amount::Amounts;
use super::domain::{Compiled, FactId};
use super::state::{State, Truth};

/// What one planning round asks. Built with [`Problem::new`] and the methods that refine it.
#[derive(Clone)]
pub struct Problem<'a> {
    /// The domain.
    pub domain: &'a Compiled,
    /// What holds at the start.
    pub start: State,
    /// Actions that may not be used, by position.
    pub excluded: Vec<usize>,
    /// Effects that were disappointed and are no longer assumed: the action is taken to leave the fact as it is.
    pub no_longer_assumed: Vec<(usize, FactId)>,
    /// The goals that are considered, by position; all of them when `None`.
    pub only_goals: Option<Vec<usize>>,
    /// When the search is to give up.
    pub limits: Limits<'a>,
    costs: Vec<f64>,
    values: Vec<f64>,
    goal_values: Vec<f64>,
    pub(crate) amounts: Arc<Amounts>,
}

/// When a search gives up without a result.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Asked now and then; the search ends when it says true. A time limit closes over a deadline here.
    pub stop: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// Bytes that the search's own tables may take.
    pub memory_bytes_max: usize,
}

impl Default for Limits<'_> {
    /// No time limit, 1 GiB of tables.
    fn default() -> Self {
        Limits { stop: None, memory_bytes_max: 1 << 30 }
    }
}

impl<'a> Problem<'a> {
    /// Returns the problem of reaching any goal of the domain from a start, at the domain's own costs and values.
    pub fn new(domain: &'a Compiled, start: State) -> Self {
        let actions = &domain.domain().actions;
        let mut start = start;
        if start.len() < domain.domain().fact_count() {
            start.set(FactId(domain.domain().fact_count() as u32 - 1), Truth::Unknown);
        }
        let costs: Vec<f64> = actions.iter().map(|action| action.cost).collect();
        Problem {
            domain,
            start,
            excluded: Vec::new(),
            no_longer_assumed: Vec::new(),
            only_goals: None,
            limits: Limits::default(),
            values: actions.iter().map(|action| action.value).collect(),
            goal_values: domain.domain().goals.iter().map(|goal| goal.value).collect(),
            amounts: domain.amounts.clone(),
            costs,
        }
    }

    /// Takes this round's costs, one for each action in declaration order.
    ///
    /// # Errors
    /// A [`CostError`] for a negative or non-finite cost or a wrong count.
    pub fn with_costs(mut self, costs: &[f64]) -> Result<Self, CostError> {
        let actions = &self.domain.domain().actions;
        CostError::check_count("cost", actions.len(), costs.len())?;
        for (action, &cost) in actions.iter().zip(costs) {
            CostError::check_cost(&action.name, cost)?;
        }
        if self.costs != costs {
            self.costs = costs.to_vec();
            self.amounts = Arc::new(Amounts::of(costs));
        }
        Ok(self)
    }

    /// Takes this round's values of actions, one for each in declaration order.
    ///
    /// # Errors
    /// A [`CostError`] for a non-finite value or a wrong count.
    pub fn with_values(mut self, values: &[f64]) -> Result<Self, CostError> {
        let actions = &self.domain.domain().actions;
        CostError::check_count("value", actions.len(), values.len())?;
        for (action, &value) in actions.iter().zip(values) {
            CostError::check_value(&action.name, value)?;
        }
        self.values = values.to_vec();
        Ok(self)
    }

    /// Takes this round's values of goals, one for each in declaration order.
    ///
    /// # Errors
    /// A [`CostError`] for a non-finite value or a wrong count.
    pub fn with_goal_values(mut self, values: &[f64]) -> Result<Self, CostError> {
        let goals = &self.domain.domain().goals;
        CostError::check_count("goal value", goals.len(), values.len())?;
        for (goal, &value) in goals.iter().zip(values) {
            CostError::check_value(&goal.name, value)?;
        }
        self.goal_values = values.to_vec();
        Ok(self)
    }

    /// Returns the cost of an action in this round.
    pub fn cost(&self, action: usize) -> f64 {
        self.costs.get(action).copied().unwrap_or(0.0)
    }

    /// Returns the value of an action in this round.
    pub fn value(&self, action: usize) -> f64 {
        self.values.get(action).copied().unwrap_or(0.0)
    }

    /// Returns the value of a goal in this round.
    pub fn goal_value(&self, goal: usize) -> f64 {
        self.goal_values.get(goal).copied().unwrap_or(0.0)
    }

    /// Returns the goals that are considered, in declaration order.
    pub fn goals(&self) -> Vec<usize> {
        let all = 0..self.domain.domain().goals.len();
        match &self.only_goals {
            None => all.collect(),
            Some(only) => all.filter(|goal| only.contains(goal)).collect(),
        }
    }

    /// Returns a fingerprint of all that bears on finding a plan to a goal but the start.
    pub(crate) fn terms(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.amounts.units.hash(&mut hasher);
        self.costs.iter().for_each(|cost| cost.to_bits().hash(&mut hasher));
        self.excluded.hash(&mut hasher);
        self.no_longer_assumed.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns whether an action's effect on a fact is assumed to come.
    pub(crate) fn assumes_effect(&self, action: usize, fact: FactId) -> bool {
        !self.no_longer_assumed.contains(&(action, fact))
    }
}

/// A cost or value that is no number to plan with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CostError {
    /// A cost below zero, infinite or NaN.
    #[error("the cost of `{name}` is {cost}, expected a finite number that is not below zero")]
    Cost {
        /// The action.
        name: String,
        /// Its cost.
        cost: f64,
    },
    /// A value that is infinite or NaN.
    #[error("the value of `{name}` is {value}, expected a finite number")]
    Value {
        /// The action or goal.
        name: String,
        /// Its value.
        value: f64,
    },
    /// Another number of costs or values than there are actions or goals.
    #[error("expected one {what} for each of {expected}, found {found}")]
    Count {
        /// `cost`, `value` or `goal value`.
        what: &'static str,
        /// How many there must be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
}

impl CostError {
    pub(crate) fn check_cost(name: &str, cost: f64) -> Result<(), CostError> {
        let good = cost.is_finite() && cost >= 0.0;
        if good { Ok(()) } else { Err(CostError::Cost { name: name.to_owned(), cost }) }
    }

    pub(crate) fn check_value(name: &str, value: f64) -> Result<(), CostError> {
        if value.is_finite() { Ok(()) } else { Err(CostError::Value { name: name.to_owned(), value }) }
    }

    fn check_count(what: &'static str, expected: usize, found: usize) -> Result<(), CostError> {
        if expected == found { Ok(()) } else { Err(CostError::Count { what, expected, found }) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::domain::{Action, Domain};
    use super::*;

    #[test]
    fn negative_infinite_and_missing_costs_are_refused() {
        let mut domain = Domain::new();
        domain.actions.push(Action::new("a"));
        let compiled = domain.compile().expect("a good domain");
        let problem = || Problem::new(&compiled, State::all(0, Truth::False));
        assert!(problem().with_costs(&[-0.5]).is_err());
        assert!(problem().with_costs(&[f64::NAN]).is_err());
        assert!(problem().with_costs(&[]).is_err());
        assert!(problem().with_values(&[f64::INFINITY]).is_err());
        assert_eq!(problem().with_costs(&[2.0]).map(|p| p.cost(0)), Ok(2.0));
    }
}
