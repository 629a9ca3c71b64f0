//! What a run starts from, as the command line gives it: text, typed objects, config.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use super::Fault;

/// Most bytes read from standard input or a file for one object.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Objects and text given on the command line; types are still names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Given {
    /// Positional text, which becomes a `UserInput`.
    pub text: Option<String>,
    /// Objects in order, with their type's name where it was given.
    pub objects: Vec<(Option<String>, Value)>,
}

/// Reads positional text and `--input` values.
pub(super) fn given(text: &[String], inputs: &[String]) -> Result<Given, Fault> {
    let text = (!text.is_empty()).then(|| text.join(" "));
    let objects = inputs.iter().map(|input| object(input)).collect::<Result<_, _>>()?;
    Ok(Given { text, objects })
}

fn object(input: &str) -> Result<(Option<String>, Value), Fault> {
    let is_type = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    match input.split_once('=') {
        Some((name, value)) if is_type(name) => Ok((Some(name.to_owned()), value_of(value, Some(name))?)),
        _ => Ok((None, value_of(input, None)?)),
    }
}

fn value_of(text: &str, type_name: Option<&str>) -> Result<Value, Fault> {
    if text == "-" {
        let mut content = String::new();
        let read = std::io::stdin().take(INPUT_BYTES_MAX).read_to_string(&mut content);
        read.map_err(|error| Fault::wrong(format!("standard input cannot be read: {error}")))?;
        return parse(&content, "standard input", type_name);
    }
    let Some(path) = text.strip_prefix('@') else {
        return parse(text, "the value of `--input`", type_name);
    };
    let size = std::fs::metadata(path).map(|found| found.len()).unwrap_or(0);
    if size > INPUT_BYTES_MAX {
        return Err(Fault::wrong(format!("`{path}` has {size} bytes, more than the 16 MiB that are read")));
    }
    let content =
        std::fs::read_to_string(path).map_err(|error| Fault::wrong(format!("`{path}` cannot be read: {error}")))?;
    match Path::new(path).extension().and_then(|end| end.to_str()) {
        Some("yaml" | "yml") => {
            serde_yaml::from_str(&content).map_err(|error| Fault::wrong(format!("`{path}` is not YAML: {error}")))
        }
        Some("txt" | "md") => Ok(Value::String(content)),
        _ => parse(&content, &format!("`{path}`"), type_name),
    }
}

/// The answer to a form: JSON, `@FILE`, or `-` for standard input.
pub(super) fn json(text: &str) -> Result<Value, Fault> {
    if text == "-" || text.starts_with('@') {
        return value_of(text, None);
    }
    serde_json::from_str(text).map_err(|error| {
        Fault::wrong(format!("the answer is not JSON: {error}"))
            .help("write it as `--form '{\"field\": …}'`, or `--form @FILE`")
    })
}

fn parse(text: &str, what: &str, type_name: Option<&str>) -> Result<Value, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let fault = Fault::wrong(format!("{what} is not JSON: {error}"));
        let name = type_name.unwrap_or("TYPE");
        if text.starts_with(['{', '[', '"']) {
            return fault.help("put the whole in single quotes so that the shell leaves it alone");
        }
        fault.help(format!("for text write `--input '{name}=\"…\"'`; for a file `--input {name}=@FILE`"))
    })
}

/// Reads `--set KEY=VALUE`; a value that is not JSON is text.
pub(super) fn config(settings: &[String]) -> Result<Map<String, Value>, Fault> {
    let mut config = Map::new();
    for setting in settings {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(Fault::wrong(format!("`--set {setting}` has no `=`")).help("write `--set KEY=VALUE`"));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        config.insert(key.to_owned(), value);
    }
    Ok(config)
}

/// Reads `--llm ROLE=MODEL`.
pub(super) fn models(settings: &[String]) -> Result<Vec<(String, String)>, Fault> {
    let pair = |setting: &String| match setting.split_once('=') {
        Some((role, model)) if !role.is_empty() && !model.is_empty() => Ok((role.to_owned(), model.to_owned())),
        _ => Err(Fault::wrong(format!("`--llm {setting}` names no role and model"))
            .help("write `--llm ROLE=MODEL`, such as `--llm default=openai/gpt-4.1-mini`")),
    };
    settings.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_typed_json_or_bare() {
        let inputs =
            [r#"Person={"name": "Ada"}"#.to_owned(), r#"{"a": "b=c"}"#.to_owned(), "Story=\"once\"".to_owned()];
        let given = given(&["find".into(), "news".into()], &inputs).expect("read");
        assert_eq!(given.text.as_deref(), Some("find news"));
        assert_eq!(given.objects[0], (Some("Person".into()), json!({"name": "Ada"})));
        assert_eq!(given.objects[1], (None, json!({"a": "b=c"})));
        assert_eq!(given.objects[2], (Some("Story".into()), json!("once")));
    }

    #[test]
    fn a_value_that_is_not_json_says_how_to_write_text() {
        let fault = given(&[], &["Story=once".to_owned()]).expect_err("not JSON");
        assert!(fault.help[0].contains(r#"--input 'Story="…"'"#), "{fault:?}");
    }

    #[test]
    fn config_values_are_json_or_text() {
        let config = config(&["count=3".into(), "name=Ada".into()]).expect("read");
        assert_eq!(Value::Object(config), json!({"count": 3, "name": "Ada"}));
        assert!(super::config(&["count".into()]).is_err());
    }
}
