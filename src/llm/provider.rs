//! The one trait of the model layer, and how a provider is configured.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::Value;

use super::catalog::{Catalog, CatalogEntry, Feature};
use super::error::LlmError;
use super::reply::{DeltaSink, Reply};
use super::request::{OutputMode, Request};
use super::script::Script;
use super::secret::Secret;

/// A provider of models; one serves any number of calls at once and shares its connections among them.
#[async_trait]
pub trait Llm: Send + Sync {
    /// What `model` (an id without the provider) can do.
    fn capabilities(&self, model: &str) -> Capabilities;

    /// Makes one call, once; pieces go to `sink` when `request.options.stream` is set.
    ///
    /// A reply that was cut off or refused is no error here: see [`Finish`](super::Finish).
    async fn call(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError>;

    /// The body that [`Llm::call`] would send for `request`.
    fn wire(&self, request: &Request) -> Value;

    /// How `schema` reaches `model`: natively only when both the model and the wire's dialect can say it.
    fn output_mode(&self, model: &str, schema: &Value) -> OutputMode {
        let _ = schema;
        if self.capabilities(model).json_schema { OutputMode::Native } else { OutputMode::Instructions }
    }
}

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// It calls tools.
    pub tools: bool,
    /// It has native structured output.
    pub json_schema: bool,
    /// It sees images.
    pub images: bool,
    /// It thinks before it answers.
    pub thinking: bool,
}

impl Capabilities {
    /// What the catalog says of a model, or else what is assumed of it.
    pub(crate) fn of(entry: Option<&CatalogEntry>, assumed: Capabilities) -> Capabilities {
        let has = |feature, assumed| entry.and_then(|entry| entry.has(feature)).unwrap_or(assumed);
        Capabilities {
            tools: has(Feature::Tools, assumed.tools),
            json_schema: has(Feature::JsonSchema, assumed.json_schema),
            images: has(Feature::Images, assumed.images),
            thinking: has(Feature::Thinking, assumed.thinking),
        }
    }
}

/// A provider's settings, as the project file's `providers` has them, with `${env:…}` resolved.
#[derive(Debug, Clone, Default)]
pub struct ProviderConfig {
    /// Which entry of [`PROVIDERS`](super::PROVIDERS); the provider's name when the author gives none.
    pub kind: String,
    /// The address that paths are added to; the kind's own when `None`.
    pub base_url: Option<String>,
    /// The key.
    pub api_key: Option<Secret>,
    /// Further headers of every request.
    pub headers: IndexMap<String, Secret>,
    /// The time limit of a call whose options set none; ten minutes when `None`.
    pub timeout: Option<Duration>,
    /// How long nothing may arrive; five minutes when `None`.
    pub read_timeout: Option<Duration>,
    /// For the kind `scripted`: the script read from `file`.
    pub script: Option<Script>,
}

/// Makes the provider of that name, or says in one line what its configuration lacks.
pub type BuildProvider = fn(name: &str, &ProviderConfig, Arc<Catalog>) -> Result<Arc<dyn Llm>, String>;

/// One line of [`PROVIDERS`](super::PROVIDERS).
pub struct ProviderKind {
    /// The word after `kind:`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The variables that configure it when the project file does not; `None`: it needs configuration.
    pub environment: Option<Environment>,
    /// Makes a provider.
    pub build: BuildProvider,
}

/// Names of environment variables.
#[derive(Debug, Clone, Copy)]
pub struct Environment {
    /// Holds the key.
    pub api_key: &'static str,
    /// Holds the base URL.
    pub base_url: &'static str,
}
