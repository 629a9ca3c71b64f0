//! What is known of models: prices, limits, abilities. Data, not code: `catalog.json`, overlaid by the author's `models.catalog`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::reply::Usage;

/// Models by `provider/id`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalog {
    models: IndexMap<String, CatalogEntry>,
    /// The kind of each provider, under which a model of it is known too.
    kinds: IndexMap<String, String>,
}

/// What is known of one model; `None` is unknown. The keys of `models.catalog.<model>` (language.md 11).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CatalogEntry {
    /// US dollars for a million tokens sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_usd_per_mtok: Option<f64>,
    /// US dollars for a million tokens received, thinking among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_usd_per_mtok: Option<f64>,
    /// US dollars for a million tokens read from the cache; the input price when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_input_usd_per_mtok: Option<f64>,
    /// US dollars for a million tokens written to the cache; the input price when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_usd_per_mtok: Option<f64>,
    /// US dollars for a million tokens of thinking; the output price when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_usd_per_mtok: Option<f64>,
    /// How able it is, on the author's scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ability: Option<f64>,
    /// How quickly it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// What it was trained up to, as the author wrote it (`2025-01-01`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knowledge_cutoff: Option<String>,
    /// Tokens that a request and its reply may have together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Tokens that a reply may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// What it can do; `None`: unknown, a provider then assumes what is usual there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports: Option<BTreeSet<Feature>>,
}

/// The words of `supports`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Calls tools.
    Tools,
    /// Has native structured output.
    JsonSchema,
    /// Sees images.
    Images,
    /// Thinks before it answers.
    Thinking,
    /// Chooses itself how much it thinks, under an effort instead of a budget of tokens.
    AdaptiveThinking,
    /// Makes vectors of texts, and no replies.
    Embedding,
}

impl Feature {
    /// Every word.
    pub const ALL: &[(&str, Feature)] = &[
        ("tools", Feature::Tools),
        ("json_schema", Feature::JsonSchema),
        ("images", Feature::Images),
        ("thinking", Feature::Thinking),
        ("adaptive_thinking", Feature::AdaptiveThinking),
        ("embedding", Feature::Embedding),
    ];

    /// The feature of that name.
    pub fn from_word(word: &str) -> Option<Feature> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, feature)| *feature)
    }
}

static BUILT_IN: LazyLock<IndexMap<String, CatalogEntry>> =
    LazyLock::new(|| serde_json::from_str(include_str!("catalog.json")).unwrap_or_default());

impl Catalog {
    /// The well-known models, overlaid by `own`: what an own entry leaves out keeps the built-in figure.
    pub fn new(own: IndexMap<String, CatalogEntry>) -> Catalog {
        let mut models = own;
        for (model, entry) in &mut models {
            if let Some(known) = find(&BUILT_IN, model) {
                entry.fill_from(known);
            }
        }
        Catalog { models, kinds: IndexMap::new() }
    }

    /// The catalog of a project whose providers are of these kinds: a model of `work` of kind `openai` is known as
    /// OpenAI's too.
    pub fn with_kinds(self, kinds: IndexMap<String, String>) -> Catalog {
        Catalog { kinds, ..self }
    }

    /// What is known of `model` (`provider/id`); a dated id (`gpt-4.1-2025-04-14`) is found under its undated one.
    pub fn get(&self, model: &str) -> Option<&CatalogEntry> {
        let known = |model: &str| find(&self.models, model).or_else(|| find(&BUILT_IN, model));
        known(model).or_else(|| {
            let (provider, id) = model.split_once('/')?;
            let kind = self.kinds.get(provider).map_or(provider, String::as_str);
            let of_kind = if kind == provider { None } else { known(&format!("{kind}/{id}")) };
            let by_maker = || known(&super::bedrock::by_maker(id)?);
            of_kind.or_else(|| if kind == "bedrock" { by_maker() } else { None })
        })
    }

    /// Returns the US dollars that `usage` of `model` costs; `None` when a price is unknown.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        let entry = self.get(model)?;
        let (input, output) = (entry.input_usd_per_mtok?, entry.output_usd_per_mtok?);
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let plain = usage.input_tokens - cached - written;
        let thinking = usage.thinking_tokens.min(usage.output_tokens);
        let usd = plain as f64 * input
            + cached as f64 * entry.cached_input_usd_per_mtok.unwrap_or(input)
            + written as f64 * entry.cache_write_usd_per_mtok.unwrap_or(input)
            + (usage.output_tokens - thinking) as f64 * output
            + thinking as f64 * entry.thinking_usd_per_mtok.unwrap_or(output);
        Some(usd / 1_000_000.0)
    }

    /// Every known model, the author's first.
    pub fn models(&self) -> impl Iterator<Item = (&str, &CatalogEntry)> {
        let built_in = BUILT_IN.iter().filter(|(model, _)| !self.models.contains_key(*model));
        self.models.iter().chain(built_in).map(|(model, entry)| (model.as_str(), entry))
    }
}

