//! Authors' and servers' own JSON Schemas: checking, embedding, and a structural view of them.

use super::keywords::{children, children_mut};
use super::types::{Constraints, Field, ObjectDef, Open, Shape, ShapeKind};
use serde_json::{Map, Value, json};

/// The most schema nodes that [`view`] looks at; what lies beyond is `any`.
const VIEW_NODES: usize = 10_000;
/// The deepest nesting that a walk over a schema follows.
const VIEW_DEPTH: usize = 64;

/// A structural view of a schema for static checks: objects, lists, enums, choices and local references. Whatever
/// cannot be known (conditions, patterns of names, remote or recursive references) is `any`.
pub fn view(schema: &Value) -> Shape {
    View { root: schema, left: VIEW_NODES, following: Vec::new() }.shape(schema, 0)
}

/// Checks that a value is a JSON Schema and that its local references lead somewhere.
///
/// # Errors
/// Says what is wrong, with the JSON pointer of the place.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        return Err("a JSON Schema is an object, or `true` or `false`".to_owned());
    }
    if let Err(error) = jsonschema::meta::options().validate(schema) {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the schema".to_owned() } else { format!("`{place}`") };
        return Err(format!("{place} is not valid JSON Schema: {error}"));
    }
    check_references(schema, schema, "", 0)?;
    super::validate::compile(schema).map(drop)
}

fn check_references(root: &Value, schema: &Value, place: &str, depth: usize) -> Result<(), String> {
    let Value::Object(map) = schema else { return Ok(()) };
    if depth > VIEW_DEPTH {
        return Err(format!("the schema is nested deeper than {VIEW_DEPTH} levels"));
    }
    if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
        let place = if place.is_empty() { "/" } else { place };
        if !reference.starts_with('#') && own_id(root).is_none_or(|id| !reference.starts_with(id)) {
            return Err(format!(
                "`{place}` refers to `{reference}`; only references within the schema (`#/…`) are read"
            ));
        }
        if resolve(root, reference).is_none() {
            return Err(format!("`{place}` refers to `{reference}`, which is not in the schema"));
        }
    }
    let mut result = Ok(());
    children(map, &mut |path, child| {
        if result.is_ok() {
            let tokens = path.iter().map(|token| format!("/{}", escaped(token))).collect::<String>();
            result = check_references(root, child, &format!("{place}{tokens}"), depth + 1);
        }
    });
    result
}

fn own_id(root: &Value) -> Option<&str> {
    root.get("$id").and_then(Value::as_str)
}

/// The schema that a local reference leads to: a pointer, an anchor, or the root.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let local = own_id(root).and_then(|id| reference.strip_prefix(id)).unwrap_or(reference);
    let fragment = local.strip_prefix('#').unwrap_or(local);
    if fragment.is_empty() || fragment.starts_with('/') {
        return at_pointer(root, fragment);
    }
    anchored(root, fragment, 0)
}

/// The value at a JSON pointer that stands in a URI's fragment, where characters may be percent-encoded (RFC 6901, 6).
pub fn at_pointer<'a>(root: &'a Value, pointer: &str) -> Option<&'a Value> {
    let decoded = || root.pointer(&percent_encoding::percent_decode_str(pointer).decode_utf8().ok()?);
    root.pointer(pointer).or_else(decoded)
}

fn anchored<'a>(schema: &'a Value, anchor: &str, depth: usize) -> Option<&'a Value> {
    let Value::Object(map) = schema else { return None };
    if map.get("$anchor").and_then(Value::as_str) == Some(anchor) {
        return Some(schema);
    }
    let mut found = None;
    if depth < VIEW_DEPTH {
        children(map, &mut |_, child| found = found.or_else(|| anchored(child, anchor, depth + 1)));
    }
    found
}

/// The schema as it stands at the pointer `at` of another document: local references follow it there, `$schema` and
/// `$id` go, and keywords of older drafts become those of 2020-12.
pub(super) fn embedded(schema: &Value, at: &str) -> Value {
    let mut copy = match schema {
        Value::Bool(true) => json!({}),
        Value::Bool(false) => json!({"not": {}}),
        other => other.clone(),
    };
    let id = own_id(schema).map(str::to_owned);
    if let Value::Object(map) = &mut copy {
        map.shift_remove("$schema");
        map.shift_remove("$id");
        map.shift_remove("id");
    }
    relocate(&mut copy, id.as_deref(), at, 0);
    copy
}

fn relocate(schema: &mut Value, id: Option<&str>, at: &str, depth: usize) {
    let Value::Object(map) = schema else { return };
    if depth > VIEW_DEPTH {
        return;
    }
    upgrade(map);
    if let Some(Value::String(reference)) = map.get_mut("$ref") {
        let local = id.and_then(|id| reference.strip_prefix(id)).unwrap_or(reference).to_owned();
        let fragment = local.strip_prefix('#').unwrap_or(if local.is_empty() { "" } else { "?" });
        if fragment.is_empty() || fragment.starts_with('/') {
            *reference = format!("{at}{fragment}");
        }
    }
    children_mut(map, &mut |child| relocate(child, id, at, depth + 1));
}

