//! Providers, scripts, the catalog and permissions: what the project file says once for all agents.

use std::path::Path;

use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::decl::Name;
use crate::decl::models::{CatalogEntry as WrittenEntry, Provider};
use crate::diag::Diagnostic;
use crate::llm::{Catalog, CatalogEntry, Feature, PROVIDERS, ProviderConfig, Rate, Script, Secret, default_providers};
use crate::program::{Autonomy, MissingEnv, Permissions, Voice};
use crate::source::{self, Span};
use crate::tool::mcp::ServerConfig;
use crate::world::{ReadError, normal};

use super::env;
use super::load::{Loaded, slashed};

/// What the project says of models and permissions.
#[derive(Default)]
pub(crate) struct Providers {
    pub(crate) configs: IndexMap<String, ProviderConfig>,
    pub(crate) scripts: IndexMap<String, Value>,
    pub(crate) catalog: Catalog,
    pub(crate) mcp_servers: IndexMap<String, ServerConfig>,
    pub(crate) permissions: Permissions,
    pub(crate) autonomy: Autonomy,
    pub(crate) voice: Option<Voice>,
    pub(crate) missing_env: Vec<MissingEnv>,
}

/// How sure a choice must be; what is no confidence is reported.
fn autonomy(written: &crate::decl::module::Autonomy, findings: &mut crate::diag::Diagnostics) -> Autonomy {
    let default = Autonomy::default();
    let mut read = |key: &str, value: Option<f64>, default: f64| match value {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            let message = format!("`{key}` is a confidence from 0 to 1, found {value}");
            findings.push(Diagnostic::error("wrong-shape", written.place.0, message));
            default
        }
        value => value.unwrap_or(default),
    };
    Autonomy {
        agent_cut_off: read("agent_cut_off", written.agent_cut_off, default.agent_cut_off),
        goal_cut_off: read("goal_cut_off", written.goal_cut_off, default.goal_cut_off),
    }
}

/// Resolves the project file's settings; the providers that need no declaration are there too.
pub(crate) fn resolve(loaded: &mut Loaded<'_>) -> Providers {
    let world = loaded.world;
    let mut providers = Providers { configs: default_providers(&|name| world.env(name)), ..Providers::default() };
    let project = loaded.project.map(|id| std::sync::Arc::clone(&loaded.modules[id.0].decl));
    if let Some(project) = &project {
        for (name, provider) in project.providers.iter() {
            let config = provider_config(loaded, &mut providers, name, provider);
            providers.configs.insert(name.value.clone(), config);
        }
        for (name, server) in project.mcp_servers.iter() {
            super::servers::resolve(loaded, &mut providers, name, server);
        }
        if let Some(written) = &project.permissions {
            let names = |list: &crate::decl::List<Name>| list.iter().map(|name| name.value.clone()).collect();
            providers.permissions = Permissions {
                declared: true,
                allow: names(&written.allow),
                ask: names(&written.ask),
                deny: names(&written.deny),
            };
        }
    }
    if let Some(written) = project.as_ref().and_then(|project| project.autonomy.as_ref()) {
        providers.autonomy = autonomy(written, &mut loaded.diagnostics);
    }
    if let Some(written) = project.as_ref().and_then(|project| project.logging.as_ref()) {
        providers.voice = super::logging::voice(loaded, written);
    }
    let mut own: IndexMap<String, CatalogEntry> = IndexMap::new();
    for module in &loaded.modules {
        for (name, entry) in module.decl.models.iter().flat_map(|models| models.catalog.iter()) {
            let entry = catalog_entry(entry, &mut loaded.diagnostics);
            own.entry(name.value.clone()).or_insert(entry);
        }
    }
    let kinds = providers.configs.iter().map(|(name, config)| (name.clone(), config.kind.clone()));
    providers.catalog = Catalog::new(own).with_kinds(kinds.collect());
    providers
}

