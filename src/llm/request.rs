//! What is asked of a model, in no provider's words.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::Options;

/// One call of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Who asks: the action's or condition's name, or `supervisor`. Never sent; scripts match on it, errors name it.
    pub name: String,
    /// The provider's configured name, the part before the first `/` of `openai/gpt-4.1-mini`. Never sent.
    #[serde(default)]
    pub provider: String,
    /// The model's id, without the provider.
    pub model: String,
    /// The system message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The form that the reply must have; `None` for text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSchema>,
    /// Settings.
    #[serde(default)]
    pub options: Options,
    /// Which turn of the interaction this is, counted from 1. Never sent.
    #[serde(default = "first_turn")]
    pub turn: usize,
}

fn first_turn() -> usize {
    1
}

impl Default for Request {
    fn default() -> Request {
        Request {
            name: String::new(),
            provider: String::new(),
            model: String::new(),
            system: None,
            messages: Vec::new(),
            tools: Vec::new(),
            output: None,
            options: Options::default(),
            turn: first_turn(),
        }
    }
}

impl Request {
    /// Splits `provider/id` at its first `/`; an id without one has no provider.
    pub fn split_model(model: &str) -> (Option<&str>, &str) {
        match model.split_once('/') {
            Some((provider, id)) => (Some(provider), id),
            None => (None, model),
        }
    }

    /// Returns `provider/id`, as the author writes models.
    pub fn full_model(&self) -> String {
        if self.provider.is_empty() { self.model.clone() } else { format!("{}/{}", self.provider, self.model) }
    }

    /// Returns 16 hex digits that two requests share only when they ask the same thing: what recordings match on.
    ///
    /// What differs from one run to the next without a change of meaning does not count: time limits, streaming, the day, times,
    /// ids of calls, the order of keys, a model's own spelling of JSON, its thoughts.
    pub fn digest(&self) -> String {
        super::recording::digest(self)
    }
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

impl Message {
    /// A user's message of text.
    pub fn user(text: impl Into<String>) -> Message {
        Message { role: Role::User, parts: vec![Part::Text { text: text.into() }] }
    }

    /// A model's message of text.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message { role: Role::Assistant, parts: vec![Part::Text { text: text.into() }] }
    }

    /// The message that hands tool results back, in call order.
    pub fn tool_results(parts: Vec<Part>) -> Message {
        Message { role: Role::Tool, parts }
    }

    /// Leaves out the pictures that tools gave, for a model that sees none, and says so.
    pub fn withhold_pictures(&mut self) {
        for part in &mut self.parts {
            let Part::ToolResult { content, pictures, .. } = part else { continue };
            if !pictures.is_empty() {
                pictures.clear();
                content.push_str(
                    "\n\nYou cannot see pictures, so they are left out. Go by the text, or use another tool.",
                );
            }
        }
    }

    /// Whether pictures are in what a person or the program says.
    pub fn has_images(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Image { .. }))
    }

    /// The text parts, joined by newlines.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// Joins the text parts of `parts` by newlines.
pub(crate) fn text_of(parts: &[Part]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person or the program.
    User,
    /// The model.
    Assistant,
    /// Results of tools; its parts are [`Part::ToolResult`].
    Tool,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Its media type, such as `image/png`.
        mime: String,
        /// Where its bytes are.
        source: ImageSource,
    },
    /// The model calls a tool.
    ToolCall {
        /// The call's id, which its result repeats.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments: an object; a string holding what came when it was no valid JSON.
        arguments: Value,
    },
    /// What a tool answered.
    ToolResult {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// What the model reads.
        content: String,
        /// Whether the tool failed.
        is_error: bool,
        /// What the model sees beside it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<Picture>,
    },
    /// The model's thinking; sent back unchanged in a tool loop, as some providers demand.
    Thinking {
        /// The thoughts; empty when the provider keeps them to itself.
        text: String,
        /// The provider's proof of origin, or its encrypted thoughts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Part {
        Part::Text { text: text.into() }
    }
}

/// A picture that a tool gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its media type: PNG, JPEG, GIF or WebP.
    pub mime: String,
    /// The bytes, as base64 text.
    pub data: String,
}

/// The media type that the first bytes of a picture say, of those that every provider takes: PNG, JPEG, GIF and WebP.
pub fn picture_format(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Where an image's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// The bytes, as base64 text.
    Data(String),
    /// An address that the provider can read.
    Url(String),
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments; an object's.
    pub parameters: Value,
}

/// The form of the reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// The type's name; sent as the schema's name.
    pub name: String,
    /// The type's plain JSON Schema (2020-12), of any root: each wire's own form of it is made by its provider.
    pub schema: Value,
    /// How the schema reaches the model; set by [`structured::place_output`](super::structured::place_output).
    #[serde(default)]
    pub mode: OutputMode,
}

impl OutputSchema {
    /// A schema that goes out as the provider's native structured output.
    pub fn native(name: impl Into<String>, schema: Value) -> OutputSchema {
        OutputSchema { name: name.into(), schema, mode: OutputMode::Native }
    }
}

/// How an output schema reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// As the provider's structured output.
    #[default]
    Native,
    /// As text in the last user message, which is there already.
    Instructions,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_splits_at_the_first_slash() {
        assert_eq!(Request::split_model("local/org/qwen3"), (Some("local"), "org/qwen3"));
        assert_eq!(Request::split_model("qwen3"), (None, "qwen3"));
    }

    #[test]
    fn digest_ignores_streaming_and_sees_the_prompt() {
        let plain = Request { messages: vec![Message::user("a")], ..Request::default() };
        let mut streamed = plain.clone();
        streamed.options.stream = true;
        assert_eq!(plain.digest(), streamed.digest());
        streamed.messages = vec![Message::user("b")];
        assert_ne!(plain.digest(), streamed.digest());
        assert_eq!(plain.digest().len(), 16);
    }
}