impl CatalogEntry {
    fn fill_from(&mut self, known: &CatalogEntry) {
        let known = known.clone();
        self.input_usd_per_mtok = self.input_usd_per_mtok.or(known.input_usd_per_mtok);
        self.output_usd_per_mtok = self.output_usd_per_mtok.or(known.output_usd_per_mtok);
        self.cached_input_usd_per_mtok = self.cached_input_usd_per_mtok.or(known.cached_input_usd_per_mtok);
        self.cache_write_usd_per_mtok = self.cache_write_usd_per_mtok.or(known.cache_write_usd_per_mtok);
        self.thinking_usd_per_mtok = self.thinking_usd_per_mtok.or(known.thinking_usd_per_mtok);
        self.ability = self.ability.or(known.ability);
        self.tokens_per_second = self.tokens_per_second.or(known.tokens_per_second);
        self.knowledge_cutoff = self.knowledge_cutoff.take().or(known.knowledge_cutoff);
        self.context_tokens = self.context_tokens.or(known.context_tokens);
        self.max_output_tokens = self.max_output_tokens.or(known.max_output_tokens);
        self.supports = self.supports.take().or(known.supports);
    }

    /// Whether `feature` is among `supports`; `None` when that is unknown.
    pub fn has(&self, feature: Feature) -> Option<bool> {
        self.supports.as_ref().map(|features| features.contains(&feature))
    }
}

/// Finds `model` itself, or without a date at its end (`-2025-04-14`, `-20250929`, `-latest`).
fn find<'a>(models: &'a IndexMap<String, CatalogEntry>, model: &str) -> Option<&'a CatalogEntry> {
    models.get(model).or_else(|| models.get(undated(model)?))
}

fn undated(model: &str) -> Option<&str> {
    if let Some(base) = model.strip_suffix("-latest") {
        return Some(base);
    }
    let base = model.trim_end_matches(|character: char| character.is_ascii_digit() || character == '-');
    let digits = model[base.len()..].chars().filter(char::is_ascii_digit).count();
    // `claude-sonnet-4-5-20250929` keeps the `4-5`: only the last eight digits are the date.
    (digits >= 8).then(|| {
        let mut seen = 0;
        let cut = model.char_indices().rev().find(|(_, character)| {
            seen += usize::from(character.is_ascii_digit());
            seen == 8
        });
        cut.map_or(base, |(at, _)| model[..at].trim_end_matches('-'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_entry_is_whole() {
        assert!(BUILT_IN.len() > 10, "catalog.json does not parse");
        for (model, entry) in BUILT_IN.iter() {
            assert!(entry.input_usd_per_mtok.is_some() && entry.output_usd_per_mtok.is_some(), "{model} lacks a price");
            assert!(entry.supports.is_some() && entry.max_output_tokens.is_some(), "{model} lacks abilities");
        }
    }

    #[test]
    fn dated_ids_are_found_under_the_undated_one() {
        assert_eq!(undated("anthropic/claude-sonnet-4-5-20250929"), Some("anthropic/claude-sonnet-4-5"));
        assert_eq!(undated("openai/gpt-4.1-mini-2025-04-14"), Some("openai/gpt-4.1-mini"));
        assert_eq!(undated("openai/gpt-4.1-mini"), None);
        assert!(Catalog::default().get("openai/gpt-4.1-mini-2025-04-14").is_some());
        assert!(Catalog::default().get("anthropic/claude-sonnet-4-5-20250929").is_some());
    }

    #[test]
    fn cost_counts_cached_tokens_at_their_own_price() {
        let own = CatalogEntry {
            input_usd_per_mtok: Some(4.0),
            output_usd_per_mtok: Some(10.0),
            cached_input_usd_per_mtok: Some(1.0),
            ..CatalogEntry::default()
        };
        let catalog = Catalog::new(IndexMap::from([("local/a".to_string(), own)]));
        let usage =
            Usage { input_tokens: 1_000_000, cached_input_tokens: 500_000, output_tokens: 100_000, ..Usage::default() };
        assert_eq!(catalog.cost("local/a", &usage), Some(3.5));
        assert_eq!(catalog.cost("local/b", &usage), None);
    }

    #[test]
    fn own_entries_keep_the_built_in_figures_they_leave_out() {
        let own = CatalogEntry { input_usd_per_mtok: Some(0.0), ..CatalogEntry::default() };
        let catalog = Catalog::new(IndexMap::from([("openai/gpt-4.1-mini".to_string(), own)]));
        let entry = catalog.get("openai/gpt-4.1-mini").unwrap();
        assert_eq!((entry.input_usd_per_mtok, entry.output_usd_per_mtok), (Some(0.0), Some(1.6)));
    }
}
