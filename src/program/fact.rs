//! Facts: what a planning domain is made of (runtime.md 1).

use super::Input;
use crate::prompt::ExprId;
use crate::value::TypeId;

/// The meaning of one fact of an agent's domain.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// `has(T)`, or `has(T, n)`: at least `count` objects of the type or a subtype are visible.
    Has {
        /// The type.
        type_id: TypeId,
        /// How many.
        count: u32,
    },
    /// `has(name: T)`: a visible one is bound under that name.
    HasNamed {
        /// The name.
        name: String,
        /// The type.
        type_id: TypeId,
    },
    /// `ran(action)`: the action has completed.
    Ran(usize),
    /// `newest(T)`: the newest visible object is a T.
    Newest(TypeId),
    /// `in(S)`: the process is in state S.
    In(TypeId),
    /// A condition, by its index in `Agent::conditions`.
    Condition(usize),
    /// An expr of a `pre` or `when`, without the `not` before it.
    Expr {
        /// The expr.
        id: ExprId,
        /// Inputs of the action that the expr uses under their own names; they are bound as for the action. Every other
        /// variable is a condition, `config`, `process`, or a type by its default name.
        inputs: Vec<Input>,
        /// Types that it mentions, directly or through conditions.
        mentions: Vec<TypeId>,
        /// The state whose fields it uses; in another one it is unknown.
        state: Option<TypeId>,
    },
}
