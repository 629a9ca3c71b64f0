//! Whether a value holds what is expected of it: members that are not named do not count.

use serde_json::Value;

/// Where `found` differs from `expected`: path and what is wrong, each in words. Of objects only the members that
/// `expected` names count; lists have as many elements; numbers are equal by value.
pub(super) fn differences(expected: &Value, found: &Value) -> Vec<String> {
    let mut out = Vec::new();
    walk(expected, found, &mut String::new(), &mut out);
    out
}

/// Whether nothing differs.
pub(super) fn holds(expected: &Value, found: &Value) -> bool {
    differences(expected, found).is_empty()
}

fn walk(expected: &Value, found: &Value, path: &mut String, out: &mut Vec<String>) {
    let at = |path: &str| if path.is_empty() { String::new() } else { format!("`{path}`: ") };
    match (expected, found) {
        (Value::Object(wanted), Value::Object(there)) => {
            for (key, wanted) in wanted {
                let len = path.len();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                match there.get(key) {
                    Some(found) => walk(wanted, found, path, out),
                    None if wanted.is_null() => {}
                    None => {
                        let near = crate::diag::suggest::did_you_mean(key, there.keys().map(String::as_str));
                        let near = near.map(|near| format!("; {near}")).unwrap_or_default();
                        out.push(format!("{}expected {}, and it is not there{near}", at(path), short(wanted)));
                    }
                }
                path.truncate(len);
            }
        }
        (Value::Array(wanted), Value::Array(there)) => {
            if wanted.len() != there.len() {
                out.push(format!("{}expected {} elements, found {}", at(path), wanted.len(), there.len()));
            }
            for (index, (wanted, found)) in wanted.iter().zip(there).enumerate() {
                let len = path.len();
                path.push_str(&format!("[{index}]"));
                walk(wanted, found, path, out);
                path.truncate(len);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        _ if expected == found => {}
        _ => out.push(format!("{}expected {}, found {}", at(path), short(expected), short(found))),
    }
}

/// A value on one line, cut short.
pub(super) fn short(value: &Value) -> String {
    const CHARS: usize = 160;
    let text = value.to_string();
    if text.chars().count() <= CHARS {
        return text;
    }
    let cut: String = text.chars().take(CHARS).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_are_not_named_do_not_count() {
        let found = json!({"a": 1, "b": [{"c": "x", "d": 2}], "e": null});
        assert!(holds(&json!({"a": 1.0, "b": [{"c": "x"}]}), &found));
        assert!(holds(&json!({"missing": null}), &found));
        assert_eq!(differences(&json!({"b": [{"c": "y"}]}), &found), ["`b[0].c`: expected \"y\", found \"x\""]);
        assert_eq!(differences(&json!({"b": []}), &found), ["`b`: expected 0 elements, found 1"]);
        let listed = json!({"title": "x"});
        assert_eq!(
            differences(&json!({"titel": "x"}), &listed),
            ["`titel`: expected \"x\", and it is not there; did you mean `title`?"]
        );
    }
}
