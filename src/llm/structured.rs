//! Output schemas on the wire and back: envelopes, strict dialects, instructions.
//!
//! A [`Request`] carries the type's plain schema. Providers that have native structured output make their dialect of it
//! here ([`strict`]); others get [`instructions`]. [`decode`] undoes both and is the same for every provider.

use serde_json::{Value, json};

use super::parse::{ParseError, parse_reply_json};
use super::provider::Llm;
use super::reply::Reply;
use super::request::{OutputMode, OutputSchema, Part, Request, Role};

/// The key of the envelope around values whose schema is no object's.
pub const ENVELOPE_KEY: &str = "value";

/// Whether values of `schema` travel inside `{"value": …}`: wires want an object at the root, and no union.
pub fn is_wrapped(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) != Some("object")
}

/// Puts `value` of `schema` into the envelope where one is wanted.
pub fn wrap(schema: &Value, value: Value) -> Value {
    if is_wrapped(schema) { json!({ ENVELOPE_KEY: value }) } else { value }
}

/// Takes `value` out of the envelope where one is wanted and there; a model that left it out is understood too.
pub fn unwrap(schema: &Value, value: Value) -> Value {
    match value {
        Value::Object(mut object) if is_wrapped(schema) && object.len() == 1 && object.contains_key(ENVELOPE_KEY) => {
            object.swap_remove(ENVELOPE_KEY).unwrap_or(Value::Null)
        }
        other => other,
    }
}

/// Decides how `request.output` reaches the model, and appends the instructions to the last user message when the model
/// or the wire cannot say the schema natively. Call it once for each request, before it is shown or sent.
pub fn place_output(llm: &dyn Llm, request: &mut Request) {
    let Some(output) = &mut request.output else { return };
    output.mode = llm.output_mode(&request.model, &output.schema);
    if output.mode == OutputMode::Native {
        return;
    }
    let text = instructions(output);
    match request.messages.iter_mut().rev().find(|message| message.role == Role::User) {
        Some(message) => message.parts.push(Part::text(text)),
        None => request.messages.push(super::request::Message::user(text)),
    }
}

/// The text that asks a model without native structured output for JSON.
pub fn instructions(output: &OutputSchema) -> String {
    let schema = serde_json::to_string_pretty(&output.schema).unwrap_or_default();
    format!(
        "Answer with one JSON value that matches this JSON Schema of `{}`, and with nothing else: no explanation, no code fence.\n{schema}",
        output.name
    )
}

/// Reads the value out of a reply: finds the JSON, takes it out of its envelope, drops nulls that mean "absent".
pub fn decode(output: &OutputSchema, reply: &Reply) -> Result<Value, ParseError> {
    let value = parse_reply_json(&reply.text())?;
    Ok(unwrap(&output.schema, value))
}
