//! What may stand in one place: the concrete alternatives of a supertype, a union or an inline `one_of`.
//!
//! Schemas, validation, samples and member lookup all ask here, so that they agree on where a discriminator is needed.

use super::types::{Shape, ShapeKind, TypeDef, TypeId, TypeKind, Types};
use serde_json::Value;

/// The discriminator of an inline `one_of`, which has no declaration that could rename it.
pub(super) const DISCRIMINATOR: &str = "type";

/// One thing that may stand in a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Alternative<'a> {
    /// An object of a declared type whose member `discriminator` holds the type's name.
    Tagged { discriminator: &'a str, id: TypeId },
    /// A value of a declared type that is not an object, such as a named scalar.
    Type(TypeId),
    /// A value of an inline shape.
    Inline(&'a Shape),
}

/// The alternatives of a place, or none when there is nothing to choose from.
pub(super) fn alternatives<'a>(types: &'a Types, kind: &'a ShapeKind) -> Option<Vec<Alternative<'a>>> {
    match kind {
        ShapeKind::Named(id) => of_type(types, *id),
        ShapeKind::OneOf(shapes) => Some(of_shapes(types, shapes)),
        ShapeKind::Any
        | ShapeKind::Null
        | ShapeKind::String
        | ShapeKind::Integer
        | ShapeKind::Number
        | ShapeKind::Boolean
        | ShapeKind::Date
        | ShapeKind::DateTime
        | ShapeKind::Uri
        | ShapeKind::Email
        | ShapeKind::List(_)
        | ShapeKind::Map(_)
        | ShapeKind::Enum(_)
        | ShapeKind::Object(_) => None,
    }
}

/// The alternatives of a declared type, or none when only its own objects may stand for it.
pub(super) fn of_type(types: &Types, id: TypeId) -> Option<Vec<Alternative<'_>>> {
    let concrete = types.concrete(id);
    let def = types.get(id);
    if !def.is_abstract && !matches!(def.kind, TypeKind::Union(_)) && concrete.len() <= 1 {
        return None;
    }
    Some(concrete.into_iter().map(|sub| tagged(types, sub, &def.discriminator)).collect())
}

fn of_shapes<'a>(types: &'a Types, shapes: &'a [Shape]) -> Vec<Alternative<'a>> {
    let choices = shapes.iter().filter(|shape| shape.kind != ShapeKind::Null).count();
    let mut found: Vec<Alternative<'a>> = Vec::new();
    for shape in shapes {
        let more = match shape.kind {
            ShapeKind::Named(id) if choices > 1 && shape.constraints.keywords.is_empty() => {
                of_type(types, id).unwrap_or_else(|| vec![tagged(types, id, DISCRIMINATOR)])
            }
            _ => vec![Alternative::Inline(shape)],
        };
        for alternative in more {
            if !found.contains(&alternative) {
                found.push(alternative);
            }
        }
    }
    found
}

fn tagged<'a>(types: &Types, id: TypeId, discriminator: &'a str) -> Alternative<'a> {
    if carries_tag(types.get(id)) { Alternative::Tagged { discriminator, id } } else { Alternative::Type(id) }
}

/// True when the values of a type are objects, which can carry a discriminator.
pub(super) fn carries_tag(def: &TypeDef) -> bool {
    match &def.kind {
        TypeKind::Object(_) => true,
        TypeKind::Schema(schema) => is_object_schema(schema),
        TypeKind::Alias(_) | TypeKind::Enum(_) | TypeKind::Union(_) => false,
    }
}

fn is_object_schema(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(_) => false,
        None => schema.get("enum").is_none() && schema.get("const").is_none() && schema.is_object(),
    }
}

/// True when null is a value of the shape.
pub(super) fn accepts_null(types: &Types, shape: &Shape) -> bool {
    accepts_null_within(types, shape, 16)
}

fn accepts_null_within(types: &Types, shape: &Shape, depth: usize) -> bool {
    if depth == 0 || ["const", "enum", "type"].iter().any(|keyword| shape.constraints.keywords.contains_key(*keyword)) {
        return false;
    }
    match &shape.kind {
        ShapeKind::Any | ShapeKind::Null => true,
        ShapeKind::Enum(values) => values.contains(&Value::Null),
        ShapeKind::OneOf(shapes) => shapes.iter().any(|shape| accepts_null_within(types, shape, depth - 1)),
        ShapeKind::Named(id) => match &types.get(*id).kind {
            TypeKind::Alias(shape) => accepts_null_within(types, shape, depth - 1),
            TypeKind::Enum(values) => values.contains(&Value::Null),
            TypeKind::Union(members) => {
                members.iter().any(|member| accepts_null_within(types, &Shape::named(*member), depth - 1))
            }
            TypeKind::Object(_) | TypeKind::Schema(_) => false,
        },
        ShapeKind::String
        | ShapeKind::Integer
        | ShapeKind::Number
        | ShapeKind::Boolean
        | ShapeKind::Date
        | ShapeKind::DateTime
        | ShapeKind::Uri
        | ShapeKind::Email
        | ShapeKind::List(_)
        | ShapeKind::Map(_)
        | ShapeKind::Object(_) => false,
    }
}
