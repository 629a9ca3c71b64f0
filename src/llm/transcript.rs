//! A request to a model as text for people: what snapshots and recordings hold.

use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::request::{ImageSource, Message, OutputMode, Part, Request, Role};
use super::sigv4::hex;

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

/// The parts of a message, each on lines of its own, as snapshots and recordings hold them.
pub fn message_text(message: &Message) -> String {
    parts_text(message, |mime, source| match source {
        ImageSource::Data(data) => format!("[image {mime}, {} bytes of base64]", data.len()),
        ImageSource::Url(url) => format!("[image {mime}, {url}]"),
    })
}

/// The parts of a message, each on lines of its own, for people: a picture shows as what it is, its size and its digest.
pub fn message_shown(message: &Message) -> String {
    parts_text(message, picture_shown)
}

/// A picture in a few words: `<image/png, 12,345 bytes, sha256 0a1b2c3d4e5f>`, or its address.
pub fn picture_shown(mime: &str, source: &ImageSource) -> String {
    match source {
        ImageSource::Url(url) => format!("<{mime} at {url}>"),
        ImageSource::Data(data) => match STANDARD.decode(data) {
            Ok(bytes) => {
                let digest = hex(&Sha256::digest(&bytes)[..6]);
                format!("<{mime}, {} bytes, sha256 {digest}>", grouped(bytes.len()))
            }
            Err(_) => format!("<{mime}, {} characters that are no base64>", grouped(data.chars().count())),
        },
    }
}

/// A number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let places = digits.chars().enumerate();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    places.fold(
        String::new(),
        |text, (at, digit)| if comma(at) { text + "," + &digit.to_string() } else { text + &digit.to_string() },
    )
}

fn parts_text(message: &Message, picture: impl Fn(&str, &ImageSource) -> String) -> String {
    let shown = message.parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Thinking { text, .. } => format!("[thinking] {text}"),
        Part::Image { mime, source } => picture(mime, source),
        Part::ToolCall { name, arguments, .. } => format!("[call {name} {}]", sorted(arguments)),
        Part::ToolResult { name, content, is_error, pictures, .. } => {
            let seen =
                pictures.iter().map(|one| format!("\n{}", picture(&one.mime, &ImageSource::Data(one.data.clone()))));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Picture;

    #[test]
    fn people_are_told_what_a_picture_is_and_never_its_bytes() {
        let data = STANDARD.encode([7; 12_345]);
        let image = |source: ImageSource| Part::Image { mime: "image/png".into(), source };
        let parts = vec![
            image(ImageSource::Data(data.clone())),
            image(ImageSource::Url("https://example.com/cat.png".into())),
            image(ImageSource::Data("no base64!".into())),
            Part::ToolResult {
                id: "c1".into(),
                name: "snap".into(),
                content: "A shelf".into(),
                is_error: false,
                pictures: vec![Picture { mime: "image/png".into(), data }],
            },
        ];
        assert_eq!(
            message_shown(&Message { role: Role::User, parts }),
            "<image/png, 12,345 bytes, sha256 14ed27068b27>\n<image/png at https://example.com/cat.png>\n\
             <image/png, 10 characters that are no base64>\n\
             [result of snap]\nA shelf\n<image/png, 12,345 bytes, sha256 14ed27068b27>"
        );
        assert_eq!([7, 700, 7_000, 1_234_567].map(grouped), ["7", "700", "7,000", "1,234,567"]);
    }
}
