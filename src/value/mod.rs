//! Types of the domain: their table, their JSON Schemas, validation and samples.

pub mod types;

pub use types::{
    BUILT_IN, Constraints, Field, ObjectDef, Open, Rule, Shape, ShapeKind, TypeDef, TypeId, TypeKind, Types, snake_case,
};
