//! Language models: one trait, one file per wire, capability data, retries and prices.
//!
//! A caller builds a [`Request`] (no provider's words in it), gets an `Arc<dyn Llm>` from [`build`], and calls it through
//! [`call_with_retries`]. What differs between providers (bodies, streams, error shapes, structured output) ends here;
//! what a reply *means* (validation, rules, feedback) is the caller's.

mod anthropic;
mod catalog;
mod error;
mod http;
mod openai;
mod options;
mod provider;
mod reply;
mod request;
mod retry;
mod script;
mod scripted;
mod secret;
mod sse;

pub mod parse;
pub mod structured;

pub use catalog::{Catalog, CatalogEntry, Feature};
pub use error::{LlmError, LlmErrorKind};
pub use http::client_builder;
pub use options::{Options, Thinking, ToolChoice};
pub use provider::{Capabilities, Environment, Llm, ProviderConfig, ProviderKind};
pub use reply::{Delta, DeltaSink, Finish, NoSink, Reply, Usage};
pub use request::{ImageSource, Message, OutputMode, OutputSchema, Part, Request, Role, ToolSpec};
pub use retry::{RetryPolicy, call_with_retries};
pub use script::{Outcome, Rule, Script, ScriptError, Step, When};
pub use scripted::Scripted;
pub use secret::Secret;

use std::sync::Arc;

use indexmap::IndexMap;

/// Every provider kind, in alphabetical order: the one line to add for a new one.
pub const PROVIDERS: &[ProviderKind] = &[anthropic::KIND, openai::KIND, scripted::KIND];

/// Builds the provider `name` from its configuration; the client behind it is made at its first call.
///
/// The error is one line for the author of the project file: an unknown `kind` (with the known ones) or a missing setting.
pub fn build(name: &str, config: &ProviderConfig, catalog: Arc<Catalog>) -> Result<Arc<dyn Llm>, String> {
    let Some(kind) = PROVIDERS.iter().find(|kind| kind.name == config.kind) else {
        let known: Vec<_> = PROVIDERS.iter().map(|kind| format!("`{}`", kind.name)).collect();
        return Err(format!("unknown provider kind `{}` of `{name}`; known: {}", config.kind, known.join(", ")));
    };
    (kind.build)(name, config, catalog)
}

/// The providers that exist without any configuration, from the environment that the caller hands in.
///
/// `env` answers the value of a variable: `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`.
/// Both providers are always listed (without a key too: a local server may need none).
pub fn default_providers(env: &dyn Fn(&str) -> Option<String>) -> IndexMap<String, ProviderConfig> {
    PROVIDERS
        .iter()
        .filter_map(|kind| {
            let variables = kind.environment?;
            let config = ProviderConfig {
                kind: kind.name.to_string(),
                base_url: env(variables.base_url).filter(|url| !url.trim().is_empty()),
                api_key: env(variables.api_key).filter(|key| !key.trim().is_empty()).map(Secret::new),
                ..ProviderConfig::default()
            };
            Some((kind.name.to_string(), config))
        })
        .collect()
}
