//! The one lowering of types to JSON Schema 2020-12 (language.md 3), used for validation by others, structured output,
//! tool parameters, forms and docs.
//!
//! Every declared type becomes an entry of `$defs` first; then entries that are used once and do not refer to
//! themselves are put where they are used, because models read a nested schema better than a chain of references.

use super::import;
use super::keywords::{ANNOTATIONS, children, children_mut};
use super::position::{Alternative, accepts_null, alternatives, of_type};
use super::types::{Constraints, Field, ObjectDef, Open, Shape, ShapeKind, TypeId, TypeKind, Types, snake_case};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

const POINTER: &str = "#/$defs/";

/// The JSON Schema of a shape: self-contained, in a stable order, without `$schema`.
pub fn schema_of(types: &Types, shape: &Shape) -> Value {
    if let ShapeKind::Named(id) = shape.kind
        && let TypeKind::Schema(raw) = &types.get(id).kind
        && of_type(types, id).is_none()
    {
        // The author's schema alone needs no relocation: its pointers start at its own root.
        let own = import::embedded(raw, "#");
        return described(annotated(own, &shape.constraints), types.get(id).description.as_deref());
    }
    let mut lowering = Lowering { types, defs: IndexMap::new() };
    let root = lowering.shape(shape);
    lowering.finish(root)
}

/// The JSON Schema of a declared type.
pub fn schema_of_type(types: &Types, id: TypeId) -> Value {
    schema_of(types, &Shape::named(id))
}

/// The JSON Schema of a list of objects of a type.
pub fn schema_of_list(types: &Types, id: TypeId) -> Value {
    schema_of(types, &Shape::list(Shape::named(id)))
}

/// The JSON Schema of "some of" the types: an object with one optional member for each, by its default name; a member
/// that is absent or null did not come.
pub fn schema_of_some_of(types: &Types, ids: &[TypeId]) -> Value {
    schema_of(types, &some_of(types, ids))
}

/// The inline object with one optional member per type, by default name.
pub(super) fn some_of(types: &Types, ids: &[TypeId]) -> Shape {
    let member = |id: &TypeId| (snake_case(types.name(*id)), Field { shape: Shape::named(*id), required: false });
    let object = ObjectDef { fields: ids.iter().map(member).collect(), ..ObjectDef::default() };
    Shape::new(ShapeKind::Object(Box::new(object)))
}

/// One lowering: the definitions so far, by key in order of first use. A definition that is under way is null.
struct Lowering<'a> {
    types: &'a Types,
    defs: IndexMap<String, Value>,
}

