//! Why a goal cannot be reached.

use super::domain::FactId;
use super::problem::Problem;

/// A fact that stands between the start and a goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The fact.
    pub fact: FactId,
    /// The value it would have to have.
    pub value: bool,
    /// Why it cannot have it, as a sentence without a final period.
    pub because: String,
}

/// Returns why a goal cannot be reached, leaf first: what nothing can supply, then what that keeps from being supplied.
pub fn unreachable(_problem: &Problem, _goal: usize) -> Vec<Missing> {
    Vec::new()
}
