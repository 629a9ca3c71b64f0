//! Forms at a terminal: a question for each field of a JSON Schema, answered by choice, by yes or no, by a line, or in an
//! editor, each answer checked as it is given.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::engine::Question;
use crate::value::form_violations;

use super::output::{BOLD, DIM, RED};
use super::person::Lines;
use super::{Out, person};

/// What opens the editor instead of an answer.
const EDIT: &str = ":e";
/// Deepest nesting of a form that is asked field by field; deeper parts are given as JSON.
const DEPTH_MAX: usize = 8;
/// Most elements of one list.
const ITEMS_MAX: usize = 1_000;

/// Asks for an answer to a question until it fits. `None`: the input has ended or the run is over, and the process waits.
pub(super) fn fill_in(question: &Question, lines: &Lines, is_over: &dyn Fn() -> bool, out: &Out) -> Option<Value> {
    Form { question, terminal: &mut Stdio { lines, is_over, out } }.fill_in()
}

/// Where questions are put.
trait Terminal {
    /// A line that answers `text`; `None` when there will be none.
    fn line(&mut self, text: &str) -> Option<String>;
    /// Tells something.
    fn say(&mut self, text: &str);
    /// A text as the person leaves it in an editor; an error is told.
    fn edit(&mut self, text: &str) -> Result<String, String>;
    /// Text that stands out.
    fn bold(&self, text: &str) -> String;
    /// Text that stands back.
    fn dim(&self, text: &str) -> String;
    /// Text that warns.
    fn red(&self, text: &str) -> String;
}

/// Standard input and error.
struct Stdio<'a> {
    lines: &'a Lines,
    is_over: &'a dyn Fn() -> bool,
    out: &'a Out,
}

impl Terminal for Stdio<'_> {
    fn line(&mut self, text: &str) -> Option<String> {
        self.lines.line(text, self.is_over)
    }

    fn say(&mut self, text: &str) {
        person::say(text);
    }

    fn edit(&mut self, text: &str) -> Result<String, String> {
        edit(text)
    }

    fn bold(&self, text: &str) -> String {
        self.out.paint_err(BOLD, text)
    }

    fn dim(&self, text: &str) -> String {
        self.out.paint_err(DIM, text)
    }

    fn red(&self, text: &str) -> String {
        self.out.paint_err(RED, text)
    }
}

/// The editor of the environment, if there is one.
fn editor() -> Option<String> {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    named.map(|editor| editor.trim().to_owned()).find(|editor| !editor.is_empty())
}

/// A text as the person leaves it in their editor.
fn edit(text: &str) -> Result<String, String> {
    let editor = editor().ok_or("no editor is set; set EDITOR, or answer here")?;
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or_default().to_owned();
    let path = std::env::temp_dir().join(format!("answer-{}.md", jiff::Timestamp::now().as_nanosecond()));
    private_file(&path, text).map_err(|error| format!("no file for the editor: {error}"))?;
    let ended = std::process::Command::new(&program).args(words).arg(&path).status();
    let written = std::fs::read_to_string(&path);
    // What is left of it is in the answer.
    let _ = std::fs::remove_file(&path);
    match ended {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("the editor `{program}` ended with {status}")),
        Err(error) => return Err(format!("the editor `{program}` did not start: {error}")),
    }
    let written = written.map_err(|error| format!("what was written cannot be read: {error}"))?;
    Ok(written.trim_end().to_owned())
}

/// Makes a file that was not there, for this user only.
fn private_file(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// One question with the terminal it is put at.
struct Form<'a> {
    question: &'a Question,
    terminal: &'a mut dyn Terminal,
}

/// A field as it is asked: what it is called, how, and at which depth.
struct Field<'a> {
    label: &'a str,
    schema: &'a Value,
    required: bool,
    depth: usize,
}

