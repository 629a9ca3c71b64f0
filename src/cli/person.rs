//! Talking with the person at the terminal: missing inputs field by field, and agreement to what asks for it.

use std::io::{BufRead, Write};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::value::{Field, NoRules, Shape, ShapeKind, TypeId, TypeKind, Validators, describe};

use super::output::{BOLD, DIM, RED};
use super::{Fault, Out};

/// How often a question looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(30);

/// Asks for an object of a type until it is valid. End of input is a fault.
pub(super) fn object(validators: &Validators, type_id: TypeId, name: &str, out: &Out) -> Result<Value, Fault> {
    let def = validators.types().get(type_id);
    let what = def.description.as_deref().map(|text| format!(" — {text}")).unwrap_or_default();
    say(&format!(
        "{} {}{}",
        out.paint_err(BOLD, name),
        out.paint_err(DIM, format!("({})", def.name)),
        out.paint_err(DIM, what)
    ));
    loop {
        let value = match &def.kind {
            TypeKind::Object(object) => Value::Object(fields(validators, object.fields.iter(), out)?),
            TypeKind::Alias(shape) => field(validators, name, shape, true, out)?.unwrap_or(Value::Null),
            TypeKind::Enum(_) | TypeKind::Union(_) | TypeKind::Schema(_) => {
                field(validators, name, &Shape::named(type_id), true, out)?.unwrap_or(Value::Null)
            }
        };
        match validators.validate_type(type_id, value, &NoRules) {
            Ok(valid) => return Ok(valid.value),
            Err(violations) => {
                for violation in violations {
                    say(&format!("  {}", out.paint_err(RED, violation)));
                }
                say("  once more, please");
            }
        }
    }
}

fn fields<'a>(
    validators: &Validators,
    fields: impl Iterator<Item = (&'a String, &'a Field)>,
    out: &Out,
) -> Result<Map<String, Value>, Fault> {
    let mut object = Map::new();
    for (name, declared) in fields {
        if let Some(value) = field(validators, name, &declared.shape, declared.required, out)? {
            object.insert(name.clone(), value);
        }
    }
    Ok(object)
}

/// Asks for one field until its value fits; an optional one may be left empty.
fn field(
    validators: &Validators,
    name: &str,
    shape: &Shape,
    required: bool,
    out: &Out,
) -> Result<Option<Value>, Fault> {
    let types = validators.types();
    let about = shape.constraints.description.as_deref().map(|text| format!(", {text}")).unwrap_or_default();
    let hint = format!("{}{}{about}", describe(types, shape), if required { "" } else { ", may be left empty" });
    loop {
        let answer = question(&format!("  {name} {}: ", out.paint_err(DIM, format!("({hint})"))))?;
        if answer.is_empty() && !required {
            return Ok(None);
        }
        let value = read(types, shape, &answer);
        match validators.validate(shape, value, &NoRules) {
            Ok(valid) => return Ok(Some(valid.value)),
            Err(violations) => {
                for violation in violations {
                    say(&format!("    {}", out.paint_err(RED, violation)));
                }
            }
        }
    }
}

/// What a typed answer means for a shape: text stays text, everything else is JSON where it reads as JSON.
fn read(types: &crate::value::Types, shape: &Shape, answer: &str) -> Value {
    let is_text = match &shape.kind {
        ShapeKind::String | ShapeKind::Date | ShapeKind::DateTime | ShapeKind::Uri | ShapeKind::Email => true,
        ShapeKind::Named(id) => match &types.get(*id).kind {
            TypeKind::Alias(inner) => return read(types, inner, answer),
            TypeKind::Enum(values) => values.iter().all(Value::is_string),
            TypeKind::Object(_) | TypeKind::Union(_) | TypeKind::Schema(_) => false,
        },
        ShapeKind::Enum(values) => values.iter().all(Value::is_string),
        _ => false,
    };
    if is_text {
        return Value::String(answer.to_owned());
    }
    serde_json::from_str(answer).unwrap_or_else(|_| Value::String(answer.to_owned()))
}

/// Asks for the text of a `UserInput`; it may not be empty.
pub(super) fn text(name: &str, out: &Out) -> Result<String, Fault> {
    loop {
        let answer = question(&format!("{}: ", out.paint_err(BOLD, name)))?;
        if !answer.is_empty() {
            return Ok(answer);
        }
    }
}

/// The lines that a person types while a run goes on. A question that is given up leaves its reader behind; the next one
/// takes it over, so that no line is lost to it.
#[derive(Debug, Default)]
pub(super) struct Lines {
    awaited: Mutex<Option<mpsc::Receiver<Result<String, Fault>>>>,
}

impl Lines {
    /// Asks for a line until there is one; `None` at the end of the input, or when `is_over` says so.
    pub(super) fn line(&self, text: &str, is_over: &dyn Fn() -> bool) -> Option<String> {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match awaited.take() {
            Some(left) => {
                prompt(text);
                left
            }
            None => {
                let (answers, answer) = mpsc::channel();
                let asked = text.to_owned();
                std::thread::spawn(move || answers.send(question(&asked)));
                answer
            }
        };
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return answer.ok(),
                Err(mpsc::RecvTimeoutError::Timeout) if !is_over() => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    *awaited = Some(answer);
                    say("");
                    return None;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Asks yes or no; only a clear yes is one. Waiting ends, with no, when `is_over` says so.
    pub(super) fn agrees(&self, question_text: &str, is_over: &dyn Fn() -> bool, out: &Out) -> bool {
        let asked = format!("{} {} ", out.paint_err(BOLD, question_text), out.paint_err(DIM, "[y/N]"));
        let answer = self.line(&asked, is_over);
        answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes"))
    }
}

fn prompt(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

fn question(text: &str) -> Result<String, Fault> {
    // Standard error is not kept while the answer is awaited: others have something to say meanwhile, as after Ctrl-C.
    prompt(text);
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => Err(Fault::wrong("the input ended before every question was answered")),
        Ok(_) => Ok(line.trim().to_owned()),
    }
}

pub(super) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Types;
    use serde_json::json;

    #[test]
    fn answers_are_read_by_shape() {
        let types = Types::with_built_ins();
        let text = Shape::new(ShapeKind::String);
        assert_eq!(read(&types, &text, "42"), json!("42"));
        assert_eq!(read(&types, &Shape::new(ShapeKind::Integer), "42"), json!(42));
        assert_eq!(read(&types, &Shape::list(text), "[\"a\"]"), json!(["a"]));
        assert_eq!(read(&types, &Shape::new(ShapeKind::Enum(vec![json!("low")])), "low"), json!("low"));
    }
}
