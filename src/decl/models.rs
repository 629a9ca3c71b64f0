//! Models, providers and how a model is asked, as written (language.md 11).

use serde_json::{Value, json};

use crate::source::{Node, NodeKind};
use crate::{record, words};

use super::basic::{Count, Duration, Json, List, Name, Table};
use super::read::{Defs, Read, ReadCx};

words! {
    /// What decides among the models that can do what a call needs.
    pub enum Auto = "an automatic choice" {
        /// The lowest price.
        Cheapest = "cheapest",
        /// The highest ability.
        Best = "best",
        /// The quickest answer.
        Fastest = "fastest",
    }
}

record! {
    /// Which model is asked, and how.
    pub struct LlmRecord = "an `llm`" {
        /// A role of `models`.
        opt role: Name,
        /// A model, as `provider/id`.
        opt model: Name,
        /// A choice among the models of the catalog.
        opt auto: Auto,
        /// Randomness of the reply.
        opt temperature: f64,
        /// Nucleus sampling.
        opt top_p: f64,
        /// Sampling among so many tokens.
        opt top_k: Count,
        /// Longest reply in tokens.
        opt max_tokens: Count,
        /// Thinking: a budget in tokens, `true`, or a provider's word such as `low`.
        opt thinking: Json,
        /// Seed of the randomness.
        opt seed: u64,
        /// Texts at which the reply ends.
        opt stop: List<Name>,
        /// How long a call may take.
        opt timeout: Duration,
        /// Further tries at the provider.
        opt retries: u64,
        /// Models tried in order after the retries.
        opt fallback: List<Name>,
        /// Replies may come from the response cache.
        opt cache: bool,
        /// Several tools may be called in one turn.
        opt parallel_tool_calls: bool,
        /// `auto`, `required`, `none` or a tool's name.
        opt tool_choice: Name,
    }
}

/// `llm:`: a role or model by name, or a record.
#[derive(Clone, Debug, PartialEq)]
pub enum LlmChoice {
    /// A role, or `provider/id`.
    Name(Name),
    /// A record.
    Record(Box<LlmRecord>),
}

impl Read for LlmChoice {
    fn expected() -> String {
        "a role, a model as `provider/id`, or `{role | model | auto, temperature, …}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<LlmChoice> {
        let NodeKind::Map(_) = node.kind else {
            return Name::read(node, cx).map(LlmChoice::Name);
        };
        let record = LlmRecord::read(node, cx)?;
        let chosen: Vec<_> = [record.role.as_ref().map(|name| name.span), record.model.as_ref().map(|name| name.span)]
            .into_iter()
            .flatten()
            .collect();
        if let [first, second] = chosen.as_slice() {
            cx.report(
                crate::diag::Diagnostic::error("two-forms", *second, "an `llm` names a `role` or a `model`, not both")
                    .related(*first, "the first is here"),
            );
        }
        Some(LlmChoice::Record(Box::new(record)))
    }

    fn schema(defs: &mut Defs) -> Value {
        json!({"anyOf": [{"type": "string"}, LlmRecord::schema(defs)]})
    }
}

record! {
    /// What is known of a model: prices, cutoff and abilities.
    pub struct CatalogEntry = "a catalog entry" {
        /// US dollars for a million input tokens.
        opt input_usd_per_mtok: f64,
        /// US dollars for a million output tokens.
        opt output_usd_per_mtok: f64,
        /// US dollars for a million input tokens that were cached.
        opt cached_input_usd_per_mtok: f64,
        /// US dollars for a million input tokens that are written to the cache.
        opt cache_write_usd_per_mtok: f64,
        /// US dollars for a million tokens of thinking, where they cost other than output.
        opt thinking_usd_per_mtok: f64,
        /// Up to when its knowledge reaches.
        opt knowledge_cutoff: Name,
        /// Abilities: `tools json_schema images thinking adaptive_thinking embedding`.
        opt supports: List<Name>,
        /// Tokens it can take in.
        opt context_tokens: u64,
        /// Tokens that a reply may have.
        opt max_output_tokens: Count,
        /// How able it is, on a scale of your own; `auto: best` takes the highest.
        opt ability: f64,
        /// How quickly it answers; `auto: fastest` takes the highest.
        opt tokens_per_second: f64,
    }
}

record! {
    /// Which models are used.
    pub struct Models = "models" {
        /// The model of calls that do not say otherwise.
        opt default: LlmChoice,
        /// Models by role.
        def roles: Table<LlmChoice> = Table::default(),
        /// The embedding model.
        opt embedding: Name,
        /// Prices, cutoffs and abilities, by `provider/id`.
        def catalog: Table<CatalogEntry> = Table::default(),
    }
}

words! {
    /// Kinds of provider.
    pub enum ProviderKind = "a kind of provider" {
        /// OpenAI and everything compatible.
        Openai = "openai",
        /// Anthropic.
        Anthropic = "anthropic",
        /// Google Gemini.
        Gemini = "gemini",
        /// Ollama.
        Ollama = "ollama",
        /// Amazon Bedrock.
        Bedrock = "bedrock",
        /// Answers from a script.
        Scripted = "scripted",
    }
}

words! {
    /// Interfaces of OpenAI.
    pub enum OpenAiApi = "an interface of OpenAI" {
        /// Chat completions.
        Chat = "chat",
        /// The responses API.
        Responses = "responses",
    }
}

record! {
    /// Where models answer.
    pub struct Provider = "a provider" {
        /// Its kind; without it the provider's own name.
        opt kind: ProviderKind,
        /// Where it answers.
        opt base_url: Name,
        /// Its key, usually `${env:NAME}`.
        opt api_key: Name,
        /// Further headers.
        def headers: Table<Name> = Table::default(),
        /// The script, for `kind: scripted`; of several files the rules are joined in order.
        def file: List<Name> = List::default(),
        /// Organisation or project, where the provider has such.
        opt organization: Name,
        /// Which interface, for `openai`: `chat` or `responses`.
        opt api: OpenAiApi,
        /// Region, for `bedrock`.
        opt region: Name,
        /// Id of the key that signs, for `bedrock`.
        opt access_key_id: Name,
        /// Key that signs, for `bedrock`, usually `${env:NAME}`.
        opt secret_access_key: Name,
        /// Token of a key that expires, for `bedrock`.
        opt session_token: Name,
        /// API version, for Azure addressing; models are then the names of deployments.
        opt api_version: Name,
        /// Calls in a minute.
        opt requests_per_minute: Count,
        /// Tokens in a minute, those sent and received together.
        opt tokens_per_minute: Count,
        /// Calls at one time.
        opt concurrency: Count,
        /// How long a call may take.
        opt timeout: Duration,
    }
}
