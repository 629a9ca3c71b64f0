//! A request to a model as text for people: what snapshots and recordings hold.

use std::fmt::Write;

use serde_json::{Value, json};

use super::request::{ImageSource, Message, OutputMode, Part, Request, Role};

/// Everything that a request sends, as text: model, options, system message, messages, tools, form of the reply. The same
/// request always gives the same text.
pub fn request_text(request: &Request) -> String {
    let mut out = head(request);
    if let Some(system) = &request.system {
        section(&mut out, "system", system);
    }
    for message in &request.messages {
        section(&mut out, role(message), &message_text(message));
    }
    out.push_str(&tail(request));
    finish(out)
}

/// A later turn of the same interaction: what was sent before is counted, the rest is shown. Model, options, tools and form
/// are shown where they differ.
pub fn turn_text(before: &Request, request: &Request) -> String {
    let same = before.messages.iter().zip(&request.messages).take_while(|(a, b)| a == b).count();
    if same < before.messages.len() || before.system != request.system {
        return request_text(request);
    }
    let mut out = String::new();
    if head(before) != head(request) {
        out.push_str(&head(request));
    }
    let messages = if same == 1 { "message" } else { "messages" };
    let _ = writeln!(out, "(turn {}: the {same} {messages} before, then)", request.turn);
    for message in request.messages.iter().skip(same) {
        section(&mut out, role(message), &message_text(message));
    }
    if tail(before) != tail(request) {
        out.push_str(&tail(request));
    }
    finish(out)
}

fn head(request: &Request) -> String {
    let mut options = sorted(&json!(request.options));
    if let Value::Object(options) = &mut options {
        options.remove("stream");
    }
    let mut out = format!("model: {}\n", request.full_model());
    if options.as_object().is_some_and(|options| !options.is_empty()) {
        let _ = writeln!(out, "options: {options}");
    }
    out
}

fn tail(request: &Request) -> String {
    let mut out = String::new();
    for tool in &request.tools {
        let parameters = pretty(&tool.parameters);
        section(&mut out, &format!("tool {}", tool.name), &format!("{}\n{parameters}", tool.description.trim_end()));
    }
    if let Some(output) = &request.output {
        let how = match output.mode {
            OutputMode::Native => "",
            OutputMode::Instructions => " (as instructions)",
        };
        section(&mut out, &format!("output {}{how}", output.name), &pretty(&output.schema));
    }
    out
}

fn section(out: &mut String, title: &str, text: &str) {
    let _ = write!(out, "\n── {title}\n{}\n", text.trim_end());
}

fn finish(out: String) -> String {
    out.replace("\r\n", "\n").trim_end().to_owned()
}

fn role(message: &Message) -> &'static str {
    match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool results",
    }
}

/// The parts of a message, each on lines of its own.
pub fn message_text(message: &Message) -> String {
    let shown = message.parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Thinking { text, .. } => format!("[thinking] {text}"),
        Part::Image { mime, source } => {
            let bytes = match source {
                ImageSource::Data(data) => format!("{} bytes of base64", data.len()),
                ImageSource::Url(url) => url.clone(),
            };
            format!("[image {mime}, {bytes}]")
        }
        Part::ToolCall { name, arguments, .. } => format!("[call {name} {}]", sorted(arguments)),
        Part::ToolResult { name, content, is_error, pictures, .. } => {
            let seen = pictures
                .iter()
                .map(|picture| format!("\n[image {}, {} bytes of base64]", picture.mime, picture.data.len()));
            let seen: String = seen.collect();
            format!("[{} of {name}]\n{content}{seen}", if *is_error { "error" } else { "result" })
        }
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// The value with the keys of its objects in order.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            Value::Object(keys.into_iter().map(|key| (key.clone(), sorted(&map[key]))).collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