impl Form<'_> {
    fn fill_in(&mut self) -> Option<Value> {
        let heading = self.terminal.bold(&format!("{}: {}", self.question.action, self.question.prompt.trim_end()));
        self.terminal.say(&heading);
        let form = self.question.form.clone();
        loop {
            let schema = self.resolved(&form).clone();
            let answer = match schema["properties"].is_object() {
                true => self.object(&schema, 0)?,
                false => self
                    .field(&Field { label: "answer", schema: &schema, required: true, depth: 0 })?
                    .unwrap_or_default(),
            };
            let wrong = form_violations(&form, &answer);
            if wrong.is_empty() {
                return Some(answer);
            }
            for violation in wrong {
                self.complain(&violation.to_string());
            }
            self.terminal.say("  once more, please");
        }
    }

    /// A schema without the reference that it may be.
    fn resolved<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let target = schema["$ref"].as_str().and_then(|to| self.question.form.pointer(to.strip_prefix('#')?));
        target.unwrap_or(schema)
    }

    /// What is wrong with a part of the answer.
    fn wrong(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut whole = schema.clone();
        if let (Value::Object(whole), Some(defs)) = (&mut whole, self.question.form.get("$defs")) {
            whole.insert("$defs".to_owned(), defs.clone());
        }
        form_violations(&whole, value).iter().map(ToString::to_string).collect()
    }

    fn complain(&mut self, text: &str) {
        let text = self.terminal.red(&format!("    {text}"));
        self.terminal.say(&text);
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let mut object = Map::new();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(only) = field.get("const") {
                object.insert(name.clone(), only.clone());
                continue;
            }
            let own = self.question.labels.get(name).filter(|_| depth == 0).map(String::as_str);
            let label = own.or_else(|| field["title"].as_str()).unwrap_or(name);
            let label = label.to_owned();
            let field = self.resolved(field).clone();
            let required = required.contains(&name.as_str());
            if let Some(value) = self.field(&Field { label: &label, schema: &field, required, depth })? {
                object.insert(name.clone(), value);
            }
        }
        Some(Value::Object(object))
    }

    /// Asks for one value until it fits; the inner `None` is an optional one that was left empty.
    #[allow(clippy::option_option, reason = "no more input, and nothing given, are two things")]
    fn field(&mut self, field: &Field<'_>) -> Option<Option<Value>> {
        let (schema, depth) = (field.schema, field.depth);
        let branches = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
        if let Some(branches) = branches.filter(|_| depth < DEPTH_MAX) {
            return self.alternative(field, branches);
        }
        if schema["properties"].is_object() && depth < DEPTH_MAX {
            let label = format!("{}{}", indent(depth), self.terminal.bold(field.label));
            self.terminal.say(&label);
            if !field.required && !self.agrees(depth, "give it?")? {
                return Some(None);
            }
            return self.object(schema, depth + 1).map(Some);
        }
        if kind(schema) == "array" && depth < DEPTH_MAX {
            return self
                .list(field)
                .map(|list| list.filter(|items| field.required || !items.is_empty()).map(Value::Array));
        }
        self.scalar(field)
    }

    /// One of several forms; null alone makes the other optional.
    #[allow(clippy::option_option, reason = "as for `field`")]
    fn alternative(&mut self, field: &Field<'_>, branches: &[Value]) -> Option<Option<Value>> {
        let resolved: Vec<Value> = branches.iter().map(|branch| self.resolved(branch).clone()).collect();
        let real: Vec<&Value> = resolved.iter().filter(|branch| kind(branch) != "null").collect();
        let may_be_null = real.len() < resolved.len();
        let required = field.required && !may_be_null;
        let chosen = match real.as_slice() {
            [only] => *only,
            several => {
                let names: Vec<String> = several.iter().enumerate().map(|(at, branch)| name_of(branch, at)).collect();
                let names: Vec<Value> = names.into_iter().map(Value::from).collect();
                let choice = json!({"enum": names});
                let picked = self.scalar(&Field { schema: &choice, required, ..*field })?;
                let Some(picked) = picked else { return Some(may_be_null.then_some(Value::Null)) };
                several[names.iter().position(|name| *name == picked)?]
            }
        };
        let value = match chosen["properties"].is_object() && real.len() > 1 {
            true => Some(self.object(chosen, field.depth + 1)?),
            false => self.field(&Field { schema: chosen, required, ..*field })?,
        };
        Some(value.or_else(|| may_be_null.then_some(Value::Null)))
    }

    #[allow(clippy::option_option, reason = "as for `field`")]
    fn list(&mut self, field: &Field<'_>) -> Option<Option<Vec<Value>>> {
        let element = self.resolved(&field.schema["items"]).clone();
        let mut items: Vec<Value> = Vec::new();
        let title = format!("{}{}", indent(field.depth), self.terminal.bold(field.label));
        let hint = self.terminal.dim("(a list; an empty answer ends it)");
        self.terminal.say(&format!("{title} {hint}"));
        while items.len() < ITEMS_MAX {
            let label = format!("{} {}", field.label, items.len() + 1);
            let depth = field.depth + 1;
            if element["properties"].is_object() && !self.agrees(depth, &format!("add {label}?"))? {
                break;
            }
            let required = element["properties"].is_object();
            match self.field(&Field { label: &label, schema: &element, required, depth })? {
                Some(item) => items.push(item),
                None => {
                    let wrong = self.wrong(field.schema, &Value::Array(items.clone()));
                    if wrong.is_empty() || (!field.required && items.is_empty()) {
                        break;
                    }
                    wrong.iter().for_each(|wrong| self.complain(wrong));
                }
            }
        }
        Some(Some(items))
    }

    fn agrees(&mut self, depth: usize, question: &str) -> Option<bool> {
        let hint = self.terminal.dim("[y/N]");
        let answer = self.terminal.line(&format!("{}{question} {hint} ", indent(depth + 1)))?;
        Some(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
    }

    /// A value that is given in one line, or in the editor.
    #[allow(clippy::option_option, reason = "as for `field`")]
    fn scalar(&mut self, field: &Field<'_>) -> Option<Option<Value>> {
        let (schema, pad) = (field.schema, indent(field.depth));
        let choices = schema["enum"].as_array();
        let hint = self.terminal.dim(&format!("({})", hint(field)));
        if let Some(choices) = choices {
            self.terminal.say(&format!("{pad}{} {hint}", field.label));
            for (at, choice) in choices.iter().enumerate() {
                self.terminal.say(&format!("{pad}  {}. {}", at + 1, text(choice)));
            }
        }
        let asked = match choices {
            Some(_) => format!("{pad}  number or name: "),
            None => format!("{pad}{} {hint}: ", field.label),
        };
        let mut draft = String::new();
        loop {
            let mut answer = self.terminal.line(&asked)?;
            if answer == EDIT && kind(schema) == "string" && choices.is_none() {
                match self.terminal.edit(&draft) {
                    Ok(written) => {
                        draft.clone_from(&written);
                        answer = written;
                    }
                    Err(why) => {
                        self.complain(&why);
                        continue;
                    }
                }
            }
            if answer.is_empty() {
                if let Some(default) = schema.get("default") {
                    return Some(Some(default.clone()));
                }
                if !field.required {
                    return Some(None);
                }
            }
            let value = read(schema, &answer);
            let wrong = self.wrong(schema, &value);
            if wrong.is_empty() {
                return Some(Some(value));
            }
            wrong.iter().for_each(|wrong| self.complain(wrong));
        }
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth + 1)
}

