//! What a model answers, whole and in pieces.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request::{Message, Part, Role, text_of};

/// A model's reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Thinking, text and tool calls in the order they came.
    pub parts: Vec<Part>,
    /// Why it ended. A caller surfaces `Length`, `ContentFilter` and `Refusal` as errors of their own.
    pub finish: Finish,
    /// Tokens, in the provider's own figures.
    pub usage: Usage,
    /// The model that answered, as the provider names it.
    pub model: String,
    /// Whether it was kept from an earlier request (`cache: true`): nothing was sent, and nothing is paid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_cache: bool,
}

impl Reply {
    /// The text, without thinking and tool calls.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }

    /// The tool calls as `(id, name, arguments)`, in call order.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall { id, name, arguments } => Some((id.as_str(), name.as_str(), arguments)),
            _ => None,
        })
    }

    /// The reply as the message that stands in the conversation from then on.
    pub fn to_message(&self) -> Message {
        Message { role: Role::Assistant, parts: self.parts.clone() }
    }
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model was done.
    Stop,
    /// The limit on tokens cut it off.
    Length,
    /// The model waits for results of its tool calls.
    ToolCalls,
    /// The provider withheld it.
    ContentFilter,
    /// The model declined, in these words (may be empty).
    Refusal(String),
}

/// Tokens of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All tokens sent, cached ones among them.
    pub input_tokens: u64,
    /// All tokens received, thinking among them.
    pub output_tokens: u64,
    /// Of the tokens sent, those read from the provider's cache.
    pub cached_input_tokens: u64,
    /// Of the tokens sent, those written to the provider's cache (billed dearer by some).
    pub cache_write_tokens: u64,
    /// Of the tokens received, those that were thinking.
    pub thinking_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(other.cached_input_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.thinking_tokens = self.thinking_tokens.saturating_add(other.thinking_tokens);
    }
}

/// A piece of a reply while it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More thinking.
    Thinking(String),
    /// A tool call begins.
    ToolCall {
        /// Which call of this reply, from 0.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// More of a tool call's arguments, as JSON text.
    ToolArguments {
        /// Which call of this reply, from 0.
        index: usize,
        /// The piece.
        fragment: String,
    },
    /// The call is made again: forget what came so far.
    Restart,
}

/// Where pieces of a reply go. Without streaming nothing comes.
pub trait DeltaSink: Send + Sync {
    /// Takes the next piece; must not block.
    fn delta(&self, delta: Delta);
}

/// A sink that drops everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSink;

impl DeltaSink for NoSink {
    fn delta(&self, _: Delta) {}
}

/// Hands a reply that came whole to the sink, as a stream would bring it: text word by word.
pub(crate) fn replay(reply: &Reply, sink: &dyn DeltaSink) {
    let mut index = 0;
    for part in &reply.parts {
        match part {
            Part::Text { text } => text.split_inclusive(' ').for_each(|word| sink.delta(Delta::Text(word.to_string()))),
            Part::Thinking { text, .. } => sink.delta(Delta::Thinking(text.clone())),
            Part::ToolCall { name, arguments, .. } => {
                sink.delta(Delta::ToolCall { index, name: name.clone() });
                sink.delta(Delta::ToolArguments { index, fragment: arguments.to_string() });
                index += 1;
            }
            Part::Image { .. } | Part::ToolResult { .. } => {}
        }
    }
}

/// Reads a tool call's arguments; none is an empty object, and text that is no JSON stays as a string for the caller to
/// answer.
pub(crate) fn read_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_string()))
}