fn provider_config(
    loaded: &mut Loaded<'_>,
    providers: &mut Providers,
    name: &Name,
    written: &Provider,
) -> ProviderConfig {
    let kind = written.kind.map_or_else(|| name.value.clone(), |kind| kind.word().to_owned());
    let unread = |at: &Span| at.file == name.span.file && name.span.end <= at.start && at.end <= written.place.0.end;
    let unread = loaded.read_errors.iter().any(unread);
    if written.kind.is_none() && !unread && !PROVIDERS.iter().any(|known| known.name == name.value) {
        let known: Vec<&str> = PROVIDERS.iter().map(|kind| kind.name).collect();
        loaded.diagnostics.push(
            Diagnostic::error("missing-key", name.span, format!("the provider `{}` needs the key `kind`", name.value))
                .help(format!(
                    "add `kind: …`, one of {}; most servers are `kind: openai`",
                    crate::decl::read::listed(&known)
                )),
        );
    }
    let mut text = |value: &Name| -> String {
        let resolved = env::resolve(&value.value, loaded.world);
        for variable in resolved.missing {
            let (line, column) = loaded.sources.get(value.span.file).line_column(value.span.start);
            let path = loaded.sources.get(value.span.file).path();
            providers.missing_env.push(MissingEnv {
                section: "providers".to_owned(),
                name: name.value.clone(),
                variable: variable.clone(),
                place: format!("{path}:{line}:{column}"),
            });
            loaded.diagnostics.push(missing_env(&variable, value.span));
        }
        resolved.value
    };
    let count = |count: Option<std::num::NonZeroU32>| count.map(std::num::NonZeroU32::get);
    let mut secret =
        |value: &Option<Name>| value.as_ref().map(&mut text).filter(|key| !key.is_empty()).map(Secret::new);
    let (access_key_id, secret_access_key) = (secret(&written.access_key_id), secret(&written.secret_access_key));
    let (session_token, api_key) = (secret(&written.session_token), secret(&written.api_key));
    let mut plain = |value: &Option<Name>| value.as_ref().map(&mut text).filter(|text| !text.is_empty());
    let mut config = ProviderConfig {
        kind,
        base_url: plain(&written.base_url),
        api_key,
        api: written.api.map(|api| api.word().to_owned()),
        api_version: plain(&written.api_version),
        organization: plain(&written.organization),
        region: plain(&written.region),
        access_key_id,
        secret_access_key,
        session_token,
        rate: Rate {
            requests_per_minute: count(written.requests_per_minute),
            tokens_per_minute: count(written.tokens_per_minute),
            concurrency: count(written.concurrency),
        },
        headers: written.headers.iter().map(|(name, value)| (name.value.clone(), Secret::new(text(value)))).collect(),
        timeout: written.timeout.map(|timeout| timeout.0),
        read_timeout: None,
        script: None,
    };
    // What is not written is as the environment has it for the kind.
    if let Some(own) = default_providers(&|name| loaded.world.env(name)).get(&config.kind) {
        let written_key = written.api_key.is_some() || written.access_key_id.is_some() || written.base_url.is_some();
        if !written_key {
            config.fill_from(own);
        }
    }
    if let (Some(url), Some(at)) = (&config.base_url, &written.base_url)
        && !is_web_address(url)
    {
        loaded.diagnostics.push(bad_url(at.span));
    }
    let script = read_scripts(loaded, providers, name, written);
    if config.kind == "scripted" && written.file.0.is_empty() {
        loaded.diagnostics.push(
            Diagnostic::error("missing-key", name.span, format!("the provider `{}` needs the key `file`", name.value))
                .help("add `file: …`, the script that it answers from"),
        );
    }
    ProviderConfig { script, ..config }
}

/// The rules of all script files of a provider, in order; `None` when there is none or one of them is wrong.
fn read_scripts(loaded: &mut Loaded<'_>, providers: &mut Providers, name: &Name, written: &Provider) -> Option<Script> {
    let read: Vec<_> = written.file.iter().map(|file| read_script(loaded, file)).collect();
    let (mut script, mut replies) = (Script::default(), Vec::new());
    for (value, one) in read.into_iter().collect::<Option<Vec<_>>>()? {
        replies.extend(value["replies"].as_array().into_iter().flatten().cloned());
        script.rules.extend(one.rules);
    }
    if written.file.0.is_empty() {
        return None;
    }
    providers.scripts.insert(name.value.clone(), json!({"replies": replies}));
    Some(script)
}

