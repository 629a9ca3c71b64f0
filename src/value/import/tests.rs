use super::super::fixture::fields;
use super::super::types::Types;
use super::super::{Member, describe, member};
use super::*;
use serde_json::json;

fn seen(schema: Value) -> String {
    describe(&Types::default(), &view(&schema))
}

#[test]
fn views_follow_types_lists_choices_and_local_references() {
    assert_eq!(
        seen(json!({"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "integer"}}})),
        "list<integer>"
    );
    assert_eq!(seen(json!({"type": ["string", "null"]})), "string or null");
    assert_eq!(seen(json!({"anyOf": [{"type": "number"}, {"enum": ["x"]}]})), "number or one of `x`");
    assert_eq!(seen(json!({"type": "object", "additionalProperties": {"type": "string"}})), "map<string>");
    assert_eq!(seen(json!({"type": "string", "format": "date-time"})), "datetime");
    assert_eq!(seen(json!({"$ref": "#node", "$defs": {"n": {"$anchor": "node", "type": "boolean"}}})), "boolean");
    assert_eq!(seen(json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "boolean"}}})), "boolean");
}

#[test]
fn views_leave_open_what_cannot_be_known() {
    assert_eq!(seen(json!(true)), "any");
    assert_eq!(seen(json!({"allOf": [{"type": "string"}]})), "any");
    assert_eq!(seen(json!({"$ref": "https://example.com/x"})), "any");
    let recursive = json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": false});
    let next = |shape: &Shape| member(&Types::default(), shape, "next");
    let Member::Known { shape, optional } = next(&view(&recursive)) else { unreachable!("`next` is a field") };
    assert!(optional);
    // One turn of the recursion may be seen, after that nothing is known.
    let known = match next(&shape) {
        Member::Known { shape, .. } => shape.kind == ShapeKind::Any,
        Member::Any => true,
        Member::Unknown { .. } | Member::NotAnObject => false,
    };
    assert!(known);
}

#[test]
fn views_know_required_and_open_members() {
    let shape = view(&json!({"properties": {"a": {}, "b": {"type": "string"}}, "required": ["a"]}));
    let types = Types::default();
    assert!(matches!(member(&types, &shape, "a"), Member::Known { optional: false, .. }));
    assert!(matches!(member(&types, &shape, "b"), Member::Known { optional: true, .. }));
    assert_eq!(member(&types, &shape, "c"), Member::Any);
    let closed = Shape::new(ShapeKind::Object(Box::new(fields(vec![]))));
    assert_eq!(view(&json!({"type": "object", "additionalProperties": false})), closed);
}

#[test]
fn a_huge_schema_is_viewed_in_bounded_time() {
    let mut schema = json!({"type": "string"});
    for _ in 0..200 {
        schema = json!({"type": "array", "items": schema});
    }
    let _ = view(&schema);
    let mut defs = Map::new();
    for level in 0..60 {
        let next = format!("#/$defs/d{}", level + 1);
        defs.insert(format!("d{level}"), json!({"anyOf": [{"$ref": next}, {"$ref": next}]}));
    }
    let _ = view(&json!({"$ref": "#/$defs/d0", "$defs": defs}));
}

#[test]
fn schemas_are_checked() {
    assert_eq!(
        check_schema(&json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}})),
        Ok(())
    );
    let draft_7 = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"a": {"type": "string"}},
        "items": [{"$ref": "#/definitions/a"}],
    });
    assert_eq!(check_schema(&draft_7), Ok(()));
    let error = |schema: Value| check_schema(&schema).err().unwrap_or_default();
    assert!(error(json!(3)).contains("an object"), "{}", error(json!(3)));
    let wrong_type = error(json!({"properties": {"a": {"type": "text"}}}));
    assert!(wrong_type.contains("/properties/a/type"), "{wrong_type}");
    let missing = error(json!({"properties": {"a": {"$ref": "#/$defs/b"}}}));
    assert_eq!(missing, "`/properties/a` refers to `#/$defs/b`, which is not in the schema");
    let remote = error(json!({"items": {"$ref": "https://example.com/s.json"}}));
    assert!(remote.contains("only references within the schema"), "{remote}");
    assert!(!error(json!({"pattern": "("})).is_empty());
}

#[test]
fn old_keywords_become_those_of_2020_12() {
    let old = json!({
        "$schema": "http://json-schema.org/draft-04/schema#", "id": "x",
        "items": [{"type": "string"}], "additionalItems": false,
        "properties": {"n": {"minimum": 1, "exclusiveMinimum": true}},
        "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
    });
    assert_eq!(
        embedded(&old, "#/$defs/Old"),
        json!({
            "properties": {"n": {"exclusiveMinimum": 1}},
            "prefixItems": [{"type": "string"}], "items": false,
            "dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}},
        })
    );
}

#[test]
fn embedded_references_follow_and_data_stays() {
    let schema = json!({
        "$id": "https://example.com/s", "default": {"$ref": "#/keep"},
        "items": {"$ref": "https://example.com/s#/$defs/a"}, "$defs": {"a": {"$ref": "#"}},
    });
    assert_eq!(
        embedded(&schema, "#/$defs/S"),
        json!({"default": {"$ref": "#/keep"}, "items": {"$ref": "#/$defs/S/$defs/a"}, "$defs": {"a": {"$ref": "#/$defs/S"}}})
    );
}
