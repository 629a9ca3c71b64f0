//! What an action puts on the blackboard, and the parts of a type that a model is asked for.

use super::describe::describe;
use super::schema::{schema_of, some_of};
use super::types::{ObjectDef, Shape, ShapeKind, TypeId, TypeKind, Types};
use serde_json::{Map, Value};

/// The declared output of an action, a tool with `publish`, or a body (language.md 4).
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// How many objects of which types.
    pub kind: OutputKind,
    /// The name that the object is bound under, when the author gives one (`{type: T, name: x}`).
    pub name: Option<String>,
}

/// How many objects of which types come.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputKind {
    /// `T`: one object of the type; of a supertype or union one object of a concrete type.
    One(TypeId),
    /// `T?`: one object, or null when nothing came.
    Optional(TypeId),
    /// `list<T>`: one object per element.
    List(TypeId),
    /// `[A, B]`: some of them.
    SomeOf(Vec<TypeId>),
    /// None: an effect only.
    None,
}

impl Output {
    /// An output without a name of its own.
    pub fn new(kind: OutputKind) -> Output {
        Output { kind, name: None }
    }

    /// The shape of the value that a body must give; null alone for an action without output.
    pub fn shape(&self, types: &Types) -> Shape {
        match &self.kind {
            OutputKind::One(id) => Shape::named(*id),
            OutputKind::Optional(id) => {
                Shape::new(ShapeKind::OneOf(vec![Shape::named(*id), Shape::new(ShapeKind::Null)]))
            }
            OutputKind::List(id) => Shape::list(Shape::named(*id)),
            OutputKind::SomeOf(ids) => some_of(types, ids),
            OutputKind::None => Shape::new(ShapeKind::Null),
        }
    }

    /// The JSON Schema of the value that a body must give.
    pub fn schema(&self, types: &Types) -> Value {
        schema_of(types, &self.shape(types))
    }

    /// The types it names, in the order written.
    pub fn types(&self) -> &[TypeId] {
        match &self.kind {
            OutputKind::One(id) | OutputKind::Optional(id) | OutputKind::List(id) => std::slice::from_ref(id),
            OutputKind::SomeOf(ids) => ids,
            OutputKind::None => &[],
        }
    }

    /// The output as an author writes it.
    pub fn describe(&self, types: &Types) -> String {
        match &self.kind {
            OutputKind::One(id) => types.name(*id).to_owned(),
            OutputKind::Optional(id) => format!("{}?", types.name(*id)),
            OutputKind::List(id) => describe(types, &Shape::list(Shape::named(*id))),
            OutputKind::SomeOf(ids) => {
                format!("[{}]", ids.iter().map(|id| types.name(*id)).collect::<Vec<_>>().join(", "))
            }
            OutputKind::None => "nothing".to_owned(),
        }
    }
}

/// The shape of some fields of an object type (`only: […]`), in the type's order and without its rules, which need the
/// whole object.
///
/// # Errors
/// Says which field the type does not have, or that the type has no fields.
pub fn subset(types: &Types, id: TypeId, only: &[String]) -> Result<Shape, String> {
    let def = types.get(id);
    let TypeKind::Object(object) = &def.kind else {
        return Err(format!("`{}` has no fields to choose from", def.name));
    };
    if let Some(unknown) = only.iter().find(|name| !object.fields.contains_key(name.as_str())) {
        return Err(format!("`{}` has no field `{unknown}`", def.name));
    }
    let fields = object.fields.iter().filter(|(name, _)| only.contains(name));
    let part = ObjectDef {
        fields: fields.map(|(name, field)| (name.clone(), field.clone())).collect(),
        open: object.open.clone(),
        ..ObjectDef::default()
    };
    let mut shape = Shape::new(ShapeKind::Object(Box::new(part)));
    shape.constraints.description = def.description.clone();
    Ok(shape)
}

/// An object of the concrete type `id` as it looks where `expected` is asked for: with the discriminator of `expected`
/// first when that is a supertype or union, and without any discriminator otherwise.
pub fn present(types: &Types, expected: TypeId, id: TypeId, value: Value) -> Value {
    let Value::Object(mut map) = value else { return value };
    let def = types.get(id);
    for sup in types.supertypes(id).into_iter().chain([id]) {
        let member = types.get(sup).discriminator.as_str();
        if map.get(member).and_then(Value::as_str) == Some(&def.name) && !has_field(types, id, member) {
            map.shift_remove(member);
        }
    }
    if !types.is_polymorphic(expected) {
        return Value::Object(map);
    }
    let mut object = Map::from_iter([(types.get(expected).discriminator.clone(), Value::from(def.name.as_str()))]);
    object.extend(map);
    Value::Object(object)
}

pub(super) fn has_field(types: &Types, id: TypeId, name: &str) -> bool {
    types.get(id).fields().is_some_and(|fields| fields.contains_key(name))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{animals, integer, object, string};
    use super::*;
    use serde_json::json;

    #[test]
    fn outputs_are_described_as_they_are_written() {
        let mut types = Types::default();
        let (animal, frog, dog) = animals(&mut types);
        let text = |kind: OutputKind| Output::new(kind).describe(&types);
        assert_eq!(text(OutputKind::Optional(animal)), "Animal?");
        assert_eq!(text(OutputKind::List(frog)), "list<Frog>");
        assert_eq!(text(OutputKind::SomeOf(vec![frog, dog])), "[Frog, Dog]");
        assert_eq!(Output::new(OutputKind::None).schema(&types), json!({"type": "null"}));
        assert_eq!(
            Output::new(OutputKind::Optional(frog)).schema(&types).pointer("/anyOf/1"),
            Some(&json!({"type": "null"}))
        );
    }

    #[test]
    fn a_subset_keeps_the_order_of_the_type() {
        let mut types = Types::default();
        let id = object(&mut types, "Page", vec![("title", string()), ("size", integer()), ("text?", string())]);
        let shape = subset(&types, id, &["text".to_owned(), "title".to_owned()]);
        let properties = shape.map(|shape| schema_of(&types, &shape)["properties"].to_string());
        assert_eq!(properties, Ok(r#"{"title":{"type":"string"},"text":{"type":["string","null"]}}"#.to_owned()));
        assert_eq!(subset(&types, id, &["sise".to_owned()]).err().as_deref(), Some("`Page` has no field `sise`"));
    }

    #[test]
    fn objects_are_presented_with_a_discriminator_only_where_it_is_asked_for() {
        let mut types = Types::default();
        let (animal, frog, _) = animals(&mut types);
        let plain = json!({"name": "x"});
        let tagged = json!({"type": "Frog", "name": "x"});
        assert_eq!(present(&types, animal, frog, plain.clone()).to_string(), tagged.to_string());
        assert_eq!(present(&types, animal, frog, tagged.clone()), tagged);
        assert_eq!(present(&types, frog, frog, tagged), plain);
    }
}
