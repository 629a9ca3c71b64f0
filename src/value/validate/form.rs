//! Answers to forms: a value against a plain JSON Schema.

use serde_json::Value;

use super::limits::compile;
use super::violation::{Violation, complaint, place, pointer, steps};

/// Everything that is wrong with an answer to a form (a JSON Schema), in the order of the schema; nothing when it fits.
pub fn form_violations(form: &Value, answer: &Value) -> Vec<Violation> {
    let validator = match compile(form) {
        Ok(validator) => validator,
        Err(why) => {
            let message = format!("the form is no JSON Schema: {why}");
            return vec![Violation { path: String::new(), place: String::new(), message, expected: None }];
        }
    };
    let violation = |error: jsonschema::ValidationError<'_>| {
        let steps = steps(&error);
        Violation { path: pointer(&steps), place: place(&steps), message: complaint(&error), expected: None }
    };
    validator.iter_errors(answer).map(violation).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_told_with_its_place() {
        let form = json!({"type": "object", "required": ["score"],
            "properties": {"score": {"type": "integer", "minimum": 1}, "tags": {"type": "array", "items": {"type": "string"}}}});
        assert!(form_violations(&form, &json!({"score": 3})).is_empty());
        let told = |answer: Value| form_violations(&form, &answer).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(told(json!({})), ["missing field `score`"]);
        assert_eq!(told(json!({"score": 0})), ["`score`: expected at least 1, found the number 0"]);
        assert_eq!(told(json!({"score": 1, "tags": [2]})).len(), 1);
        assert!(told(json!({"score": 1, "tags": [2]}))[0].starts_with("`tags[0]`: "));
        assert!(form_violations(&json!({"type": 3}), &json!(1))[0].message.contains("no JSON Schema"));
    }
}
