//! Finding the JSON in a reply (runtime.md 4): fences and prose around it are tolerated, repair only where it is unambiguous.
//!
//! The order of tries: the whole text; the one fence whose content parses; the one object, else the one array, that the
//! prose holds. Several different values are ambiguous. What is repaired: a comma before `}` or `]`. Nothing else: other
//! quotes, missing brackets and comments could mean several things, so the model is asked again instead.

use serde_json::Value;

/// The longest reply that is read (runtime.md 7).
pub const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why no value was found, in words that the model can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The reply has no text.
    #[error("the reply is empty; expected JSON")]
    Empty,
    /// The reply is too long.
    #[error("the reply has {bytes} bytes; at most 16 MiB are read")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// No JSON in it.
    #[error("the reply is not valid JSON: {message}")]
    Invalid {
        /// The parser's complaint about the best candidate, with its line and column.
        message: String,
    },
    /// Several values, and nothing says which is meant.
    #[error("the reply holds {count} JSON values; expected exactly one")]
    Ambiguous {
        /// How many.
        count: usize,
    },
}

/// How many openings that lead nowhere are tried in prose, so that hostile text costs no more than this many passes.
const OPENINGS_MAX: usize = 64;

/// Returns the one JSON value that `text` holds.
pub fn parse_reply_json(text: &str) -> Result<Value, ParseError> {
    if text.len() > REPLY_BYTES_MAX {
        return Err(ParseError::TooLarge { bytes: text.len() });
    }
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err(ParseError::Empty);
    }
    let error = match parse_or_repair(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let fenced: Vec<&str> = fences(text).collect();
    let from_fences: Vec<Value> = fenced.iter().filter_map(|content| parse_or_repair(content).ok()).collect();
    if let Some(value) = the_one(from_fences)? {
        return Ok(value);
    }
    let found = values_in_prose(text);
    let (objects, arrays): (Vec<Value>, Vec<Value>) = found.into_iter().partition(Value::is_object);
    if let Some(value) = the_one(objects)?.map_or_else(|| the_one(arrays), |object| Ok(Some(object)))? {
        return Ok(value);
    }
    // Prose around a value that needs repair: from the first bracket to the last.
    let outermost = text.find(['{', '[']).zip(text.rfind(['}', ']'])).filter(|(start, end)| start < end);
    if let Some((start, end)) = outermost
        && let Ok(value) = parse_or_repair(&text[start..=end])
    {
        return Ok(value);
    }
    // The complaint about the only fence says more than the one about the prose around it.
    let message = match fenced[..] {
        [content] => serde_json::from_str::<Value>(content).err().map(|error| error.to_string()),
        _ => None,
    };
    Err(ParseError::Invalid { message: message.unwrap_or_else(|| error.to_string()) })
}

/// The one value, or several equal ones.
fn the_one(values: Vec<Value>) -> Result<Option<Value>, ParseError> {
    let count = values.len();
    let mut values = values.into_iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.all(|other| other == first) { Ok(Some(first)) } else { Err(ParseError::Ambiguous { count }) }
}

fn parse_or_repair(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| {
        let repaired = without_trailing_commas(text);
        if repaired.len() == text.len() {
            return Err(error);
        }
        serde_json::from_str(&repaired).map_err(|_| error)
    })
}

/// The contents of Markdown fences of three backticks, closed ones only.
fn fences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let after = &rest[rest.find("```")? + 3..];
        // The rest of the opening line names the language, unless the content begins on it.
        let line = after.find('\n').unwrap_or(0);
        let content = if after[..line].contains(['{', '[', '"']) { after } else { &after[line..] };
        let end = content.find("\n```").or_else(|| content.find("```"))?;
        let closing = end + content[end..].find("```")?;
        rest = &content[closing + 3..];
        Some(content[..end].trim())
    })
}

/// The objects and arrays that stand in prose, outermost only.
fn values_in_prose(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let (mut at, mut failed) = (0, 0);
    while failed < OPENINGS_MAX {
        let Some(start) = text[at..].find(['{', '[']).map(|offset| at + offset) else { break };
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => {
                at = start + stream.byte_offset();
                found.push(value);
            }
            _ => {
                at = start + 1;
                failed += 1;
            }
        }
    }
    found
}

/// Leaves out each comma, outside of strings, that only blanks separate from a closing bracket.
fn without_trailing_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for (at, character) in text.char_indices() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if character == '"' {
            in_string = true;
        } else if character == ',' && next_is_closing(&text[at + 1..]) {
            continue;
        }
        out.push(character);
    }
    out
}

fn next_is_closing(rest: &str) -> bool {
    matches!(rest.trim_start().as_bytes().first(), Some(b'}' | b']'))
}