/// Turns keywords of drafts 4 to 7 into those of 2020-12, where they differ.
fn upgrade(schema: &mut Map<String, Value>) {
    if matches!(schema.get("items"), Some(Value::Array(_))) {
        if let Some(items) = schema.shift_remove("items") {
            schema.insert("prefixItems".to_owned(), items);
        }
        if let Some(rest) = schema.shift_remove("additionalItems") {
            schema.insert("items".to_owned(), rest);
        }
    }
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        match schema.get(exclusive) {
            Some(Value::Bool(true)) => {
                schema.shift_remove(exclusive);
                if let Some(limit) = schema.shift_remove(bound) {
                    schema.insert(exclusive.to_owned(), limit);
                }
            }
            Some(Value::Bool(false)) => drop(schema.shift_remove(exclusive)),
            _ => {}
        }
    }
    if let Some(Value::Object(dependencies)) = schema.shift_remove("dependencies") {
        let (names, schemas): (Map<String, Value>, Map<String, Value>) =
            dependencies.into_iter().partition(|(_, value)| value.is_array());
        for (keyword, map) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !map.is_empty() {
                schema.insert(keyword.to_owned(), Value::Object(map));
            }
        }
    }
}

/// A JSON pointer token.
pub(super) fn escaped(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// The name that a JSON pointer token stands for.
pub(super) fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

struct View<'a> {
    root: &'a Value,
    left: usize,
    following: Vec<String>,
}

impl<'a> View<'a> {
    fn shape(&mut self, schema: &'a Value, depth: usize) -> Shape {
        let any = Shape::new(ShapeKind::Any);
        let Value::Object(map) = schema else { return any };
        if self.left == 0 || depth > VIEW_DEPTH {
            return any;
        }
        self.left -= 1;
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            return self.reference(reference, depth);
        }
        let kind = self.kind(map, depth);
        Shape { kind, constraints: constraints(map) }
    }

    fn reference(&mut self, reference: &str, depth: usize) -> Shape {
        let Some(target) = resolve(self.root, reference) else { return Shape::new(ShapeKind::Any) };
        if self.following.iter().any(|followed| followed == reference) {
            return Shape::new(ShapeKind::Any);
        }
        self.following.push(reference.to_owned());
        let shape = self.shape(target, depth + 1);
        self.following.pop();
        shape
    }

    fn kind(&mut self, map: &'a Map<String, Value>, depth: usize) -> ShapeKind {
        if let Some(value) = map.get("const") {
            return ShapeKind::Enum(vec![value.clone()]);
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            return ShapeKind::Enum(values.clone());
        }
        if let Some(Value::Array(choices)) = map.get("anyOf").or_else(|| map.get("oneOf")) {
            if map.contains_key("properties") {
                return ShapeKind::Any;
            }
            return ShapeKind::OneOf(choices.iter().map(|choice| self.shape(choice, depth + 1)).collect());
        }
        if ["allOf", "if", "not", "$dynamicRef"].iter().any(|keyword| map.contains_key(*keyword)) {
            return ShapeKind::Any;
        }
        match map.get("type") {
            Some(Value::String(name)) => self.typed(name, map, depth),
            Some(Value::Array(names)) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                ShapeKind::OneOf(names.iter().map(|name| Shape::new(self.typed(name, map, depth))).collect())
            }
            _ if map.contains_key("properties") => self.typed("object", map, depth),
            _ => ShapeKind::Any,
        }
    }

    fn typed(&mut self, name: &str, map: &'a Map<String, Value>, depth: usize) -> ShapeKind {
        match name {
            "null" => ShapeKind::Null,
            "string" => match map.get("format").and_then(Value::as_str) {
                Some("date") => ShapeKind::Date,
                Some("date-time") => ShapeKind::DateTime,
                Some("uri") => ShapeKind::Uri,
                Some("email") => ShapeKind::Email,
                _ => ShapeKind::String,
            },
            "integer" => ShapeKind::Integer,
            "number" => ShapeKind::Number,
            "boolean" => ShapeKind::Boolean,
            "array" => {
                let tuple = map.contains_key("prefixItems");
                let element = map.get("items").filter(|_| !tuple).map(|items| self.shape(items, depth + 1));
                ShapeKind::List(Box::new(element.unwrap_or_else(|| Shape::new(ShapeKind::Any))))
            }
            "object" => self.object(map, depth),
            _ => ShapeKind::Any,
        }
    }

    fn object(&mut self, map: &'a Map<String, Value>, depth: usize) -> ShapeKind {
        let patterns = map.contains_key("patternProperties") || map.contains_key("unevaluatedProperties");
        let open = match map.get("additionalProperties") {
            Some(Value::Bool(false)) if !patterns => Open::Closed,
            Some(schema @ Value::Object(_)) if !patterns => Open::Of(Box::new(self.shape(schema, depth + 1))),
            _ => Open::Any,
        };
        let required = |name: &String| match map.get("required") {
            Some(Value::Array(names)) => names.iter().any(|required| required.as_str() == Some(name)),
            _ => false,
        };
        let mut fields = indexmap::IndexMap::new();
        if let Some(Value::Object(properties)) = map.get("properties") {
            for (name, schema) in properties {
                let shape = self.shape(schema, depth + 1);
                fields.insert(name.clone(), Field { shape, required: required(name) });
            }
        }
        match open {
            Open::Of(shape) if fields.is_empty() => ShapeKind::Map(shape),
            open => ShapeKind::Object(Box::new(ObjectDef { fields, open, ..ObjectDef::default() })),
        }
    }
}

/// Limits that keep their meaning on the shape that a schema is seen as.
const LIMITS: &[&str] = &[
    "title",
    "examples",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

fn constraints(map: &Map<String, Value>) -> Constraints {
    let limits = map.iter().filter(|(keyword, _)| LIMITS.contains(&keyword.as_str()));
    Constraints {
        description: map.get("description").and_then(Value::as_str).map(str::to_owned),
        default: map.get("default").cloned(),
        keywords: limits.map(|(keyword, value)| (keyword.clone(), value.clone())).collect(),
    }
}

#[cfg(test)]
mod tests;
