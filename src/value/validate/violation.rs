//! What is wrong with a value, and where, in words for models and people.

use serde_json::Value;
use std::fmt;

/// How much of a found value a message shows, in characters.
const FOUND_CHARS: usize = 60;
/// How long a message taken from the schema library may be, in characters.
const MESSAGE_CHARS: usize = 300;

/// One thing that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer of the place, empty for the whole value.
    pub path: String,
    /// The place for people: `stories[2].title`, empty for the whole value.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What is expected there, when that helps.
    pub expected: Option<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() { f.write_str(&self.message) } else { write!(f, "`{}`: {}", self.place, self.message) }
    }
}

/// One step into a value.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The JSON pointer of a place.
pub(super) fn pointer(steps: &[Step]) -> String {
    let token = |step: &Step| match step {
        Step::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Step::Index(index) => format!("/{index}"),
    };
    steps.iter().map(token).collect()
}

/// The place as an expression would name it.
pub(super) fn place(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Index(index) => text.push_str(&format!("[{index}]")),
            Step::Key(key) if !is_name(key) => text.push_str(&format!("[{}]", Value::from(key.as_str()))),
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
        }
    }
    text
}

fn is_name(key: &str) -> bool {
    !key.is_empty()
        && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
        && !key.starts_with(|c: char| c.is_numeric())
}

/// What a value is, for "found …".
pub(super) fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("{flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", Value::from(shortened(text, FOUND_CHARS))),
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The text, cut with an ellipsis where it is long.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A complaint of the schema library in our words.
pub(super) fn complaint(error: &jsonschema::ValidationError<'_>) -> String {
    use jsonschema::error::ValidationErrorKind as Kind;
    let instance = error.instance();
    let found = found(instance);
    match error.kind() {
        Kind::MinLength { limit } => {
            format!("expected at least {}, found {}", count(*limit, "character"), length(instance))
        }
        Kind::MaxLength { limit } => {
            format!("expected at most {}, found {}", count(*limit, "character"), length(instance))
        }
        Kind::MinItems { limit } => format!("expected at least {}, found {}", count(*limit, "item"), length(instance)),
        Kind::MaxItems { limit } => format!("expected at most {}, found {}", count(*limit, "item"), length(instance)),
        Kind::MinProperties { limit } => {
            format!("expected at least {}, found {}", count(*limit, "member"), length(instance))
        }
        Kind::MaxProperties { limit } => {
            format!("expected at most {}, found {}", count(*limit, "member"), length(instance))
        }
        Kind::Minimum { limit } => format!("expected at least {limit}, found {found}"),
        Kind::Maximum { limit } => format!("expected at most {limit}, found {found}"),
        Kind::ExclusiveMinimum { limit } => format!("expected more than {limit}, found {found}"),
        Kind::ExclusiveMaximum { limit } => format!("expected less than {limit}, found {found}"),
        Kind::MultipleOf { multiple_of } => format!("expected a multiple of {multiple_of}, found {found}"),
        Kind::Pattern { pattern } => format!("expected text that matches `{pattern}`, found {found}"),
        Kind::Format { format } => format!("expected {}, found {found}", format_name(format)),
        Kind::UniqueItems => "expected items that differ from each other".to_owned(),
        Kind::Constant { expected_value } => format!("expected {expected_value}, found {found}"),
        Kind::Enum { options } => {
            let options = options.as_array().map_or(&[][..], Vec::as_slice);
            format!("expected one of {}, found {found}", crate::value::describe::values_text(options))
        }
        Kind::Type { kind } => format!("expected {}, found {found}", type_name(kind)),
        Kind::Required { property: Value::String(name) } => format!("missing field `{name}`"),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let names = unexpected.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            format!("unknown field {names}")
        }
        _ => shortened(&error.masked_with("the value").to_string(), MESSAGE_CHARS),
    }
}

/// What a value of one of the types of JSON Schema is called.
fn type_name(kind: &jsonschema::error::TypeKind) -> String {
    use jsonschema::JsonType;
    use jsonschema::error::TypeKind;
    let name = |kind: JsonType| match kind {
        JsonType::Array => "a list",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    };
    match kind {
        TypeKind::Single(kind) => name(*kind).to_owned(),
        TypeKind::Multiple(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
    }
}

/// What a string of a format is called.
pub(super) fn format_name(format: &str) -> String {
    match format {
        "date" => "a date such as `2026-01-31`".to_owned(),
        "date-time" => "a date and time such as `2026-01-31T12:00:00Z`".to_owned(),
        "uri" => "a URI such as `https://example.com/`".to_owned(),
        "email" => "an e-mail address".to_owned(),
        other => format!("text in the format `{other}`"),
    }
}

fn count(limit: u64, noun: &str) -> String {
    if limit == 1 { format!("1 {noun}") } else { format!("{limit} {noun}s") }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The steps to where the schema library found an error.
pub(super) fn steps(error: &jsonschema::ValidationError<'_>) -> Vec<Step> {
    use jsonschema::paths::LocationSegment;
    let step = |segment: LocationSegment<'_>| match segment {
        LocationSegment::Property(key) => Step::Key(key.into_owned()),
        LocationSegment::Index(index) => Step::Index(index),
    };
    error.instance_path().iter().map(step).collect()
}