/// The kind of value that a schema asks for; of several the one that is not null.
fn kind(schema: &Value) -> &str {
    let several = schema["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let first = several.clone().find(|kind| *kind != "null");
    schema["type"].as_str().or(first).unwrap_or_default()
}

/// How an alternative is called: by its type, its title, or its number.
fn name_of(branch: &Value, at: usize) -> String {
    let of_type = branch["properties"].as_object().into_iter().flatten().find_map(|(_, field)| field["const"].as_str());
    let named = of_type.or_else(|| branch["title"].as_str()).or_else(|| branch["const"].as_str());
    named.map_or_else(|| format!("{} {}", at + 1, kind(branch)).trim().to_owned(), str::to_owned)
}

/// What is said of a field behind its label.
fn hint(field: &Field<'_>) -> String {
    let schema = field.schema;
    let kind = match (kind(schema), schema["format"].as_str()) {
        ("boolean", _) => "yes or no",
        ("string", Some(format)) => format,
        ("string", None) if schema["enum"].is_null() && editor().is_some() => "text; :e opens the editor",
        ("string", None) => "text",
        ("", _) if schema["enum"].is_array() => "one of these",
        ("" | "object", _) => "JSON",
        (kind, _) => kind,
    };
    let mut parts = vec![kind.to_owned()];
    parts.extend(schema["description"].as_str().map(str::to_owned));
    parts.extend(schema.get("default").map(|default| format!("empty: {}", text(default))));
    if !field.required && schema.get("default").is_none() {
        parts.push("may be left empty".to_owned());
    }
    parts.join(", ")
}

/// A value as a person reads it.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a typed answer means: a choice by its number or name, yes and no, text as it is, anything else as JSON.
fn read(schema: &Value, answer: &str) -> Value {
    if let Some(choices) = schema["enum"].as_array() {
        let named = choices.iter().find(|choice| text(choice) == answer);
        let numbered = answer.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
        return named.or(numbered).cloned().unwrap_or_else(|| Value::from(answer));
    }
    match (kind(schema), answer.to_lowercase().as_str()) {
        ("string", _) => Value::from(answer),
        ("boolean", "y" | "yes" | "true") => Value::Bool(true),
        ("boolean", "n" | "no" | "false") => Value::Bool(false),
        _ => serde_json::from_str(answer).unwrap_or_else(|_| Value::from(answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A person who types these lines, and writes this in the editor.
    struct Typed {
        lines: Vec<&'static str>,
        said: Vec<String>,
    }

    impl Terminal for Typed {
        fn line(&mut self, text: &str) -> Option<String> {
            self.said.push(text.trim().to_owned());
            (!self.lines.is_empty()).then(|| self.lines.remove(0).to_owned())
        }

        fn say(&mut self, text: &str) {
            self.said.push(text.trim().to_owned());
        }

        fn edit(&mut self, _: &str) -> Result<String, String> {
            Ok("two\nlines".to_owned())
        }

        fn bold(&self, text: &str) -> String {
            text.to_owned()
        }

        fn dim(&self, text: &str) -> String {
            text.to_owned()
        }

        fn red(&self, text: &str) -> String {
            format!("!{text}")
        }
    }

    fn filled(form: Value, lines: &[&'static str]) -> (Option<Value>, Vec<String>) {
        let mut question = Question::ask("What of it?", form);
        question.labels.insert("comments".to_owned(), "Your comments".to_owned());
        let mut terminal = Typed { lines: lines.to_vec(), said: Vec::new() };
        let answer = Form { question: &question, terminal: &mut terminal }.fill_in();
        (answer, terminal.said)
    }

    fn form() -> Value {
        json!({
            "type": "object",
            "properties": {
                "comments": {"type": "string", "minLength": 2},
                "approved": {"type": "boolean"},
                "score": {"type": "integer", "minimum": 1, "maximum": 5},
                "mood": {"$ref": "#/$defs/Mood"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "by": {"type": "string"},
            },
            "required": ["comments", "approved", "score", "mood", "tags"],
            "additionalProperties": false,
            "$defs": {"Mood": {"type": "string", "enum": ["calm", "cross"]}},
        })
    }

    #[test]
    fn each_field_is_asked_in_its_own_way_until_it_fits() {
        let typed = ["x", "fine", "perhaps", "no", "9", "4", "2", "red", "blue", "", ""];
        let (answer, said) = filled(form(), &typed);
        let expected =
            json!({"comments": "fine", "approved": false, "score": 4, "mood": "cross", "tags": ["red", "blue"]});
        assert_eq!(answer, Some(expected));
        let complaints: Vec<&String> = said.iter().filter(|line| line.starts_with('!')).collect();
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(said.iter().any(|line| line.starts_with("Your comments (")), "{said:#?}");
        assert!(
            said.iter().any(|line| line == "2. cross") && said.iter().any(|line| line.contains("may be left empty"))
        );
    }

    #[test]
    fn long_text_comes_from_the_editor() {
        let form = json!({"type": "string"});
        assert_eq!(filled(form, &[":e"]).0, Some(json!("two\nlines")));
    }

    #[test]
    fn an_end_of_the_input_is_no_answer() {
        assert_eq!(filled(form(), &["fine"]).0, None);
    }

    #[test]
    fn alternatives_are_chosen_and_optional_parts_left_out() {
        let form = json!({"type": "object", "required": ["to"], "properties": {
            "to": {"anyOf": [
                {"type": "object", "properties": {"type": {"const": "Mail"}, "address": {"type": "string"}}, "required": ["type", "address"]},
                {"type": "object", "properties": {"type": {"const": "Phone"}, "number": {"type": "string"}}, "required": ["type", "number"]},
            ]},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "home": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]},
        }});
        let (answer, _) = filled(form, &["Phone", "42", "", "n"]);
        assert_eq!(answer, Some(json!({"to": {"type": "Phone", "number": "42"}, "when": null})));
    }
}
