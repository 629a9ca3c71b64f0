//! The type-level lookup of `object.member`, which the check of templates and exprs rests on.

use super::import::view;
use super::position::{Alternative, alternatives, of_type};
use super::types::{ObjectDef, Open, Shape, ShapeKind, TypeId, TypeKind, Types};
use serde_json::Value;

/// What is known of a member.
#[derive(Clone, Debug, PartialEq)]
pub enum Member {
    /// It may be there, with this shape.
    Known {
        /// What it holds.
        shape: Shape,
        /// True when it may be undefined: an optional field without a default, a key of a map, a field that only some
        /// of the possible types have.
        optional: bool,
    },
    /// No value of the shape has it; these are the names that there are.
    Unknown {
        /// Members there are, in declared order.
        candidates: Vec<String>,
    },
    /// Values of the shape have no members.
    NotAnObject,
    /// Nothing is known; left to run time.
    Any,
}

/// Looks up a member by name: a field, a computed member, a value of a map or open object, a discriminator, or a member
/// of the alternatives of a supertype or union.
pub fn member(types: &Types, shape: &Shape, name: &str) -> Member {
    Lookup { types, name }.shape(shape, 0)
}

/// Shapes nested deeper than this (aliases of aliases) are not followed.
const DEPTH: usize = 16;

struct Lookup<'a> {
    types: &'a Types,
    name: &'a str,
}

