//! Small type tables for the tests of this folder.

use super::types::{Field, ObjectDef, Shape, ShapeKind, TypeDef, TypeId, TypeKind, Types};

pub(super) fn string() -> Shape {
    Shape::new(ShapeKind::String)
}

pub(super) fn integer() -> Shape {
    Shape::new(ShapeKind::Integer)
}

/// A field; `name?` is optional.
pub(super) fn fields(list: Vec<(&str, Shape)>) -> ObjectDef {
    let field = |(name, shape): (&str, Shape)| {
        let required = !name.ends_with('?') && shape.constraints.default.is_none();
        (name.trim_end_matches('?').to_owned(), Field { shape, required })
    };
    ObjectDef { fields: list.into_iter().map(field).collect(), ..ObjectDef::default() }
}

pub(super) fn object(types: &mut Types, name: &str, list: Vec<(&str, Shape)>) -> TypeId {
    types.insert(TypeDef::object(name, fields(list)))
}

pub(super) fn subtype(types: &mut Types, name: &str, sup: TypeId, list: Vec<(&str, Shape)>) -> TypeId {
    types.insert(TypeDef { supertypes: vec![sup], ..TypeDef::object(name, fields(list)) })
}

pub(super) fn of_kind(types: &mut Types, name: &str, kind: TypeKind) -> TypeId {
    types.insert(TypeDef { kind, ..TypeDef::object(name, ObjectDef::default()) })
}

/// An abstract `Animal` with a `Frog` and a `Dog`.
pub(super) fn animals(types: &mut Types) -> (TypeId, TypeId, TypeId) {
    let animal = types.insert(TypeDef { is_abstract: true, ..TypeDef::object("Animal", ObjectDef::default()) });
    let frog = subtype(types, "Frog", animal, vec![("name", string()), ("jumps?", integer())]);
    let dog = subtype(types, "Dog", animal, vec![("name", string()), ("barks?", Shape::new(ShapeKind::Boolean))]);
    (animal, frog, dog)
}