impl Lowering<'_> {
    fn shape(&mut self, shape: &Shape) -> Value {
        let base = match &shape.kind {
            ShapeKind::Any => json!({}),
            ShapeKind::Null => json!({"type": "null"}),
            ShapeKind::String => json!({"type": "string"}),
            ShapeKind::Integer => json!({"type": "integer"}),
            ShapeKind::Number => json!({"type": "number"}),
            ShapeKind::Boolean => json!({"type": "boolean"}),
            ShapeKind::Date => json!({"type": "string", "format": "date"}),
            ShapeKind::DateTime => json!({"type": "string", "format": "date-time"}),
            ShapeKind::Uri => json!({"type": "string", "format": "uri"}),
            ShapeKind::Email => json!({"type": "string", "format": "email"}),
            ShapeKind::Named(id) => self.named(*id),
            ShapeKind::List(element) => json!({"type": "array", "items": self.shape(element)}),
            ShapeKind::Map(value) => json!({"type": "object", "additionalProperties": self.shape(value)}),
            ShapeKind::Enum(values) => enumeration(values),
            ShapeKind::OneOf(_) => {
                let types = self.types;
                self.any_of(&alternatives(types, &shape.kind).unwrap_or_default())
            }
            ShapeKind::Object(object) => self.object(object, None),
        };
        annotated(base, &shape.constraints)
    }

    /// A reference to the definition of a type, which is made when it is first needed.
    fn named(&mut self, id: TypeId) -> Value {
        let types = self.types;
        let key = types.name(id).to_owned();
        self.define(key, |lowering, key| match of_type(types, id) {
            Some(alternatives) => {
                let choice = lowering.any_of(&alternatives);
                described(choice, types.get(id).description.as_deref())
            }
            None => lowering.own(id, None, key),
        })
    }

    fn any_of(&mut self, alternatives: &[Alternative]) -> Value {
        let mut schemas: Vec<Value> = alternatives.iter().map(|alternative| self.alternative(alternative)).collect();
        match schemas.len() {
            0 => json!({"not": {}}),
            1 => schemas.remove(0),
            _ => json!({ "anyOf": schemas }),
        }
    }

    fn alternative(&mut self, alternative: &Alternative) -> Value {
        match alternative {
            Alternative::Inline(shape) => self.shape(shape),
            Alternative::Type(id) => {
                let key = self.free_key(*id, "value");
                self.define(key, |lowering, key| lowering.own(*id, None, key))
            }
            Alternative::Tagged { discriminator, id } => {
                let key = self.free_key(*id, discriminator);
                self.define(key, |lowering, key| lowering.own(*id, Some(discriminator), key))
            }
        }
    }

    /// The key of a second definition of a type, such as the one with its discriminator: never a declared name.
    fn free_key(&self, id: TypeId, suffix: &str) -> String {
        let mut key = format!("{}_{suffix}", self.types.name(id));
        while self.types.id(&key).is_some() {
            key.push('_');
        }
        key
    }

    fn define(&mut self, key: String, make: impl FnOnce(&mut Self, &str) -> Value) -> Value {
        let reference = json!({ "$ref": format!("{POINTER}{}", import::escaped(&key)) });
        if !self.defs.contains_key(&key) {
            self.defs.insert(key.clone(), Value::Null);
            let made = make(self, &key);
            self.defs.insert(key, made);
        }
        reference
    }

    /// The schema of a type's own values, subtypes apart, with the discriminator when one is asked for.
    fn own(&mut self, id: TypeId, discriminator: Option<&str>, key: &str) -> Value {
        let types = self.types;
        let def = types.get(id);
        let tag = discriminator.map(|member| (member, def.name.as_str()));
        let schema = match &def.kind {
            TypeKind::Object(object) => self.object(object, tag),
            TypeKind::Alias(shape) => self.shape(shape),
            TypeKind::Enum(values) => enumeration(values),
            TypeKind::Schema(raw) => {
                tagged_raw(import::embedded(raw, &format!("{POINTER}{}", import::escaped(key))), tag)
            }
            TypeKind::Union(_) => json!({"not": {}}),
        };
        described(schema, def.description.as_deref())
    }

    fn object(&mut self, object: &ObjectDef, tag: Option<(&str, &str)>) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        if let Some((member, name)) = tag {
            properties.insert(member.to_owned(), json!({"type": "string", "const": name}));
            required.push(json!(member));
        }
        for (name, field) in &object.fields {
            let mut schema = self.shape(&field.shape);
            if field.required {
                required.push(json!(name));
            } else if !accepts_null(self.types, &field.shape) {
                schema = nullable(schema);
            }
            properties.insert(name.clone(), schema);
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(required));
        }
        match &object.open {
            Open::Closed => drop(schema.insert("additionalProperties".to_owned(), Value::Bool(false))),
            Open::Any => drop(schema.insert("additionalProperties".to_owned(), Value::Bool(true))),
            Open::Of(shape) => drop(schema.insert("additionalProperties".to_owned(), self.shape(shape))),
        }
        Value::Object(schema)
    }

    /// Puts definitions that are used once in their places, and the others under `$defs` of the root.
    fn finish(self, root: Value) -> Value {
        let mut inlining = Inlining { uses: IndexMap::new(), defs: self.defs };
        inlining.count(&root);
        for def in inlining.defs.clone().values() {
            inlining.count(def);
        }
        let mut root = root;
        inlining.root(&mut root);
        inlining.inline(&mut root);
        let keys: Vec<String> = inlining.defs.keys().cloned().collect();
        for key in keys {
            if let Some(mut def) = inlining.defs.get_mut(&key).map(Value::take) {
                inlining.inline(&mut def);
                inlining.defs.insert(key, def);
            }
        }
        inlining.defs.retain(|_, def| !def.is_null());
        if !inlining.defs.is_empty()
            && let Value::Object(map) = &mut root
        {
            map.insert("$defs".to_owned(), Value::Object(inlining.defs.into_iter().collect()));
        }
        root
    }
}

/// The pass that removes needless definitions. A definition that has been put in its place, or is being worked on, is null.
struct Inlining {
    uses: IndexMap<String, usize>,
    defs: IndexMap<String, Value>,
}

impl Inlining {
    fn count(&mut self, schema: &Value) {
        let Value::Object(map) = schema else { return };
        if let Some((key, inside)) = target(map) {
            // A pointer into a definition keeps that definition where it is.
            *self.uses.entry(key).or_insert(0) += if inside { 2 } else { 1 };
        }
        let mut below = Vec::new();
        children(map, &mut |_, child| below.push(child));
        below.into_iter().for_each(|child| self.count(child));
    }

