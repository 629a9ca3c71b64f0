//! The one trait of the model layer, and how a provider is configured.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::Value;

use super::catalog::{Catalog, CatalogEntry, Feature};
use super::embed::Embeddings;
use super::error::{LlmError, LlmErrorKind};
use super::reply::{DeltaSink, Reply};
use super::request::{OutputMode, Request};
use super::script::Script;
use super::secret::Secret;

/// A call to a model that was answered, or failed, before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// Who asked: the request's name.
    pub name: String,
    /// `provider/id`; empty where it is not known.
    pub model: String,
    /// The text of the reply; `None`: the call failed.
    pub text: Option<String>,
}

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

    /// Hears what a process that goes on was answered before, in another program: a script goes on from there.
    fn recall(&self, past: &[Past]) {
        let _ = past;
    }

    /// Makes vectors of `texts` with the embedding model `model`, in their order; retries are the caller's.
    async fn embed(&self, model: &str, texts: &[String]) -> Result<Embeddings, LlmError> {
        let _ = (model, texts);
        Err(unable("embeddings"))
    }

    /// The ids of the models that the provider offers, as it lists them.
    async fn models(&self) -> Result<Vec<String>, LlmError> {
        Err(unable("list of models"))
    }
}

fn unable(what: &str) -> LlmError {
    LlmError::new(LlmErrorKind::BadRequest, format!("this kind of provider has no {what}"))
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
    /// Which of the kind's interfaces; for `openai`: `chat` (the default) or `responses`.
    pub api: Option<String>,
    /// The version of Azure's addresses; with it, models are deployments.
    pub api_version: Option<String>,
    /// The organisation that pays, where the provider has such.
    pub organization: Option<String>,
    /// The region, for `bedrock`.
    pub region: Option<String>,
    /// The id of the key that signs, for `bedrock`.
    pub access_key_id: Option<Secret>,
    /// The key that signs, for `bedrock`.
    pub secret_access_key: Option<Secret>,
    /// What goes along with a key that expires, for `bedrock`.
    pub session_token: Option<Secret>,
    /// How much is asked of it.
    pub rate: Rate,
    /// For the kind `scripted`: the script read from `file`.
    pub script: Option<Script>,
}

impl ProviderConfig {
    /// Whether there is something to reach it with: a key, a header or an address of the author's. A provider without
    /// any is there only in case its environment variable is set later.
    pub fn is_usable(&self) -> bool {
        let signs = self.access_key_id.is_some() && self.secret_access_key.is_some();
        self.api_key.is_some() || signs || self.base_url.is_some() || self.script.is_some() || !self.headers.is_empty()
    }

    /// Takes what is not set here from `other`, the environment's settings of the same kind. With an address of the
    /// author's nothing is taken: a key is sent only where it belongs.
    pub fn fill_from(&mut self, other: &ProviderConfig) {
        if self.base_url.is_some() {
            return;
        }
        if self.api_key.is_none() && self.access_key_id.is_none() {
            self.base_url = other.base_url.clone();
            self.api_key = other.api_key.clone();
            self.access_key_id = other.access_key_id.clone();
            self.secret_access_key = other.secret_access_key.clone();
            self.session_token = other.session_token.clone();
        }
        self.region = self.region.take().or_else(|| other.region.clone());
    }
}

/// Limits on what is asked of a provider; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate {
    /// Calls in a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens in a minute, those sent and received together.
    pub tokens_per_minute: Option<u32>,
    /// Calls at one time.
    pub concurrency: Option<u32>,
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
