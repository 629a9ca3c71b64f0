//! The domain for other planners.

use super::problem::Problem;

/// A domain file and a problem file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pddl {
    /// Text of the domain file.
    pub domain: String,
    /// Text of the problem file.
    pub problem: String,
}

/// Returns a problem, for one goal, in PDDL.
pub fn export(_problem: &Problem, _goal: usize) -> Pddl {
    Pddl { domain: String::new(), problem: String::new() }
}