    /// A root that is only a reference becomes what it refers to: many consumers want an object there.
    fn root(&mut self, root: &mut Value) {
        let Value::Object(map) = &*root else { return };
        let Some((key, false)) = target(map) else { return };
        if let Some(def) = self.defs.get(&key)
            && let Some(merged) = merged(map, def)
        {
            if self.uses.get(&key).is_some_and(|uses| *uses > 1) {
                // The definition stays, so that what it refers to is used once more by the copy.
                self.count(&merged);
            } else {
                self.defs.insert(key, Value::Null);
            }
            *root = merged;
        }
    }

    fn inline(&mut self, schema: &mut Value) {
        let Value::Object(map) = &*schema else { return };
        if let Some((key, false)) = target(map)
            && self.uses.get(&key) == Some(&1)
            && let Some(def) = self.defs.get(&key)
            && let Some(merged) = merged(map, def)
        {
            *schema = merged;
            self.defs.insert(key, Value::Null);
            self.inline(schema);
            return;
        }
        if let Value::Object(map) = schema {
            children_mut(map, &mut |child| self.inline(child));
        }
    }
}

/// The definition that a schema refers to, and whether it points inside it.
fn target(schema: &Map<String, Value>) -> Option<(String, bool)> {
    let rest = schema.get("$ref")?.as_str()?.strip_prefix(POINTER)?;
    let (key, inside) = rest.split_once('/').map_or((rest, false), |(key, _)| (key, true));
    Some((import::unescaped(key), inside))
}

/// A definition with what stands beside the reference to it, or none where both say something of the same keyword.
fn merged(reference: &Map<String, Value>, def: &Value) -> Option<Value> {
    let Value::Object(def) = def else { return None };
    let mut merged = def.clone();
    for (keyword, value) in reference.iter().filter(|(keyword, _)| *keyword != "$ref") {
        if merged.insert(keyword.clone(), value.clone()).is_some() && !ANNOTATIONS.contains(&keyword.as_str()) {
            return None;
        }
    }
    Some(Value::Object(merged))
}

fn enumeration(values: &[Value]) -> Value {
    if !values.is_empty() && values.iter().all(Value::is_string) {
        return json!({"type": "string", "enum": values});
    }
    json!({ "enum": values })
}

fn annotated(schema: Value, constraints: &Constraints) -> Value {
    let Value::Object(mut map) = schema else { return schema };
    if let Some(description) = &constraints.description {
        map.insert("description".to_owned(), json!(description));
    }
    map.extend(constraints.keywords.iter().map(|(keyword, value)| (keyword.clone(), value.clone())));
    if let Some(default) = &constraints.default {
        map.insert("default".to_owned(), default.clone());
    }
    Value::Object(map)
}

/// Adds a type's description, unless the schema brings its own.
fn described(mut schema: Value, description: Option<&str>) -> Value {
    if let (Value::Object(map), Some(description)) = (&mut schema, description) {
        map.entry("description").or_insert_with(|| json!(description));
    }
    schema
}

/// The schema that also accepts null.
fn nullable(schema: Value) -> Value {
    let Value::Object(mut map) = schema else { return schema };
    let plain = !["const", "$ref", "anyOf", "allOf", "oneOf", "not", "if"].iter().any(|key| map.contains_key(*key));
    if plain && let Some(Value::String(name)) = map.get("type").cloned() {
        map.insert("type".to_owned(), json!([name, "null"]));
        if let Some(Value::Array(values)) = map.get_mut("enum") {
            values.push(Value::Null);
        }
        return Value::Object(map);
    }
    let annotations: Map<String, Value> =
        ANNOTATIONS.iter().filter_map(|keyword| Some(((*keyword).to_owned(), map.shift_remove(*keyword)?))).collect();
    let null_schema = json!({"type": "null"});
    let alone = map.len() == 1;
    let mut choice = match map.get_mut("anyOf") {
        Some(Value::Array(choices)) if alone => {
            choices.push(null_schema);
            map
        }
        _ => Map::from_iter([("anyOf".to_owned(), json!([map, null_schema]))]),
    };
    choice.extend(annotations);
    Value::Object(choice)
}