fn read_script(loaded: &mut Loaded<'_>, file: &Name) -> Option<(Value, Script)> {
    let Some(path) = normal(Path::new(&file.value)) else {
        let message = format!("`{}` leads out of the project", file.value);
        loaded.diagnostics.push(Diagnostic::error("path-escapes", file.span, message));
        return None;
    };
    loaded.read.insert(path.clone());
    let text = match loaded.world.read(&path) {
        Ok(text) => text,
        Err(error) => {
            let (code, message) = match error {
                ReadError::NotFound => ("file-not-found", format!("there is no file `{}`", file.value)),
                ReadError::Escapes => ("path-escapes", format!("`{}` leads out of the project", file.value)),
                other => ("unreadable-file", format!("cannot read `{}`: {other}", file.value)),
            };
            loaded.diagnostics.push(Diagnostic::error(code, file.span, message));
            return None;
        }
    };
    let id = loaded.sources.add(slashed(&path), text);
    let (node, errors) = source::read(id, loaded.sources.get(id));
    let sound = errors.is_empty();
    loaded.diagnostics.extend(errors);
    let node = node.filter(|_| sound)?;
    let value = node.to_json();
    match Script::from_value(&value) {
        Ok(script) => Some((value, script)),
        Err(errors) => {
            for error in errors {
                let span = place_of(&node, &error.pointer);
                loaded.diagnostics.push(Diagnostic::error("bad-script", span, error.message));
            }
            None
        }
    }
}

/// Whether a text is an `http` or `https` address; one with a variable of the environment in it may be.
pub(crate) fn is_web_address(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    text.contains("${env:") || rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

/// The finding for a text that is no address.
pub(crate) fn bad_url(span: Span) -> Diagnostic {
    Diagnostic::error("bad-url", span, "this is not the address of a server")
        .help("write it with its scheme, such as `https://api.example.com/v1`")
}

/// The place of a JSON pointer in a tree, or of the nearest thing above it.
pub(crate) fn place_of(node: &source::Node, pointer: &str) -> Span {
    let mut at = node;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let next = match &at.kind {
            source::NodeKind::Map(map) => map.get(&token).map(|entry| &entry.value),
            source::NodeKind::List(items) => token.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    at.span
}

/// The warning for a variable of the environment that is not set.
pub(crate) fn missing_env(variable: &str, span: Span) -> Diagnostic {
    Diagnostic::warning("missing-env", span, format!("the environment variable `{variable}` is not set"))
        .help(format!("set it before a run that needs it, or give a default: `${{env:{variable}:-…}}`"))
}

fn catalog_entry(written: &WrittenEntry, findings: &mut crate::diag::Diagnostics) -> CatalogEntry {
    let mut features = std::collections::BTreeSet::new();
    for word in written.supports.iter().flat_map(|list| list.iter()) {
        match Feature::from_word(&word.value) {
            Some(feature) => {
                features.insert(feature);
            }
            None => {
                let words: Vec<&str> = Feature::ALL.iter().map(|(word, _)| *word).collect();
                findings.push(crate::decl::basic::unknown_word(&word.value, word.span, "an ability", &words));
            }
        }
    }
    CatalogEntry {
        input_usd_per_mtok: written.input_usd_per_mtok,
        output_usd_per_mtok: written.output_usd_per_mtok,
        cached_input_usd_per_mtok: written.cached_input_usd_per_mtok,
        cache_write_usd_per_mtok: written.cache_write_usd_per_mtok,
        thinking_usd_per_mtok: written.thinking_usd_per_mtok,
        max_output_tokens: written.max_output_tokens.map(std::num::NonZeroU32::get),
        ability: written.ability,
        tokens_per_second: written.tokens_per_second,
        knowledge_cutoff: written.knowledge_cutoff.as_ref().map(|name| name.value.clone()),
        context_tokens: written.context_tokens,
        supports: written.supports.is_some().then_some(features),
    }
}