impl Lookup<'_> {
    fn shape(&self, shape: &Shape, depth: usize) -> Member {
        if depth > DEPTH {
            return Member::Any;
        }
        match &shape.kind {
            ShapeKind::Any => Member::Any,
            ShapeKind::Object(object) => self.object(object),
            ShapeKind::Map(value) => Member::Known { shape: (**value).clone(), optional: true },
            ShapeKind::Named(id) => match of_type(self.types, *id) {
                Some(choices) => self.choice(&choices, depth),
                None => self.own(*id, depth),
            },
            ShapeKind::OneOf(_) => self.choice(&alternatives(self.types, &shape.kind).unwrap_or_default(), depth),
            ShapeKind::Null
            | ShapeKind::String
            | ShapeKind::Integer
            | ShapeKind::Number
            | ShapeKind::Boolean
            | ShapeKind::Date
            | ShapeKind::DateTime
            | ShapeKind::Uri
            | ShapeKind::Email
            | ShapeKind::List(_)
            | ShapeKind::Enum(_) => Member::NotAnObject,
        }
    }

    fn own(&self, id: TypeId, depth: usize) -> Member {
        match &self.types.get(id).kind {
            TypeKind::Object(object) => self.object(object),
            TypeKind::Alias(shape) => self.shape(shape, depth + 1),
            TypeKind::Schema(schema) => self.shape(&view(schema), depth + 1),
            TypeKind::Enum(_) => Member::NotAnObject,
            TypeKind::Union(_) => Member::Any,
        }
    }

    fn object(&self, object: &ObjectDef) -> Member {
        if let Some(field) = object.fields.get(self.name) {
            let optional = !field.required && field.shape.constraints.default.is_none();
            return Member::Known { shape: field.shape.clone(), optional };
        }
        if object.computed.contains_key(self.name) {
            return Member::Known { shape: Shape::new(ShapeKind::Any), optional: false };
        }
        match &object.open {
            Open::Any => Member::Any,
            Open::Of(shape) => Member::Known { shape: (**shape).clone(), optional: true },
            Open::Closed => {
                Member::Unknown { candidates: object.fields.keys().chain(object.computed.keys()).cloned().collect() }
            }
        }
    }

    /// A member of one of several alternatives: certain when all have it.
    fn choice(&self, choices: &[Alternative], depth: usize) -> Member {
        let mut shapes: Vec<Shape> = Vec::new();
        let mut names: Vec<Value> = Vec::new();
        let mut candidates: Vec<String> = Vec::new();
        let (mut certain, mut any, mut objects) = (true, false, choices.is_empty());
        for choice in choices {
            let found = match choice {
                Alternative::Tagged { discriminator, id } if *discriminator == self.name => {
                    names.push(Value::from(self.types.name(*id)));
                    objects = true;
                    continue;
                }
                Alternative::Tagged { id, .. } | Alternative::Type(id) => self.own(*id, depth + 1),
                Alternative::Inline(shape) => self.shape(shape, depth + 1),
            };
            if let Alternative::Tagged { discriminator, .. } = choice {
                push_new(&mut candidates, (*discriminator).to_owned());
            }
            match found {
                Member::Known { shape, optional } => {
                    objects = true;
                    certain &= !optional;
                    push_new(&mut shapes, shape);
                }
                Member::Unknown { candidates: more } => {
                    objects = true;
                    certain = false;
                    more.into_iter().for_each(|name| push_new(&mut candidates, name));
                }
                Member::NotAnObject => certain = false,
                Member::Any => any = true,
            }
        }
        if !names.is_empty() {
            push_new(&mut shapes, Shape::new(ShapeKind::Enum(names)));
        }
        match (shapes.len(), any) {
            (_, true) => Member::Any,
            (0, false) if objects => Member::Unknown { candidates },
            (0, false) => Member::NotAnObject,
            (1, false) => Member::Known { shape: shapes.remove(0), optional: !certain },
            (_, false) => Member::Known { shape: Shape::new(ShapeKind::OneOf(shapes)), optional: !certain },
        }
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{animals, fields, integer, of_kind, string};
    use super::super::types::TypeDef;
    use super::*;

    fn known(shape: Shape, optional: bool) -> Member {
        Member::Known { shape, optional }
    }

    #[test]
    fn fields_defaults_and_computed_members() {
        let mut defaulted = integer();
        defaulted.constraints.default = Some(Value::from(3));
        let mut ticket = fields(vec![("id", string()), ("note?", string()), ("days?", defaulted.clone())]);
        ticket.computed.insert("label".to_owned(), "id".to_owned());
        let mut types = Types::default();
        let id = types.insert(TypeDef::object("Ticket", ticket));
        let look = |name: &str| member(&types, &Shape::named(id), name);
        assert_eq!(look("id"), known(string(), false));
        assert_eq!(look("note"), known(string(), true));
        assert_eq!(look("days"), known(defaulted, false));
        assert_eq!(look("label"), known(Shape::new(ShapeKind::Any), false));
        let candidates = ["id", "note", "days", "label"].map(str::to_owned).to_vec();
        assert_eq!(look("idd"), Member::Unknown { candidates });
        assert_eq!(member(&types, &string(), "id"), Member::NotAnObject);
    }

    #[test]
    fn a_supertype_has_the_members_of_its_subtypes() {
        let mut types = Types::default();
        let (animal, frog, dog) = animals(&mut types);
        let look = |name: &str| member(&types, &Shape::named(animal), name);
        assert_eq!(look("name"), known(string(), false));
        assert_eq!(look("jumps"), known(integer(), true));
        let names = ShapeKind::Enum(vec![Value::from("Frog"), Value::from("Dog")]);
        assert_eq!(look("type"), known(Shape::new(names), false));
        let candidates = ["type", "name", "jumps", "barks"].map(str::to_owned).to_vec();
        assert_eq!(look("nme"), Member::Unknown { candidates });
        assert!(matches!(member(&types, &Shape::named(frog), "type"), Member::Unknown { .. }));
        let either = Shape::new(ShapeKind::OneOf(vec![Shape::named(frog), Shape::named(dog), string()]));
        assert_eq!(member(&types, &either, "name"), known(string(), true));
    }

    #[test]
    fn maps_open_objects_and_authors_schemas() {
        let mut types = Types::default();
        let map = Shape::new(ShapeKind::Map(Box::new(integer())));
        assert_eq!(member(&types, &map, "x"), known(integer(), true));
        let open = Shape::new(ShapeKind::Object(Box::new(ObjectDef { open: Open::Any, ..ObjectDef::default() })));
        assert_eq!(member(&types, &open, "x"), Member::Any);
        let raw = serde_json::json!({"properties": {"total": {"type": "integer"}}, "additionalProperties": false});
        let invoice = of_kind(&mut types, "Invoice", TypeKind::Schema(raw));
        assert_eq!(member(&types, &Shape::named(invoice), "total"), known(integer(), true));
        assert!(matches!(member(&types, &Shape::named(invoice), "totl"), Member::Unknown { .. }));
    }

    #[test]
    fn abstract_types_without_subtypes_have_no_members() {
        let mut types = Types::default();
        let id = types.insert(TypeDef { is_abstract: true, ..TypeDef::object("Intent", ObjectDef::default()) });
        assert_eq!(member(&types, &Shape::named(id), "x"), Member::Unknown { candidates: Vec::new() });
    }
}
