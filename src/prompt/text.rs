//! How values print in text: a string as it is, anything else as JSON that people can read.

use super::value::DEPTH_MAX;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use std::fmt::{self, Write};

/// Writes a value as text.
///
/// # Errors
/// Null and undefined values are errors, and so are values that have no JSON.
pub(super) fn write_text(out: &mut dyn Write, value: &Value) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        return Ok(out.write_str(text)?);
    }
    if value.is_none() {
        let message =
            "the value is null, which has no text; give one with `| default(\"…\")` or test it with `is none`";
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    write_json(out, value, 0)
}

/// Writes a value as JSON on one line with a space after `:` and `,`.
///
/// # Errors
/// See [`write_text`].
pub(super) fn write_json(out: &mut dyn Write, value: &Value, depth: usize) -> Result<(), Error> {
    write_layout(out, value, depth, None)
}

/// As [`write_json`], with line breaks and `indent` spaces a level when given.
pub(super) fn write_layout(
    out: &mut dyn Write,
    value: &Value,
    depth: usize,
    indent: Option<usize>,
) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        let message = format!("the value is nested deeper than {DEPTH_MAX} levels");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    match value.kind() {
        ValueKind::Undefined => Err(Error::new(ErrorKind::UndefinedError, "a value in it is undefined")),
        ValueKind::None => Ok(out.write_str("null")?),
        ValueKind::Bool => Ok(out.write_str(if value.is_true() { "true" } else { "false" })?),
        ValueKind::Number => Ok(write!(out, "{value}")?),
        ValueKind::String => Ok(write_string(out, value.as_str().unwrap_or_default())?),
        ValueKind::Bytes => Ok(write_string(out, &String::from_utf8_lossy(value.as_bytes().unwrap_or_default()))?),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut line = Line::open(out, '[', depth, indent)?;
            for item in value.try_iter()? {
                line.next(out)?;
                write_layout(out, &item, depth + 1, indent)?;
            }
            Ok(line.close(out, ']')?)
        }
        ValueKind::Map => {
            let mut line = Line::open(out, '{', depth, indent)?;
            for key in value.try_iter()? {
                line.next(out)?;
                write_string(out, &self::key(&key))?;
                out.write_str(": ")?;
                write_layout(out, &value.get_item(&key)?, depth + 1, indent)?;
            }
            Ok(line.close(out, '}')?)
        }
        ValueKind::Invalid => Err(Error::new(ErrorKind::InvalidOperation, value.to_string())),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "a function has no text; call it with `()`")),
    }
}

/// The separators between the parts of a list or object.
struct Line {
    depth: usize,
    indent: Option<usize>,
    empty: bool,
}

impl Line {
    fn open(out: &mut dyn Write, bracket: char, depth: usize, indent: Option<usize>) -> Result<Line, fmt::Error> {
        out.write_char(bracket)?;
        Ok(Line { depth, indent, empty: true })
    }

    fn next(&mut self, out: &mut dyn Write) -> fmt::Result {
        let first = std::mem::replace(&mut self.empty, false);
        match self.indent {
            Some(width) => {
                out.write_str(if first { "\n" } else { ",\n" })?;
                (0..width * (self.depth + 1)).try_for_each(|_| out.write_char(' '))
            }
            None if first => Ok(()),
            None => out.write_str(", "),
        }
    }

    fn close(&self, out: &mut dyn Write, bracket: char) -> fmt::Result {
        if let Some(width) = self.indent.filter(|_| !self.empty) {
            out.write_char('\n')?;
            (0..width * self.depth).try_for_each(|_| out.write_char(' '))?;
        }
        out.write_char(bracket)
    }
}

/// A map key as JSON has it.
pub(super) fn key(key: &Value) -> String {
    match key.kind() {
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
        ValueKind::None => "null".to_owned(),
        _ => key.as_str().map_or_else(|| key.to_string(), str::to_owned),
    }
}

fn write_string(out: &mut dyn Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        let escaped = match c {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            c if (c as u32) < 0x20 => None,
            _ => continue,
        };
        out.write_str(&text[plain..at])?;
        match escaped {
            Some(escaped) => out.write_str(escaped)?,
            None => write!(out, "\\u{:04x}", c as u32)?,
        }
        plain = at + c.len_utf8();
    }
    out.write_str(&text[plain..])?;
    out.write_char('"')
}

/// A value cut short for an error message.
pub(super) fn short(value: &Value) -> String {
    const SHOWN_MAX: usize = 80;
    let mut text = Limited { text: String::new(), left: SHOWN_MAX };
    let cut = write_json(&mut text, value, 0).is_err();
    match (value.is_undefined(), cut) {
        (true, _) => "undefined".to_owned(),
        (false, true) => text.text + "…",
        (false, false) => text.text,
    }
}

/// A string that takes so many bytes and no more.
pub(super) struct Limited {
    pub(super) text: String,
    pub(super) left: usize,
}

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() <= self.left {
            self.left -= text.len();
            self.text.push_str(text);
            return Ok(());
        }
        let end = (0..=self.left).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.text.push_str(&text[..end]);
        self.left = 0;
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::from_json;
    use super::*;
    use serde_json::json;

    fn text(value: &Value) -> String {
        let mut out = String::new();
        write_text(&mut out, value).unwrap();
        out
    }

    #[test]
    fn values_print_as_json_and_strings_as_they_are() {
        let value = json!({"b": [1, true, null, "a\"\n\u{1}é"], "a": {}, "c": []});
        assert_eq!(text(&from_json(&value)), r#"{"b": [1, true, null, "a\"\n\u0001é"], "a": {}, "c": []}"#);
        assert_eq!(text(&Value::from("plain <b>")), "plain <b>");
        assert_eq!(text(&from_json(&json!(1.5))), "1.5");
        assert_eq!(text(&Value::from(true)), "true");
        assert!(write_text(&mut String::new(), &Value::from(())).is_err());
        let mut out = String::new();
        write_layout(&mut out, &from_json(&value), 0, Some(2)).unwrap();
        assert_eq!(out, serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn long_values_are_cut_on_a_character_boundary() {
        let shown = short(&Value::from("é".repeat(100)));
        assert!(shown.len() < 90 && shown.ends_with('…'), "{shown}");
    }
}
