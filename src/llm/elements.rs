//! The elements of a list while its reply streams: each is given as soon as it is complete and fits its schema.

use serde_json::{Value, json};

use super::request::OutputSchema;

/// Finds complete elements in text that comes in pieces.
pub struct Elements {
    validator: Option<jsonschema::Validator>,
    scanner: Scanner,
    given: usize,
}

impl Elements {
    /// For the replies of an output; `None` when it is no list.
    pub fn of(output: &OutputSchema) -> Option<Elements> {
        let schema = &output.schema;
        if schema.get("type").and_then(Value::as_str) != Some("array") {
            return None;
        }
        let mut items = schema.get("items").cloned().unwrap_or(Value::Bool(true));
        if let (Some(items), Some(definitions)) = (items.as_object_mut(), schema.get("$defs")) {
            items.insert("$defs".into(), definitions.clone());
        }
        Some(Elements { validator: validator(&items), scanner: Scanner::default(), given: 0 })
    }

    /// Takes more text; returns the elements that it completes, each with its number from 0. What does not fit its
    /// schema is left out here: the whole reply is judged when it is there.
    pub fn feed(&mut self, text: &str) -> Vec<(usize, Value)> {
        let found = self.scanner.feed(text);
        let fitting = found.into_iter().filter(|value| self.validator.as_ref().is_none_or(|fits| fits.is_valid(value)));
        let numbered: Vec<(usize, Value)> = fitting.zip(self.given..).map(|(value, at)| (at, value)).collect();
        self.given += numbered.len();
        numbered
    }

    /// The reply comes anew.
    pub fn restart(&mut self) {
        self.scanner = Scanner::default();
        self.given = 0;
    }
}

/// A validator of a JSON Schema; `None` when the schema cannot be compiled, which the whole reply's judge will tell.
pub(crate) fn validator(schema: &Value) -> Option<jsonschema::Validator> {
    let schema = match schema {
        Value::Bool(any) => json!(any),
        schema => schema.clone(),
    };
    jsonschema::options().offline().should_validate_formats(true).build(&schema).ok()
}

/// Splits a list, at the root or in the envelope, into its elements' texts. Linear in what comes.
#[derive(Default)]
struct Scanner {
    element: String,
    depth: usize,
    /// The depth inside the list, once it has begun.
    list: Option<usize>,
    in_string: bool,
    escaped: bool,
    done: bool,
}

impl Scanner {
    fn feed(&mut self, text: &str) -> Vec<Value> {
        let mut found = Vec::new();
        for character in text.chars() {
            if self.done {
                break;
            }
            self.take(character, &mut found);
        }
        found
    }

    fn take(&mut self, character: char, found: &mut Vec<Value>) {
        let inside = self.list.is_some();
        if self.in_string {
            self.in_string = self.escaped || character != '"';
            self.escaped = !self.escaped && character == '\\';
        } else {
            match character {
                // Quotes in the prose before the value are no strings.
                '"' => self.in_string = self.depth > 0,
                '[' if !inside && self.depth <= 1 => {
                    self.depth += 1;
                    self.list = Some(self.depth);
                    return;
                }
                '{' | '[' => self.depth += 1,
                '}' | ']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.list.is_some_and(|list| self.depth < list) {
                        self.end_element(found);
                        self.done = true;
                        return;
                    }
                }
                ',' if self.list == Some(self.depth) => {
                    self.end_element(found);
                    return;
                }
                _ => {}
            }
        }
        if inside {
            self.element.push(character);
        }
    }

    fn end_element(&mut self, found: &mut Vec<Value>) {
        let text = std::mem::take(&mut self.element);
        found.extend(serde_json::from_str::<Value>(text.trim()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements() -> Elements {
        let item = json!({"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]});
        let schema = json!({"type": "array", "items": {"$ref": "#/$defs/T"}, "$defs": {"T": item}});
        Elements::of(&OutputSchema::native("[T]", schema)).unwrap()
    }

    #[test]
    fn elements_come_when_they_are_complete_however_the_text_is_cut() {
        let texts = [
            r#"[{"t": "a, ]"}, {"t": 1}, {"t": "\"}"}]"#,
            r#"Here: "x" {"value": [{"t": "a, ]"}, {"u": 2}, {"t": "\"}"}]} [{"t": "no"}]"#,
        ];
        for text in texts {
            let mut elements = elements();
            let mut came = Vec::new();
            for (at, character) in text.char_indices() {
                came.extend(
                    elements.feed(&character.to_string()).into_iter().map(|(number, value)| (at, number, value)),
                );
            }
            let values: Vec<_> = came.iter().map(|(_, number, value)| (*number, value.clone())).collect();
            assert_eq!(values, [(0, json!({"t": "a, ]"})), (1, json!({"t": "\"}"}))], "{text}");
            assert_eq!(&text[came[0].0..=came[0].0], ",", "the first one comes before the second has begun");
            elements.restart();
            assert_eq!(elements.feed(text).len(), 2);
        }
    }

    #[test]
    fn only_lists_have_elements_and_strange_text_has_none() {
        assert!(Elements::of(&OutputSchema::native("T", json!({"type": "object"}))).is_none());
        for text in ["", "]]}}", "[[[[", "{{{", "[,,,]", "\"[", "no list"] {
            assert_eq!(elements().feed(text), [], "{text}");
        }
    }
}
