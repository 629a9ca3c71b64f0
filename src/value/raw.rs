//! JSON Schemas of other programs, kept as they came: sent on and validated against without loss.

use serde_json::{Map, Value};

use super::import::{check_schema, resolve, view};
use super::types::{ObjectDef, Open, Shape, ShapeKind};

/// The most complaints about one value that are given.
const COMPLAINTS_MAX: usize = 10;
/// The deepest nesting in which defaults are filled in.
const DEFAULTS_DEPTH_MAX: usize = 64;
/// The most members that are looked at for it.
const DEFAULTS_MAX: usize = 100_000;

/// A schema of an object, such as a server's tool has for its arguments, that is sent as it came.
#[derive(Debug)]
pub struct RawSchema {
    schema: Value,
    seen: Shape,
    validator: jsonschema::Validator,
}

impl PartialEq for RawSchema {
    fn eq(&self, other: &RawSchema) -> bool {
        self.schema == other.schema
    }
}

impl RawSchema {
    /// Takes a schema over.
    ///
    /// # Errors
    /// Says why it is no JSON Schema of an object.
    pub fn new(schema: Value) -> Result<RawSchema, String> {
        check_schema(&schema)?;
        let validator = super::validate::compile(&schema)?;
        let seen = view(&plain(&schema));
        Ok(RawSchema { schema, seen, validator })
    }

    /// The schema as it came.
    pub fn value(&self) -> &Value {
        &self.schema
    }

    /// What can be seen of it: fields with their types, descriptions and defaults; what cannot be typed is `any`.
    pub fn seen(&self) -> ObjectDef {
        match &self.seen.kind {
            ShapeKind::Object(object) => (**object).clone(),
            _ => ObjectDef { open: Open::Any, ..ObjectDef::default() },
        }
    }

    /// The value with defaults filled in at every level that can be seen.
    ///
    /// # Errors
    /// Each complaint of the schema, with the place in the value.
    pub fn validate(&self, mut value: Value) -> Result<Value, Vec<String>> {
        Fill { root: &self.schema, left: DEFAULTS_MAX }.value(&self.schema, &mut value, 0);
        let complaint = |error: jsonschema::ValidationError<'_>| {
            let place = error.instance_path().to_string();
            if place.is_empty() { error.to_string() } else { format!("`{}`: {error}", place.trim_start_matches('/')) }
        };
        let complaints: Vec<String> = self.validator.iter_errors(&value).take(COMPLAINTS_MAX).map(complaint).collect();
        if complaints.is_empty() { Ok(value) } else { Err(complaints) }
    }
}

/// Fills in the defaults of absent members.
struct Fill<'a> {
    root: &'a Value,
    /// How many members may still be looked at: a schema that refers to itself could go on for ever.
    left: usize,
}

