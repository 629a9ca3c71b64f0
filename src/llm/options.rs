//! The knobs of one call, as language.md 11 names them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of a call; what is `None` is left to the provider. A provider ignores what its wire cannot say.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The number of candidates sampled from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// The most tokens that the reply may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How much the model may think before it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Seed for repeatable sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts that end the reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The whole call's time limit; the provider's own when `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Whether several tools may be called in one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Which tools may or must be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether the provider should cache the unchanging head of the request (where that must be asked for).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<bool>,
    /// Whether the reply is streamed to the sink while it comes.
    pub stream: bool,
}

impl Options {
    /// Takes over everything that `first` sets.
    pub fn prefer(&mut self, first: &Options) {
        let own = std::mem::replace(self, first.clone());
        self.temperature = self.temperature.or(own.temperature);
        self.top_p = self.top_p.or(own.top_p);
        self.top_k = self.top_k.or(own.top_k);
        self.max_tokens = self.max_tokens.or(own.max_tokens);
        self.thinking = self.thinking.take().or(own.thinking);
        self.seed = self.seed.or(own.seed);
        self.timeout = self.timeout.or(own.timeout);
        self.parallel_tool_calls = self.parallel_tool_calls.or(own.parallel_tool_calls);
        self.tool_choice = self.tool_choice.take().or(own.tool_choice);
        self.cache = self.cache.or(own.cache);
        self.stream = own.stream;
        if self.stop.is_empty() {
            self.stop = own.stop;
        }
    }
}

/// The setting `thinking`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// No thinking where it can be switched off.
    Off,
    /// `minimal`, `low`, `medium` or `high`.
    Effort(String),
    /// At most this many tokens of thinking.
    Budget(u32),
}

impl Thinking {
    /// The words for [`Thinking::Effort`].
    pub const EFFORTS: &[&str] = &["minimal", "low", "medium", "high"];

    /// Reads the author's value: `true` (medium), `false`, an effort, or a number of tokens.
    pub fn from_value(value: &Value) -> Result<Thinking, String> {
        match value {
            Value::Bool(true) => Ok(Thinking::Effort("medium".into())),
            Value::Bool(false) => Ok(Thinking::Off),
            Value::String(word) if word == "off" => Ok(Thinking::Off),
            Value::String(word) if Self::EFFORTS.contains(&word.as_str()) => Ok(Thinking::Effort(word.clone())),
            Value::Number(tokens) => match tokens.as_u64().and_then(|tokens| u32::try_from(tokens).ok()) {
                Some(0) => Ok(Thinking::Off),
                Some(tokens) => Ok(Thinking::Budget(tokens)),
                None => Err(format!("`thinking: {value}` is not a number of tokens")),
            },
            _ => Err(format!(
                "expected `true`, `false`, `minimal`, `low`, `medium`, `high` or a number of tokens, found `{value}`"
            )),
        }
    }

    /// The budget in tokens for wires that know only that; `None` when off.
    pub fn budget(&self) -> Option<u32> {
        match self {
            Thinking::Off => None,
            Thinking::Budget(tokens) => Some(*tokens),
            Thinking::Effort(effort) => Some(match effort.as_str() {
                "minimal" => 1_024,
                "low" => 2_048,
                "high" => 24_576,
                _ => 8_192,
            }),
        }
    }

    /// The effort for wires that know only that; `None` when off.
    pub fn effort(&self) -> Option<&str> {
        match self {
            Thinking::Off => None,
            Thinking::Effort(effort) => Some(effort),
            Thinking::Budget(tokens) => Some(match tokens {
                0..=2_048 => "low",
                2_049..=12_288 => "medium",
                _ => "high",
            }),
        }
    }
}

/// The setting `tool_choice`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No tool may be called.
    None,
    /// Some tool must be called.
    Required,
    /// This tool must be called.
    Tool(String),
}

impl ToolChoice {
    /// Reads the author's word: `auto`, `none`, `required`, or else a tool's name.
    pub fn from_word(word: &str) -> ToolChoice {
        match word {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" | "any" => ToolChoice::Required,
            name => ToolChoice::Tool(name.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn thinking_reads_words_numbers_and_booleans() {
        assert_eq!(Thinking::from_value(&json!(true)), Ok(Thinking::Effort("medium".into())));
        assert_eq!(Thinking::from_value(&json!(false)), Ok(Thinking::Off));
        assert_eq!(Thinking::from_value(&json!(4096)), Ok(Thinking::Budget(4096)));
        assert_eq!(Thinking::from_value(&json!("high")).unwrap().budget(), Some(24_576));
        assert!(Thinking::from_value(&json!("huge")).unwrap_err().contains("`medium`"));
        assert!(Thinking::from_value(&json!(-1)).is_err());
        assert_eq!(Thinking::Budget(4096).effort(), Some("medium"));
    }
}
