//! Where JSON Schema keywords hold further schemas, so that walks over schemas never mistake data for a schema.

use serde_json::{Map, Value};

/// Keywords whose value is one schema (`items` and `additionalItems` of old drafts too, where they are one).
const ONE: &[&str] = &[
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
/// Keywords whose value is a list of schemas (`items` of draft-07 may be one).
const MANY: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords whose value maps names to schemas (`dependencies` of draft-07 also to lists of names).
const NAMED: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Keywords that say something of a value without restricting it.
pub(super) const ANNOTATIONS: &[&str] =
    &["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"];

/// Calls `visit` on every direct subschema of a schema object, with its JSON pointer tokens below the schema.
pub(super) fn children<'a>(schema: &'a Map<String, Value>, visit: &mut dyn FnMut(&[&str], &'a Value)) {
    for (keyword, value) in schema {
        let keyword = keyword.as_str();
        match value {
            Value::Object(_) | Value::Bool(_) if ONE.contains(&keyword) => visit(&[keyword], value),
            Value::Array(list) if MANY.contains(&keyword) => {
                list.iter().enumerate().for_each(|(index, item)| visit(&[keyword, &index.to_string()], item));
            }
            Value::Object(map) if NAMED.contains(&keyword) => {
                map.iter().filter(|(_, item)| is_schema(item)).for_each(|(name, item)| visit(&[keyword, name], item));
            }
            _ => {}
        }
    }
}

/// Calls `visit` on every direct subschema of a schema object.
pub(super) fn children_mut(schema: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for (keyword, value) in schema.iter_mut() {
        let keyword = keyword.as_str();
        match value {
            Value::Object(_) | Value::Bool(_) if ONE.contains(&keyword) => visit(value),
            Value::Array(list) if MANY.contains(&keyword) => list.iter_mut().for_each(&mut *visit),
            Value::Object(map) if NAMED.contains(&keyword) => {
                map.values_mut().filter(|item| is_schema(item)).for_each(&mut *visit);
            }
            _ => {}
        }
    }
}

fn is_schema(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn data_is_not_taken_for_a_schema() {
        let schema = json!({
            "properties": {"default": {"type": "string"}, "x": true},
            "default": {"properties": {"no": {}}},
            "items": [{"const": {"$ref": "#"}}],
            "dependencies": {"a": ["b"], "c": {}},
        });
        let mut seen = Vec::new();
        if let Value::Object(map) = &schema {
            children(map, &mut |path, _| seen.push(path.join("/")));
        }
        assert_eq!(seen, ["properties/default", "properties/x", "items/0", "dependencies/c"]);
    }
}
