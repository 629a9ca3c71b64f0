//! The planner: pure, synchronous and deterministic; it knows nothing of models, files or async.
//!
//! A [`Domain`] holds facts, actions and goals; [`Domain::compile`] checks and prepares it once, and the [`Compiled`]
//! domain is shared by every process and every replan. A [`Problem`] adds what changes between planning steps: the start
//! [`State`], costs and values of this round, what is excluded or no longer assumed. [`plan()`] answers it with the best
//! plan, with the proof that there is none, or with the limit that was reached; never with a guess.
//!
//! There is no clock here: a time limit is a function that says when to stop ([`Limits::stop`]).

pub mod alternatives;
mod amount;
mod domain;
pub mod explain;
pub mod pddl;
mod plan;
mod problem;
mod search;
pub mod solve;
mod state;
mod utility;
mod validate;

pub use alternatives::alternatives;
pub use domain::{Action, Compiled, Domain, DomainError, Effect, FactId, Goal};
pub use plan::{Limit, Outcome, Plan, Proof, Reached, Step, Supplier, Support};
pub use problem::{CostError, Limits, Problem};
pub use search::{continue_plan, plan, plan_goal};
pub use state::{State, Truth};
pub use utility::{Candidate, applicable_now, brings_news, candidates, goal_reached, utility_step};
pub use validate::{Invalid, validate, validate_in};