impl<'a> Fill<'a> {
    fn value(&mut self, schema: &'a Value, value: &mut Value, depth: usize) {
        let Value::Object(keys) = schema else { return };
        if depth > DEFAULTS_DEPTH_MAX || self.left == 0 {
            return;
        }
        self.left -= 1;
        if let Some(target) = keys.get("$ref").and_then(Value::as_str).and_then(|to| resolve(self.root, to)) {
            self.value(target, value, depth + 1);
        }
        match value {
            Value::Object(map) => self.members(keys, map, depth),
            Value::Array(items) => {
                if let Some(element) = keys.get("items").filter(|element| element.is_object()) {
                    items.iter_mut().for_each(|item| self.value(element, item, depth + 1));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn members(&mut self, keys: &'a Map<String, Value>, map: &mut Map<String, Value>, depth: usize) {
        let properties = keys.get("properties").and_then(Value::as_object);
        // Under a strict schema a model must name every member, and says null of those that it leaves out.
        let required = keys.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|of| of == name));
        map.retain(|name, value| {
            let member = properties.and_then(|properties| properties.get(name));
            !value.is_null() || is_required(name) || member.is_none_or(|member| takes_null(self.root, member, 0))
        });
        for (name, member) in properties.into_iter().flatten() {
            if let (false, Some(default)) = (map.contains_key(name), member.get("default")) {
                map.insert(name.clone(), default.clone());
            }
            if let Some(inner) = map.get_mut(name) {
                self.value(member, inner, depth + 1);
            }
        }
        let Some(others) = keys.get("additionalProperties").filter(|others| others.is_object()) else { return };
        let is_other = |name: &str| properties.is_none_or(|properties| !properties.contains_key(name));
        for (_, inner) in map.iter_mut().filter(|(name, _)| is_other(name)) {
            self.value(others, inner, depth + 1);
        }
    }
}

/// Whether null may fit a schema: it does not say that it does not.
fn takes_null(root: &Value, schema: &Value, depth: usize) -> bool {
    let Some(keys) = schema.as_object().filter(|_| depth <= DEFAULTS_DEPTH_MAX) else { return true };
    let of_type = match keys.get("type") {
        Some(Value::String(kind)) => kind == "null",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        _ => true,
    };
    let is_listed = |key: &str| keys.get(key).and_then(Value::as_array).is_none_or(|list| list.contains(&Value::Null));
    let branches = |key: &str| {
        let branches = keys.get(key).and_then(Value::as_array);
        branches.is_none_or(|list| list.iter().any(|branch| takes_null(root, branch, depth + 1)))
    };
    let target = keys.get("$ref").and_then(Value::as_str).and_then(|to| resolve(root, to));
    of_type
        && is_listed("enum")
        && keys.get("const").is_none_or(Value::is_null)
        && branches("anyOf")
        && branches("oneOf")
        && target.is_none_or(|target| takes_null(root, target, depth + 1))
}

/// The schema without the keywords beside which nothing of an object can be seen; what is left says less, not else.
fn plain(schema: &Value) -> Value {
    let mut plain = schema.clone();
    if let Value::Object(keys) = &mut plain
        && keys.contains_key("properties")
    {
        for keyword in ["if", "then", "else", "allOf", "anyOf", "oneOf", "not"] {
            keys.shift_remove(keyword);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_for_what_may_be_absent_is_absent() {
        let schema = RawSchema::new(json!({
            "type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {
                "a": {"type": ["string", "null"]}, "b": {"type": "string", "default": "x"}, "c": {"$ref": "#/$defs/c"},
                "d": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "e": {"enum": ["x", null]},
                "f": {"type": "object", "properties": {"g": {"type": "integer"}}}
            },
            "$defs": {"c": {"type": "array"}}
        }))
        .unwrap();
        let all = json!({"a": null, "b": null, "c": null, "d": null, "e": null, "f": {"g": null}});
        assert_eq!(schema.validate(all), Ok(json!({"a": null, "d": null, "e": null, "f": {}, "b": "x"})));
        let turning = RawSchema::new(json!({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}));
        assert!(turning.is_err() || turning.is_ok_and(|schema| schema.validate(json!({"a": 1})).is_ok()));
    }

    fn search() -> RawSchema {
        RawSchema::new(json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for", "minLength": 2},
                "filter": {"$ref": "#/definitions/filter"},
                "sort": {"anyOf": [{"enum": ["new", "old"]}, {"type": "null"}], "default": "new"},
                "labels": {"type": "object", "additionalProperties": {"type": "integer"}}
            },
            "required": ["query"],
            "definitions": {"filter": {
                "type": "object",
                "properties": {"depth": {"type": "integer", "default": 2}, "tags": {"type": "array", "items": {"type": "string"}}},
                "additionalProperties": false
            }},
            "if": {"required": ["filter"]}, "then": {"required": ["labels"]}
        }))
        .unwrap()
    }

    #[test]
    fn the_schema_is_kept_as_it_came() {
        let schema = search();
        assert_eq!(schema.value()["then"], json!({"required": ["labels"]}));
        assert_eq!(schema.value()["definitions"]["filter"]["properties"]["depth"]["default"], 2);
    }

    #[test]
    fn defaults_are_filled_in_at_every_level_and_the_whole_schema_counts() {
        let schema = search();
        let filled = schema.validate(json!({"query": "ab", "filter": {}, "labels": {"x": 1}})).unwrap();
        assert_eq!(filled, json!({"query": "ab", "filter": {"depth": 2}, "labels": {"x": 1}, "sort": "new"}));
        let complaints = schema.validate(json!({"query": "a", "labels": {"x": "1"}})).unwrap_err();
        assert!(complaints.iter().any(|text| text.starts_with("`query`:")), "{complaints:?}");
        assert!(complaints.iter().any(|text| text.starts_with("`labels/x`:")), "{complaints:?}");
        // What the view cannot show is held all the same.
        assert!(schema.validate(json!({"query": "ab", "filter": {}})).is_err());
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        assert!(RawSchema::new(json!({"type": "objekt"})).is_err());
        assert!(RawSchema::new(json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}})).is_err());
        let open = RawSchema::new(json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": []}}}));
        assert!(open.is_err() || open.unwrap().seen().open == Open::Any);
    }

    #[test]
    fn what_can_be_seen_is_seen_beside_conditions() {
        let seen = search().seen();
        let names: Vec<&str> = seen.fields.keys().map(String::as_str).collect();
        assert_eq!(names, ["query", "filter", "sort", "labels"]);
        assert!(seen.fields["query"].required && !seen.fields["filter"].required);
    }

    #[test]
    fn a_schema_that_refers_to_itself_is_filled_in_within_bounds() {
        let member = json!({"$ref": "#", "default": {}});
        let schema = json!({"type": "object", "properties": {"a": member, "b": member}});
        let filled = RawSchema::new(schema).unwrap();
        let mut value = json!({});
        Fill { root: filled.value(), left: 1_000 }.value(filled.value(), &mut value, 0);
        assert!(value["a"]["b"].is_object());
        assert!(value.to_string().len() < 100_000);
    }
}
