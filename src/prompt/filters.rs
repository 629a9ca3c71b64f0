//! Filters and tests of our own, and those of minijinja that behave otherwise here.
//!
//! To add one: a function, a line in [`register`], and its type in `check/filters.rs`.

use super::text::{self, Limited};
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

/// The longest text that a filter makes, in bytes.
const TEXT_MAX: usize = 16 << 20;

/// Adds them to an environment.
pub(super) fn register(env: &mut Environment<'_>) {
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("join", join);
    env.add_filter("string", string);
    env.add_filter("tojson", tojson);
    env.add_filter("urlencode", urlencode);
    env.add_filter("truncate", truncate);
    env.add_filter("wordcount", wordcount);
    env.add_filter("pluralize", minijinja_contrib::filters::pluralize);
    env.add_test("none", is_none);
    env.set_unknown_method_callback(method);
    // It would show every variable.
    env.remove_global("debug");
}

/// `x | default(y)`: `y` where `x` is undefined or null; `default(y, true)`: also where it is false or empty.
fn default(value: &Value, args: Rest<Value>) -> Result<Value, Error> {
    let mut positional = args.0;
    let kwargs: Option<Kwargs> = positional.last().and_then(|last| Kwargs::try_from(last.clone()).ok());
    if kwargs.is_some() {
        positional.pop();
    }
    let named = |name: &str| kwargs.as_ref().and_then(|kwargs| kwargs.get::<Option<Value>>(name).ok().flatten());
    if positional.len() > 2 {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let fallback = positional.first().cloned().or_else(|| named("default_value")).unwrap_or_else(|| Value::from(""));
    let falsy = positional.get(1).cloned().or_else(|| named("boolean")).is_some_and(|value| value.is_true());
    let absent = value.is_undefined() || value.is_none() || (falsy && !value.is_true());
    Ok(if absent { fallback } else { value.clone() })
}

/// `list | join(", ", attribute="name")`: the texts of the elements, as they would print.
fn join(state: &State<'_, '_>, value: &Value, separator: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "there is nothing to join"));
    }
    let separator = match separator.or(kwargs.get::<Option<Value>>("d")?) {
        Some(separator) => separator.as_str().unwrap_or_default().to_owned(),
        None => String::new(),
    };
    let attribute = kwargs.get::<Option<Value>>("attribute")?;
    kwargs.assert_all_used()?;
    let _ = state;
    let mut out = Limited { text: String::new(), left: TEXT_MAX };
    for (index, item) in value.try_iter()?.enumerate() {
        use std::fmt::Write;
        if index > 0 {
            out.write_str(&separator)?;
        }
        let item = match &attribute {
            Some(path) => at_path(&item, path)?,
            None => item,
        };
        text::write_text(&mut out, &item)?;
    }
    Ok(Value::from(out.text))
}

fn at_path(value: &Value, path: &Value) -> Result<Value, Error> {
    let Some(text) = path.as_str() else { return value.get_item(path) };
    let mut value = value.clone();
    for part in text.split('.') {
        value = match part.parse::<usize>() {
            Ok(index) => value.get_item_by_index(index)?,
            Err(_) => value.get_attr(part)?,
        };
    }
    Ok(value)
}

/// `x | string`: the text of a value, as it would print.
fn string(value: &Value) -> Result<Value, Error> {
    if value.as_str().is_some() {
        return Ok(value.clone());
    }
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let mut out = Limited { text: String::new(), left: TEXT_MAX };
    text::write_text(&mut out, value)?;
    Ok(Value::from(out.text))
}

/// `x | tojson`, `x | tojson(indent=2)`: JSON; on one line unless indented. Nothing is escaped for HTML.
fn tojson(value: &Value, indent: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let indent = indent.or(kwargs.get::<Option<Value>>("indent")?).filter(|indent| !indent.is_none());
    kwargs.assert_all_used()?;
    let indent = match indent {
        None => None,
        Some(indent) if indent.kind() == ValueKind::Bool => indent.is_true().then_some(2),
        Some(indent) => Some(indent.as_usize().unwrap_or(2).min(16)),
    };
    let mut out = Limited { text: String::new(), left: TEXT_MAX };
    text::write_layout(&mut out, value, 0, indent)?;
    Ok(Value::from(out.text))
}

/// `x | urlencode`: percent-encoded for a path segment or query value; a map or a list of pairs gives `a=b&c=d`.
/// Absent and null members are left out.
fn urlencode(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Map => {
            let mut pairs = Vec::new();
            for key in value.try_iter()? {
                let item = value.get_item(&key)?;
                if !item.is_none() && !item.is_undefined() {
                    pairs.push(format!("{}={}", encoded(&key)?, encoded(&item)?));
                }
            }
            Ok(Value::from(pairs.join("&")))
        }
        ValueKind::Undefined => Err(Error::new(ErrorKind::UndefinedError, "there is nothing to encode")),
        _ => encoded(value).map(Value::from),
    }
}

fn encoded(value: &Value) -> Result<String, Error> {
    let mut text = String::new();
    text::write_text(&mut text, value)?;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    Ok(out)
}

/// `text | truncate(length=255, killwords=false, end="...", leeway=5)`: cut at a word, when it is longer.
fn truncate(text: &str, args: Rest<Value>) -> Result<String, Error> {
    let mut positional = args.0;
    let kwargs: Option<Kwargs> = positional.last().and_then(|last| Kwargs::try_from(last.clone()).ok());
    if kwargs.is_some() {
        positional.pop();
    }
    let argument = |at: usize, name: &str| {
        let named = kwargs.as_ref().and_then(|kwargs| kwargs.get::<Option<Value>>(name).ok().flatten());
        positional.get(at).cloned().or(named)
    };
    let number = |at, name, otherwise| argument(at, name).and_then(|value| value.as_usize()).unwrap_or(otherwise);
    let (length, leeway) = (number(0, "length", 255), number(3, "leeway", 5));
    let end = argument(2, "end").and_then(|end| end.as_str().map(str::to_owned)).unwrap_or_else(|| "...".to_owned());
    let kill = argument(1, "killwords").is_some_and(|kill| kill.is_true());
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text.to_owned());
    }
    let kept: String = text.chars().take(length.saturating_sub(end.chars().count())).collect();
    let kept = match kept.rfind(' ') {
        Some(at) if !kill => &kept[..at],
        _ => kept.as_str(),
    };
    Ok(format!("{kept}{end}"))
}

/// `text | wordcount`: how many words it has.
fn wordcount(text: &str) -> usize {
    text.split_whitespace().count()
}

/// `x is none`: null, or absent, which is the same for an optional field.
fn is_none(value: &Value) -> bool {
    value.is_none() || value.is_undefined()
}

/// Python's methods on strings, lists and maps; texts are joined as they would print.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let ("join", Some(separator), [items]) = (name, value.as_str(), args) {
        let no_names = Kwargs::from_iter(Vec::<(&str, Value)>::new());
        return join(state, items, Some(Value::from(separator)), no_names);
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}
