//! Types of the domain: their table, their JSON Schemas, validation and samples.

pub mod describe;
#[cfg(test)]
mod fixture;
pub mod import;
mod keywords;
pub mod member;
pub mod output;
mod position;
pub mod raw;
pub mod sample;
pub mod schema;
pub mod types;
pub mod validate;

pub use describe::describe;
pub use import::{at_pointer, check_schema, view};
pub use member::{Member, member};
pub use output::{Output, OutputKind, present, subset};
pub use raw::RawSchema;
pub use sample::sample;
pub use schema::{schema_of, schema_of_list, schema_of_some_of, schema_of_type};
pub use types::{
    BUILT_IN, Constraints, Field, ObjectDef, Open, Rule, Shape, ShapeKind, TypeDef, TypeId, TypeKind, Types, snake_case,
};
pub use validate::{
    NoRules, RuleEval, Tags, VALUE_DEPTH_MAX, Valid, Validators, Violation, depth_at_most, form_violations,
};

#[cfg(test)]
mod properties;
