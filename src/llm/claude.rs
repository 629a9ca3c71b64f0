//! What the names of Claude's models tell of the settings they take, on Anthropic's own wire and on Bedrock's.
//!
//! Newer models refuse what older ones need: sampling settings and budgets for thinking end as a wrong request there. A name
//! that tells no version is taken for a newer one.

use serde_json::{Value, json};

use super::catalog::{CatalogEntry, Feature};
use super::options::Options;

/// The limit on a reply's tokens when neither the author nor the catalog says one.
const MAX_TOKENS: u32 = 16_384;
/// The least budget for thinking that the provider takes.
const BUDGET_TOKENS_MIN: u32 = 1_024;
/// The first version that takes no sampling settings, and no budget for thinking.
const ADAPTIVE_ONLY: (u32, u32) = (4, 7);
/// The first version that thinks unless it is told not to.
const THINKS_UNASKED: (u32, u32) = (5, 0);
/// The first version of which some models cannot be told not to think.
const ALWAYS_THINKS: (u32, u32) = (5, 1);

/// The version in a model's name: `claude-opus-4-7` and `claude-3-5-haiku-latest` tell (4, 7) and (3, 5). A model that is
/// not Claude has version 0; one of Claude's without a number, the highest.
fn version(model: &str) -> (u32, u32) {
    let Some(rest) = model.strip_prefix("claude-") else { return (0, 0) };
    // What has more digits is a date.
    let number = |part: &str| part.parse().ok().filter(|_| part.len() <= 2);
    let mut parts = rest.split(['-', '.', '@']).skip_while(|part| number(part).is_none());
    match parts.next().and_then(number) {
        Some(major) => (major, parts.next().and_then(number).unwrap_or(0)),
        None => (u32::MAX, 0),
    }
}

/// Whether a model takes `temperature`, `top_p` and `top_k`.
pub(super) fn takes_sampling(model: &str) -> bool {
    version(model) < ADAPTIVE_ONLY
}

/// What limits a reply, and how its model thinks.
pub(super) struct Limits {
    /// The most tokens, thinking among them.
    pub(super) max_tokens: u32,
    /// Whether it was asked to think.
    pub(super) thinks: bool,
    /// The key `thinking`.
    pub(super) thinking: Option<Value>,
    /// The key `effort` of `output_config`, for models that choose themselves how much they think.
    pub(super) effort: Option<&'static str>,
}

/// Returns what limits a reply of `model`, of which `entry` tells.
pub(super) fn limits(model: &str, entry: Option<&CatalogEntry>, options: &Options) -> Limits {
    let most = entry.and_then(|entry| entry.max_output_tokens);
    let max_tokens = options.max_tokens.unwrap_or_else(|| most.map_or(MAX_TOKENS, |most| most.min(MAX_TOKENS)));
    let version = version(model);
    let wanted = options.thinking.as_ref().and_then(|thinking| Some((thinking.effort()?, thinking.budget()?)));
    let Some((effort, budget)) = wanted else {
        let off = options.thinking.as_ref().filter(|_| version >= THINKS_UNASKED);
        let (thinking, effort) = match off {
            None => (None, None),
            // The least that it can be brought to.
            Some(_) if version >= ALWAYS_THINKS => (None, Some("low")),
            Some(_) => (Some(json!({"type": "disabled"})), None),
        };
        return Limits { max_tokens, thinks: false, thinking, effort };
    };
    let known = entry.and_then(|entry| entry.has(Feature::AdaptiveThinking));
    if known.unwrap_or(version >= ADAPTIVE_ONLY) {
        let effort = match effort {
            "high" => "high",
            "medium" => "medium",
            _ => "low",
        };
        let thinking = Some(json!({"type": "adaptive"}));
        return Limits { max_tokens, thinks: true, thinking, effort: Some(effort) };
    }
    let budget = budget.max(BUDGET_TOKENS_MIN);
    // The limit covers thinking too, and must be greater than its budget.
    let max_tokens = match max_tokens <= budget {
        true => max_tokens.saturating_add(budget).min(most.unwrap_or(u32::MAX)),
        false => max_tokens,
    };
    let budget = budget.min(max_tokens.saturating_sub(1));
    let thinking = Some(json!({"type": "enabled", "budget_tokens": budget}));
    Limits { max_tokens, thinks: true, thinking, effort: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Thinking;

    #[test]
    fn versions_are_read_from_names_new_and_old() {
        let versions = [
            ("claude-opus-4-7", (4, 7)),
            ("claude-sonnet-4-5-20250929", (4, 5)),
            ("claude-opus-4-20250514", (4, 0)),
            ("claude-3-5-haiku-latest", (3, 5)),
            ("claude-3-opus-20240229", (3, 0)),
            ("claude-2.1", (2, 1)),
            ("claude-sonnet-5", (5, 0)),
            ("claude-fable-5-1", (5, 1)),
            ("claude-mythos-preview", (u32::MAX, 0)),
            ("qwen3-max", (0, 0)),
        ];
        for (model, expected) in versions {
            assert_eq!(version(model), expected, "{model}");
        }
    }

    #[test]
    fn each_generation_is_told_how_to_think_in_its_own_words() {
        let told = |model: &str, thinking: Option<Thinking>| {
            let limits = limits(model, None, &Options { thinking, ..Options::default() });
            (limits.thinking, limits.effort)
        };
        let (adaptive, disabled) = (Some(json!({"type": "adaptive"})), Some(json!({"type": "disabled"})));
        let budget = Some(json!({"type": "enabled", "budget_tokens": 2000}));
        assert_eq!(told("claude-sonnet-4-5", Some(Thinking::Budget(2000))), (budget, None));
        assert_eq!(told("claude-opus-4-8", Some(Thinking::Effort("high".into()))), (adaptive.clone(), Some("high")));
        assert_eq!(told("claude-fable-5-2", Some(Thinking::Effort("minimal".into()))), (adaptive, Some("low")));
        for (model, off) in [
            ("claude-opus-4-8", (None, None)),
            ("claude-opus-5", (disabled.clone(), None)),
            ("claude-sonnet-5", (disabled, None)),
            ("claude-opus-5-5", (None, Some("low"))),
        ] {
            assert_eq!(told(model, Some(Thinking::Off)), off, "{model}");
            assert_eq!(told(model, None), (None, None), "{model}");
        }
    }

    #[test]
    fn only_older_models_take_sampling_settings() {
        for (model, takes) in
            [("claude-opus-4-6", true), ("claude-opus-4-7", false), ("claude-haiku-5-5", false), ("own-model", true)]
        {
            assert_eq!(takes_sampling(model), takes, "{model}");
        }
    }
}
