//! Schemas in the words of OpenAPI 3.0, as Gemini's `Schema` has them: no references, no `null` type, upper-case types.
//!
//! The fields are those of the discovery document's `Schema`: type, format, description, nullable, enum (texts only),
//! items, minItems, maxItems, properties, propertyOrdering, required, anyOf, minimum, maximum, minLength, maxLength, pattern.

use serde_json::{Map, Value, json};

use super::structured::{SchemaDialect, strict};

/// How deep references are put in place of themselves.
const INLINE_DEPTH_MAX: usize = 32;

/// Returns `schema`, in an envelope where its root is no object, as a `Schema`; `None` when that cannot say it.
pub(crate) fn schema(schema: &Value) -> Option<Value> {
    let plain = strict(schema, &SchemaDialect::GEMINI)?;
    translate(&plain, &plain, 0)
}

fn translate(root: &Value, schema: &Value, depth: usize) -> Option<Value> {
    if depth > INLINE_DEPTH_MAX {
        return None;
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return translate(root, root.pointer(target.strip_prefix('#')?)?, depth + 1);
    }
    let mut out = Map::new();
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        let (nulls, others): (Vec<&Value>, Vec<&Value>) = branches.iter().partition(|branch| branch["type"] == "null");
        let mut translated =
            others.iter().map(|branch| translate(root, branch, depth + 1)).collect::<Option<Vec<_>>>()?;
        match translated.len() {
            0 => return None,
            1 => out.extend(translated.pop()?.as_object()?.clone()),
            _ => {
                out.insert("anyOf".into(), Value::Array(translated));
            }
        }
        if !nulls.is_empty() {
            out.insert("nullable".into(), json!(true));
        }
    } else {
        typed(root, schema, depth, &mut out)?;
    }
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        let text = match out.get("description").and_then(Value::as_str) {
            Some(values) if values.starts_with("one of ") => format!("{text} ({values})"),
            _ => text.to_string(),
        };
        out.insert("description".into(), json!(text));
    }
    Some(Value::Object(out))
}

fn typed(root: &Value, schema: &Value, depth: usize, out: &mut Map<String, Value>) -> Option<()> {
    let kind = schema.get("type")?.as_str()?;
    out.insert("type".into(), json!(kind.to_ascii_uppercase()));
    for key in SchemaDialect::GEMINI.limits.iter().chain(&["format"]) {
        if let Some(value) = schema.get(*key) {
            // Counts are `int64`, which JSON for this API writes as text or number alike.
            out.insert((*key).to_string(), value.clone());
        }
    }
    let constant = schema.get("const").map(|value| vec![value.clone()]);
    let values = constant.or_else(|| schema.get("enum").and_then(Value::as_array).cloned());
    match (kind, values) {
        ("string", Some(values)) => {
            out.insert("format".into(), json!("enum"));
            out.insert("enum".into(), Value::Array(values));
        }
        // Only texts can be listed.
        (_, Some(values)) => {
            let listed: Vec<String> = values.iter().map(Value::to_string).collect();
            out.insert("description".into(), json!(format!("one of {}", listed.join(", "))));
        }
        (_, None) => {}
    }
    if kind == "object" {
        let properties = schema.get("properties").and_then(Value::as_object)?;
        let translated: Option<Map<String, Value>> = properties
            .iter()
            .map(|(name, property)| Some((name.clone(), translate(root, property, depth + 1)?)))
            .collect();
        out.insert("properties".into(), Value::Object(translated?));
        out.insert("propertyOrdering".into(), properties.keys().cloned().collect());
        if let Some(required) =
            schema.get("required").filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
        {
            out.insert("required".into(), required.clone());
        }
    }
    if kind == "array" {
        out.insert("items".into(), translate(root, schema.get("items")?, depth + 1)?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_nulls_and_constants_are_said_in_its_own_words() {
        let ours = json!({"type": "array", "items": {"$ref": "#/$defs/Item"}, "$defs": {"Item": {
        "type": "object", "additionalProperties": false, "required": ["kind", "note"],
        "properties": {
            "kind": {"const": "item"},
            "note": {"type": ["string", "null"], "description": "What it is"},
            "level": {"enum": [1, 2]},
            "sign": {"enum": ["leo", "virgo"]},
            "days": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 3}
        }}}});
        let item = json!({"type": "OBJECT", "properties": {
            "kind": {"type": "STRING", "format": "enum", "enum": ["item"]},
            "note": {"type": "STRING", "nullable": true, "description": "What it is"},
            "level": {"type": "INTEGER", "description": "one of 1, 2"},
            "sign": {"type": "STRING", "format": "enum", "enum": ["leo", "virgo"]},
            "days": {"type": "ARRAY", "maxItems": 3, "items": {"type": "INTEGER", "minimum": 1}}},
            "propertyOrdering": ["kind", "note", "level", "sign", "days"], "required": ["kind", "note"]});
        let expected = json!({"type": "OBJECT", "properties": {"value": {"type": "ARRAY", "items": item}},
            "propertyOrdering": ["value"], "required": ["value"]});
        assert_eq!(schema(&ours), Some(expected));
    }

    #[test]
    fn what_it_cannot_say_is_none() {
        let tree = json!({"type": "object", "additionalProperties": false, "properties": {"next": {"$ref": "#"}}});
        assert_eq!(schema(&tree), None);
        assert_eq!(schema(&json!({"type": "object", "additionalProperties": {"type": "string"}})), None);
    }
}