/// The value that a reply will have as far as it has come, for showing it while it streams; never for use as a result.
///
/// Open strings, lists and objects are closed where the text ends; a member whose value has not begun is left out. `None`
/// while there is nothing to show. Each call reads the whole text: call it at a pace to look at, not for every piece.
pub fn parse_partial_json(text: &str) -> Option<Value> {
    let text = &text[text.find(['{', '['])?..];
    let mut closers: Vec<char> = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    // The last place where what stands before it is whole but for closers, and how many of them were open there.
    let mut whole: Option<(usize, Vec<char>)> = None;
    for (at, character) in text.char_indices() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '"' => in_string = true,
            '{' | '[' => {
                closers.push(if character == '{' { '}' } else { ']' });
                whole = Some((at + 1, closers.clone()));
            }
            '}' | ']' => {
                closers.pop();
                whole = Some((at + 1, closers.clone()));
            }
            ',' => whole = Some((at, closers.clone())),
            _ => {}
        }
        if closers.is_empty() {
            return serde_json::from_str(&text[..=at]).ok();
        }
        if closers.len() > PARTIAL_DEPTH_MAX {
            return None;
        }
    }
    let close = |head: &str, open: &[char]| {
        let tail: String = open.iter().rev().collect();
        serde_json::from_str(&format!("{head}{tail}")).ok()
    };
    // A text that is being written is shown as far as it goes, less a broken escape at its end.
    let quoted = in_string.then(|| {
        (0..=5).find_map(|cut| {
            let head = text.get(..text.len().checked_sub(cut)?)?;
            close(&format!("{head}\""), &closers)
        })
    });
    quoted.flatten().or_else(|| close(text, &closers)).or_else(|| {
        let (at, open) = whole?;
        close(&text[..at], &open)
    })
}

/// How deep a partial value is followed: as deep as whole ones are.
const PARTIAL_DEPTH_MAX: usize = 127;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_the_value_in_fences_and_prose() {
        let found = [
            "{\"a\": 1}",
            "  \u{feff}{\"a\": 1}\n",
            "```json\n{\"a\": 1}\n```",
            "Here you are:\n```\n{\"a\": 1}\n```\nAnything else?",
            "```json {\"a\": 1} ```",
            "Sure! {\"a\": 1} as you asked, see [1] and [note].",
            "{\"a\": 1,}",
            "```json\n{\"a\": 1,\n}\n```",
            "Sure: {\"a\": 1, } done",
            "```json\n{\"a\": 1}\n```\nthe same again\n```json\n{\"a\":1}\n```",
        ];
        for text in found {
            assert_eq!(parse_reply_json(text), Ok(json!({"a": 1})), "{text}");
        }
        assert_eq!(parse_reply_json("The list: [1, 2]"), Ok(json!([1, 2])));
        assert_eq!(parse_reply_json("42"), Ok(json!(42)));
        assert_eq!(
            parse_reply_json(r#"{"code": "```js\nx\n```", "s": "a,}"}"#),
            Ok(json!({"code": "```js\nx\n```", "s": "a,}"}))
        );
        assert_eq!(parse_reply_json(r#"{"s": "\",}", "t": [1,],}"#), Ok(json!({"s": "\",}", "t": [1]})));
    }

    #[test]
    fn guesses_nothing() {
        let ambiguous = parse_reply_json("{\"a\": 1} or {\"a\": 2}");
        assert_eq!(ambiguous, Err(ParseError::Ambiguous { count: 2 }));
        assert_eq!(parse_reply_json("```\n1\n```\n```\n2\n```"), Err(ParseError::Ambiguous { count: 2 }));
        for text in ["{'a': 1}", "{\"a\": 1", "{a: 1}", "{\"a\": 1 // x\n}", "not { json", "I cannot"] {
            assert!(matches!(parse_reply_json(text), Err(ParseError::Invalid { .. })), "{text}");
        }
        assert_eq!(parse_reply_json(" \n"), Err(ParseError::Empty));
        let message = parse_reply_json("Here:\n```json\n{\"a\": 1\n```").unwrap_err().to_string();
        assert_eq!(message, "the reply is not valid JSON: EOF while parsing an object at line 1 column 7");
    }

    #[test]
    fn hostile_text_costs_few_passes() {
        assert!(matches!(parse_reply_json(&"[".repeat(1_000_000)), Err(ParseError::Invalid { .. })));
        assert!(matches!(parse_reply_json(&"{\"a\":[\"".repeat(200_000)), Err(ParseError::Invalid { .. })));
        assert!(matches!(parse_reply_json(&", \n".repeat(1_000_000)), Err(ParseError::Invalid { .. })));
        let long = format!("\"{}\"", "a".repeat(REPLY_BYTES_MAX));
        assert!(matches!(parse_reply_json(&long), Err(ParseError::TooLarge { .. })));
    }

    #[test]
    fn cutting_a_reply_anywhere_never_panics() {
        let text = "Söme ```json\n{\"ä\": [1, {\"b\": \"🦀,}\"},],}\n``` [x] {";
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _ = parse_reply_json(&text[..end]);
            let _ = parse_reply_json(&text[end..]);
        }
    }

    #[test]
    fn a_reply_can_be_shown_while_it_comes() {
        let shown = [
            ("", None),
            ("Sure: ", None),
            ("{", Some(json!({}))),
            ("{\"na", Some(json!({}))),
            ("{\"name\":", Some(json!({}))),
            ("{\"name\": \"Ly", Some(json!({"name": "Ly"}))),
            ("{\"name\": \"Ly\\u00", Some(json!({"name": "Ly"}))),
            ("{\"name\": \"Ly\", \"age\": 4", Some(json!({"name": "Ly", "age": 4}))),
            ("{\"name\": \"Ly\", \"ok\": tr", Some(json!({"name": "Ly"}))),
            ("{\"items\": [{\"a\": 1}, {\"b\"", Some(json!({"items": [{"a": 1}, {}]}))),
            ("```json\n{\"a\": 1}\n```", Some(json!({"a": 1}))),
        ];
        for (text, expected) in shown {
            assert_eq!(parse_partial_json(text), expected, "{text}");
        }
        assert_eq!(parse_partial_json(&"[".repeat(100_000)), None);
    }
}