/// Adds a discriminator to the author's own schema.
fn tagged_raw(schema: Value, tag: Option<(&str, &str)>) -> Value {
    let Some((member, name)) = tag else { return schema };
    let Value::Object(mut map) = schema else { return schema };
    let own = match map.shift_remove("properties") {
        Some(Value::Object(own)) => own,
        _ => Map::new(),
    };
    let mut properties = Map::from_iter([(member.to_owned(), json!({"type": "string", "const": name}))]);
    properties.extend(own);
    let mut required = vec![json!(member)];
    if let Some(Value::Array(own)) = map.shift_remove("required") {
        required.extend(own);
    }
    map.insert("type".to_owned(), json!("object"));
    map.insert("properties".to_owned(), Value::Object(properties));
    map.insert("required".to_owned(), Value::Array(required));
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{animals, fields, integer, object, of_kind, string};
    use super::super::types::{TypeDef, Types};
    use super::*;

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().into_iter().flat_map(|map| map.keys().map(String::as_str)).collect()
    }

    #[test]
    fn objects_are_closed_and_optional_fields_nullable() {
        let mut types = Types::default();
        let mut days = integer().with("maximum", 14).described("How many");
        days.constraints.default = Some(json!(3));
        let id = object(&mut types, "Query", vec![("city", string()), ("days?", days)]);
        assert_eq!(
            schema_of_type(&types, id),
            json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": ["integer", "null"], "description": "How many", "maximum": 14, "default": 3},
                },
                "required": ["city"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn a_type_used_once_is_nested_and_one_used_twice_is_a_definition() {
        let mut types = Types::default();
        let street = object(&mut types, "Street", vec![("name", string())]);
        let address = object(&mut types, "Address", vec![("street", Shape::named(street))]);
        let once = object(&mut types, "Once", vec![("home", Shape::named(address).described("Where"))]);
        let schema = schema_of_type(&types, once);
        assert!(schema.get("$defs").is_none(), "{schema}");
        assert_eq!(schema.pointer("/properties/home/description"), Some(&json!("Where")));
        assert_eq!(schema.pointer("/properties/home/properties/street/properties/name/type"), Some(&json!("string")));

        let twice =
            object(&mut types, "Twice", vec![("home", Shape::named(address)), ("work?", Shape::named(address))]);
        let schema = schema_of_type(&types, twice);
        assert_eq!(schema.pointer("/properties/home"), Some(&json!({"$ref": "#/$defs/Address"})));
        assert_eq!(
            schema.pointer("/properties/work"),
            Some(&json!({"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]}))
        );
        assert_eq!(keys(&schema["$defs"]), ["Address"]);
    }

    #[test]
    fn a_recursive_type_refers_to_its_definition_and_stays_an_object_at_the_root() {
        let mut types = Types::default();
        let node = object(&mut types, "Node", vec![]);
        object(&mut types, "Node", vec![("children", Shape::list(Shape::named(node)))]);
        let schema = schema_of_type(&types, node);
        assert_eq!(schema["type"], "object");
        assert_eq!(schema.pointer("/properties/children/items/$ref"), Some(&json!("#/$defs/Node")));
        assert_eq!(schema.pointer("/$defs/Node/properties/children/items/$ref"), Some(&json!("#/$defs/Node")));
    }

    #[test]
    fn what_a_recursive_root_refers_to_is_still_defined() {
        let mut types = Types::default();
        let meta = object(&mut types, "Meta", vec![("x", string())]);
        let node = object(&mut types, "Node", vec![]);
        object(
            &mut types,
            "Node",
            vec![("meta", Shape::named(meta)), ("one?", Shape::named(node)), ("two?", Shape::named(node))],
        );
        let schema = schema_of_type(&types, node);
        assert_eq!(schema.pointer("/properties/meta/$ref"), Some(&json!("#/$defs/Meta")));
        assert!(schema.pointer("/$defs/Meta/properties/x").is_some(), "{schema}");
    }

    #[test]
    fn subtypes_carry_their_name_where_the_supertype_is_expected() {
        let mut types = Types::default();
        let (animal, frog, _) = animals(&mut types);
        let schema = schema_of_type(&types, animal);
        assert_eq!(
            schema.pointer("/anyOf/0"),
            Some(&json!({
                "type": "object",
                "properties": {
                    "type": {"type": "string", "const": "Frog"},
                    "name": {"type": "string"},
                    "jumps": {"type": ["integer", "null"]},
                },
                "required": ["type", "name"],
                "additionalProperties": false,
            }))
        );
        assert_eq!(schema.pointer("/anyOf/1/properties/type/const"), Some(&json!("Dog")));
        assert!(schema_of_type(&types, frog).pointer("/properties/type").is_none());
    }

    #[test]
    fn an_inline_union_of_types_carries_names_and_a_nullable_type_does_not() {
        let types = Types::with_built_ins();
        let conversation = types.id("Conversation").unwrap_or(TypeId(0));
        let schema = schema_of_type(&types, conversation);
        let one = schema.pointer("/properties/messages/items/anyOf/1/properties/type/const");
        assert_eq!(one, Some(&json!("AssistantMessage")));
        let input = types.id("UserInput").unwrap_or(TypeId(0));
        let nullable = Shape::new(ShapeKind::OneOf(vec![Shape::named(input), Shape::new(ShapeKind::Null)]));
        let schema = schema_of(&types, &nullable);
        assert!(schema.pointer("/anyOf/0/properties/type").is_none(), "{schema}");
        assert_eq!(schema.pointer("/anyOf/1"), Some(&json!({"type": "null"})));
    }

    #[test]
    fn discriminators_are_named_by_the_supertype() {
        let mut types = Types::default();
        let (animal, ..) = animals(&mut types);
        let renamed = TypeDef { discriminator: "kind".to_owned(), ..types.get(animal).clone() };
        types.insert(renamed);
        let schema = schema_of_type(&types, animal);
        assert_eq!(schema.pointer("/anyOf/0/required/0"), Some(&json!("kind")));
    }

    #[test]
    fn an_authors_schema_keeps_its_references_wherever_it_stands() {
        let mut types = Types::default();
        let raw = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/invoice",
            "type": "object",
            "properties": {"lines": {"type": "array", "items": {"$ref": "#/definitions/line"}}, "again": {"$ref": "#"}},
            "definitions": {"line": {"type": "integer"}},
        });
        let invoice = of_kind(&mut types, "Invoice", TypeKind::Schema(raw));
        let alone = schema_of_type(&types, invoice);
        assert_eq!(alone.pointer("/properties/again/$ref"), Some(&json!("#")));
        let schema = schema_of_list(&types, invoice);
        assert_eq!(schema["items"], json!({"$ref": "#/$defs/Invoice"}));
        let place = schema.pointer("/$defs/Invoice/properties/lines/items/$ref");
        assert_eq!(place, Some(&json!("#/$defs/Invoice/definitions/line")));
        let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string());
        let validator = validator.as_ref().map_err(String::as_str);
        let verdict = |value: Value| validator.map(|validator| validator.is_valid(&value));
        assert_eq!(verdict(json!([{"lines": [1], "again": {"lines": [2]}}])), Ok(true));
        assert_eq!(verdict(json!([{"again": {"lines": ["x"]}}])), Ok(false));
    }

    #[test]
    fn some_of_is_an_object_with_one_optional_member_per_type() {
        let mut types = Types::default();
        let (_, frog, dog) = animals(&mut types);
        let schema = schema_of_some_of(&types, &[frog, dog]);
        assert_eq!(keys(&schema["properties"]), ["frog", "dog"]);
        assert!(schema.get("required").is_none());
    }

    #[test]
    fn open_objects_maps_and_formats() {
        let types = Types::default();
        let mut open = fields(vec![("when", Shape::new(ShapeKind::Date))]);
        open.open = Open::Of(Box::new(integer()));
        let shape = Shape::new(ShapeKind::Map(Box::new(Shape::new(ShapeKind::Object(Box::new(open))))));
        let schema = schema_of(&types, &shape);
        assert_eq!(schema.pointer("/additionalProperties/properties/when/format"), Some(&json!("date")));
        assert_eq!(schema.pointer("/additionalProperties/additionalProperties/type"), Some(&json!("integer")));
    }

    #[test]
    fn a_definition_never_takes_a_declared_name() {
        let mut types = Types::default();
        let (animal, frog, _) = animals(&mut types);
        let clash = object(&mut types, "Frog_type", vec![("x", string())]);
        let shape = Shape::new(ShapeKind::Object(Box::new(fields(vec![
            ("a", Shape::named(animal)),
            ("b", Shape::named(animal)),
            ("c", Shape::named(frog)),
            ("d", Shape::named(clash)),
            ("e", Shape::new(ShapeKind::OneOf(vec![Shape::named(frog), Shape::named(clash)]))),
        ]))));
        let schema = schema_of(&types, &shape);
        assert_eq!(schema.pointer("/properties/d/properties/x/type"), Some(&json!("string")));
        assert!(jsonschema::validator_for(&schema).is_ok());
    }
}
