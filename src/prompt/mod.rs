//! Templates and expressions (language.md 2): rendering, evaluation, three-valued truth and the static type check.
//!
//! Two halves meet here. [`Templates`] is the run-time half: one minijinja environment per compiled program, built
//! once and immutable. [`check_template`] and [`check_expr`] are the load-time half: they walk the same syntax trees
//! against declared types and report [`Finding`]s whose ranges are exact offsets in the checked text. Everything that
//! knows minijinja's syntax trees is in [`ast`].

pub mod ast;
mod branches;
pub mod check;
mod concat;
pub mod data;
pub mod error;
pub mod files;
pub mod filters;
pub mod finding;
pub mod flow;
pub mod resolved;
pub mod scope;
pub mod syntax;
pub mod templates;
pub mod text;
pub mod truth;
pub mod uses;
pub mod value;
pub mod vars;

pub use branches::{Arm, Branch, Reach};
pub use check::{check_data, check_expr, check_template};
pub use data::{Data, DataFault};
pub use error::RenderError;
pub use files::Files;
pub use finding::{Checked, Finding, Place};
pub use flow::assignable;
pub use resolved::{resolved_form, split_not};
pub use scope::{Position, Scope, Ty};
pub use syntax::SyntaxFault;
pub use templates::{ExprId, TemplateId, Templates, TemplatesBuilder};
pub use truth::Truth;
pub use value::{from_json, list_value, map_value, object_value, shaped_value, to_json};
pub use vars::{MapVars, Over, Var, Vars};

#[cfg(test)]
mod tests;
