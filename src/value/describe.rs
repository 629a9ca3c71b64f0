//! Names of shapes for people: messages, explanations and docs.

use super::types::{Shape, ShapeKind, Types};
use serde_json::Value;

/// How many values of an enum are named before the rest is counted.
const LISTED: usize = 8;

/// The shape as an author would write or say it: `list<Story>`, "one of `a`, `b`".
pub fn describe(types: &Types, shape: &Shape) -> String {
    match &shape.kind {
        ShapeKind::Any => "any".to_owned(),
        ShapeKind::Null => "null".to_owned(),
        ShapeKind::String => "string".to_owned(),
        ShapeKind::Integer => "integer".to_owned(),
        ShapeKind::Number => "number".to_owned(),
        ShapeKind::Boolean => "boolean".to_owned(),
        ShapeKind::Date => "date".to_owned(),
        ShapeKind::DateTime => "datetime".to_owned(),
        ShapeKind::Uri => "uri".to_owned(),
        ShapeKind::Email => "email".to_owned(),
        ShapeKind::Named(id) => types.name(*id).to_owned(),
        ShapeKind::List(element) => format!("list<{}>", describe(types, element)),
        ShapeKind::Map(value) => format!("map<{}>", describe(types, value)),
        ShapeKind::Enum(values) => format!("one of {}", values_text(values)),
        ShapeKind::OneOf(shapes) => shapes.iter().map(|shape| describe(types, shape)).collect::<Vec<_>>().join(" or "),
        ShapeKind::Object(object) => {
            let names = object.fields.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>();
            if names.is_empty() { "an object".to_owned() } else { format!("an object of {}", names.join(", ")) }
        }
    }
}

/// Values in backticks, strings without their quotes.
pub(super) fn values_text(values: &[Value]) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    let mut named: Vec<String> = values.iter().take(LISTED).map(text).collect();
    if values.len() > LISTED {
        named.push(format!("and {} more", values.len() - LISTED));
    }
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fields, integer, string};
    use super::*;
    use serde_json::json;

    #[test]
    fn shapes_read_as_an_author_would_write_them() {
        let types = Types::with_built_ins();
        let text = |kind: ShapeKind| describe(&types, &Shape::new(kind));
        let feedback = types.id("Feedback").map(Shape::named).unwrap_or_else(string);
        assert_eq!(describe(&types, &Shape::list(feedback)), "list<Feedback>");
        assert_eq!(text(ShapeKind::Map(Box::new(integer()))), "map<integer>");
        assert_eq!(text(ShapeKind::Enum(vec![json!("a"), json!(3)])), "one of `a`, `3`");
        assert_eq!(text(ShapeKind::OneOf(vec![string(), Shape::new(ShapeKind::Null)])), "string or null");
        assert_eq!(text(ShapeKind::Object(Box::new(fields(vec![("a", string())])))), "an object of `a`");
    }

    #[test]
    fn long_enums_are_cut() {
        let values: Vec<Value> = (0..20).map(Value::from).collect();
        assert!(values_text(&values).ends_with("`7`, and 12 more"));
    }
}
