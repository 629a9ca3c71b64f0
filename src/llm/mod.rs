//! Language models: one trait, one file per wire, capability data, retries and prices.
//!
//! A caller builds a [`Request`] (no provider's words in it), gets an `Arc<dyn Llm>` from [`build`], and calls it through
//! [`call_with_retries`]. What differs between providers (bodies, streams, error shapes, structured output) ends here;
//! what a reply *means* (validation, rules, feedback) is the caller's.

mod anthropic;
mod assembly;
mod bedrock;
mod cache;
mod catalog;
mod choose;
mod claude;
mod cooldown;
mod elements;
mod embed;
mod error;
mod eventstream;
mod gemini;
mod http;
mod ollama;
mod openai;
mod openapi;
mod options;
mod provider;
mod rate;
mod recording;
mod reply;
mod request;
mod responses;
mod retry;
mod script;
mod scripted;
mod secret;
mod sigv4;
mod sse;
mod transcript;

#[cfg(test)]
pub(crate) mod test_support;

pub mod parse;
pub mod structured;

pub use cache::{MemoryResponseCache, ResponseCache, cached, key as cache_key};
pub use catalog::{Catalog, CatalogEntry, Feature};
pub use choose::{Auto, choose, needs};
pub use cooldown::Cooldowns;
pub use elements::Elements;
pub use embed::Embeddings;
pub use error::{LlmError, LlmErrorKind};
pub use http::client_builder;
pub use options::{Options, Thinking, ToolChoice};
pub use provider::{BuildProvider, Capabilities, Environment, Llm, Past, ProviderConfig, ProviderKind, Rate};
pub use recording::Recorder;
pub use reply::{Delta, DeltaSink, Finish, NoSink, Reply, Usage};
pub use request::{
    ImageSource, Message, OutputMode, OutputSchema, Part, Picture, Request, Role, ToolSpec, picture_format,
};
pub use retry::{RetryPolicy, call_with_retries};
pub use script::{Outcome, Rule, Script, ScriptError, Step, When};
pub use scripted::Scripted;
pub use secret::Secret;
pub use transcript::{message_shown, message_text, picture_shown, request_text, turn_text};

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};

/// Every provider kind, in alphabetical order: the one line to add for a new one.
pub const PROVIDERS: &[ProviderKind] =
    &[anthropic::KIND, bedrock::KIND, gemini::KIND, ollama::KIND, openai::KIND, scripted::KIND];

/// Builds the provider `name` from its configuration; the client behind it is made at its first call.
///
/// The error is one line for the author of the project file: an unknown `kind` (with the known ones) or a missing setting.
pub fn build(name: &str, config: &ProviderConfig, catalog: Arc<Catalog>) -> Result<Arc<dyn Llm>, String> {
    let Some(kind) = PROVIDERS.iter().find(|kind| kind.name == config.kind) else {
        let known: Vec<_> = PROVIDERS.iter().map(|kind| format!("`{}`", kind.name)).collect();
        return Err(format!("unknown provider kind `{}` of `{name}`; known: {}", config.kind, known.join(", ")));
    };
    let built = (kind.build)(name, config, catalog)?;
    Ok(if config.rate == Rate::default() { built } else { Arc::new(rate::Limited::new(built, config.rate)) })
}

/// The providers that exist without any configuration, from the environment that the caller hands in.
///
/// `env` answers the value of a variable: `OPENAI_API_KEY`, `OPENAI_BASE_URL` and the like ([`ProviderKind::environment`]).
/// All of them are always listed (without a key too: a local server may need none).
pub fn default_providers(env: &dyn Fn(&str) -> Option<String>) -> IndexMap<String, ProviderConfig> {
    PROVIDERS
        .iter()
        .filter_map(|kind| {
            let variables = kind.environment?;
            let text = |name: &str| env(name).filter(|text| !text.trim().is_empty());
            let mut config = ProviderConfig {
                kind: kind.name.to_string(),
                base_url: text(variables.base_url),
                api_key: text(variables.api_key).map(Secret::new),
                ..ProviderConfig::default()
            };
            if kind.name == bedrock::KIND.name {
                config.region = text("AWS_REGION").or_else(|| text("AWS_DEFAULT_REGION"));
                config.access_key_id = text("AWS_ACCESS_KEY_ID").map(Secret::new);
                config.secret_access_key = text("AWS_SECRET_ACCESS_KEY").map(Secret::new);
                config.session_token = text("AWS_SESSION_TOKEN").map(Secret::new);
            }
            Some((kind.name.to_string(), config))
        })
        .collect()
}

/// The names of tool wire forms, for `tools schema --for`.
pub const TOOL_FORMS: &[&str] = &["openai", "responses", "anthropic", "bedrock", "gemini", "ollama", "mcp"];

/// Returns `tools` in a wire form of [`TOOL_FORMS`] (cli.md 3); `None` for another name.
pub fn tool_wire(form: &str, tools: &[ToolSpec]) -> Option<Value> {
    let with =
        |key: &str, tool: &ToolSpec| json!({"name": tool.name, "description": tool.description, key: tool.parameters});
    match form {
        "openai" => Some(openai::tools(tools)),
        "responses" => Some(responses::tools(tools)),
        "anthropic" => Some(anthropic::tools(tools, true)),
        "bedrock" => Some(bedrock::tools(tools, true)),
        "ollama" => Some(openai::plain_tools(tools)),
        "gemini" => Some(gemini::tools(tools)),
        "mcp" => Some(tools.iter().map(|tool| with("inputSchema", tool)).collect()),
        _ => None,
    }
}

/// Why tools of a wire form are not sent strictly: each name with the reason; `None` where the form knows no strictness.
pub fn not_strict(form: &str, tools: &[ToolSpec]) -> Option<Vec<(String, String)>> {
    let dialect = match form {
        "openai" | "responses" => &structured::SchemaDialect::OPENAI,
        "anthropic" | "bedrock" => &structured::SchemaDialect::ANTHROPIC,
        _ => return None,
    };
    let alone = |tool: &ToolSpec| {
        let why = structured::why_not_strict(&tool.parameters, dialect)?;
        Some((tool.name.clone(), why))
    };
    let found: Vec<_> = tools.iter().filter_map(alone).collect();
    let is_anthropic = matches!(form, "anthropic" | "bedrock");
    if found.is_empty() && is_anthropic && !anthropic::is_small(tools) {
        let why = "all of them together are more than the provider takes strictly".to_string();
        return Some(tools.iter().map(|tool| (tool.name.clone(), why.clone())).collect());
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sorted_and_described() {
        let names: Vec<_> = PROVIDERS.iter().map(|kind| kind.name).collect();
        assert_eq!(names, ["anthropic", "bedrock", "gemini", "ollama", "openai", "scripted"]);
        assert!(PROVIDERS.iter().all(|kind| !kind.summary.is_empty()));
    }

    #[test]
    fn an_unknown_kind_is_refused_with_the_known_ones() {
        let config = ProviderConfig { kind: "opnai".into(), ..ProviderConfig::default() };
        let error = build("main", &config, Arc::default()).err();
        let expected = "unknown provider kind `opnai` of `main`; known: `anthropic`, `bedrock`, `gemini`, `ollama`, `openai`, `scripted`";
        assert_eq!(error.as_deref(), Some(expected));
        let config = ProviderConfig { kind: "scripted".into(), ..ProviderConfig::default() };
        assert_eq!(
            build("demo", &config, Arc::default()).err().as_deref(),
            Some("the scripted provider `demo` needs a `file`")
        );
    }

    #[test]
    fn defaults_come_from_the_environment_that_is_handed_in() {
        let env = |name: &str| match name {
            "OPENAI_API_KEY" => Some("sk-1234567".to_string()),
            "OPENAI_BASE_URL" => Some("http://127.0.0.1:1/v1".to_string()),
            "ANTHROPIC_API_KEY" => Some(" ".to_string()),
            _ => None,
        };
        let providers = default_providers(&env);
        assert_eq!(providers["openai"].api_key.as_ref().map(Secret::expose), Some("sk-1234567"));
        assert_eq!(providers["openai"].base_url.as_deref(), Some("http://127.0.0.1:1/v1"));
        assert!(providers["anthropic"].api_key.is_none() && providers["anthropic"].base_url.is_none());
        for (name, config) in &providers {
            assert!(build(name, config, Arc::default()).is_ok());
        }
    }

    #[test]
    fn every_tool_form_is_made() {
        let tool = ToolSpec { name: "f".into(), description: "d".into(), parameters: json!({"type": "object"}) };
        let made: Vec<String> = TOOL_FORMS
            .iter()
            .filter_map(|form| tool_wire(form, std::slice::from_ref(&tool)))
            .map(|wire| wire.to_string())
            .collect();
        assert_eq!(
            made,
            [
                r#"[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]"#,
                r#"[{"type":"function","strict":false,"name":"f","description":"d","parameters":{"type":"object"}}]"#,
                r#"[{"name":"f","description":"d","input_schema":{"type":"object"}}]"#,
                r#"[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}},"description":"d"}}]"#,
                r#"[{"name":"f","description":"d"}]"#,
                r#"[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]"#,
                r#"[{"name":"f","description":"d","inputSchema":{"type":"object"}}]"#,
            ]
        );
        assert_eq!(tool_wire("cohere", &[]), None);
    }

    #[test]
    fn what_cannot_be_said_strictly_is_named_with_the_reason() {
        let closed =
            |properties: Value| json!({"type": "object", "properties": properties, "additionalProperties": false});
        let why = |form: &str, parameters: Value| {
            let tool = ToolSpec { name: "f".into(), description: "d".into(), parameters };
            let is_strict =
                tool_wire(form, std::slice::from_ref(&tool)).unwrap().to_string().contains("\"strict\":true");
            let why = not_strict(form, std::slice::from_ref(&tool)).unwrap();
            assert_eq!(is_strict, why.is_empty(), "{form} {tool:?}");
            why.into_iter().map(|(_, why)| why).next().unwrap_or_default()
        };
        for form in ["openai", "responses", "anthropic", "bedrock"] {
            assert_eq!(
                why(
                    form,
                    closed(json!({"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}}))
                ),
                ""
            );
            assert_eq!(why(form, closed(json!({"a": closed(json!({"b": {}}))}))), "`a.b` may be anything");
            assert_eq!(
                why(form, closed(json!({"m": {"type": "object", "additionalProperties": {"type": "integer"}}}))),
                "`m` has keys of its own choice"
            );
            assert_eq!(
                why(form, closed(json!({"m": {"type": "array", "prefixItems": [], "items": {}}}))),
                "`m` has `prefixItems`"
            );
            assert_eq!(why(form, json!({"type": "object"})), "it has keys of its own choice");
        }
        let recursive = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "additionalProperties": false,
            "$defs": {"A": closed(json!({"a": {"$ref": "#/$defs/A"}}))}});
        assert_eq!(why("openai", recursive.clone()), "");
        assert_eq!(why("anthropic", recursive), "a type holds itself");
        assert_eq!(not_strict("mcp", &[]), None);
    }
}
