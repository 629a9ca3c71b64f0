//! Anthropic's messages.
//!
//! What its wire demands: `max_tokens` always; consecutive messages of one side made one, tool results first; thinking
//! blocks sent back unchanged with their signatures; no sampling settings while it thinks, and none at all for newer models
//! (they are left out). Structured output goes as `output_config.format`, tool arguments come as fragments of JSON.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::catalog::{Catalog, CatalogEntry};
use super::claude;
use super::error::{LlmError, LlmErrorKind};
use super::http::{Http, too_large, words_of};
use super::options::ToolChoice;
use super::parse::REPLY_BYTES_MAX;
use super::provider::{Capabilities, Environment, Llm, ProviderConfig, ProviderKind};
use super::reply::{Delta, DeltaSink, Finish, Reply, Usage};
use super::request::{ImageSource, Message, OutputMode, Part, Picture, Request, Role, ToolSpec};
use super::sse::SseEvent;
use super::structured::{self, SchemaDialect};

const BASE_URL: &str = "https://api.anthropic.com";
const KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";
const VERSION: &str = "2023-06-01";
/// Marks the signature of a thinking part whose thoughts came encrypted.
const REDACTED_PREFIX: &str = "redacted_thinking:";

/// The line of [`PROVIDERS`](super::PROVIDERS).
pub(crate) const KIND: ProviderKind = ProviderKind {
    name: "anthropic",
    summary: "Anthropic's messages",
    environment: Some(Environment { api_key: KEY_VARIABLE, base_url: "ANTHROPIC_BASE_URL" }),
    build,
};

fn build(name: &str, config: &ProviderConfig, catalog: Arc<Catalog>) -> Result<Arc<dyn Llm>, String> {
    Ok(Arc::new(Anthropic::new(name, config, catalog)?))
}

/// A provider that speaks Anthropic's messages.
struct Anthropic {
    name: String,
    http: Http,
    catalog: Arc<Catalog>,
    /// `/v1/messages`, less the part that the base URL has already.
    path: &'static str,
}

impl Anthropic {
    fn new(name: &str, config: &ProviderConfig, catalog: Arc<Catalog>) -> Result<Anthropic, String> {
        let mut headers = vec![("anthropic-version", VERSION.to_string())];
        headers.extend(config.api_key.iter().map(|key| ("x-api-key", key.expose().to_string())));
        let http = Http::new(name, BASE_URL, KEY_VARIABLE, headers, config)?;
        let path = if http.base_ends_with("/v1") { "/messages" } else { "/v1/messages" };
        Ok(Anthropic { name: name.to_string(), http, catalog, path })
    }

    fn entry(&self, model: &str) -> Option<&CatalogEntry> {
        let own = self.catalog.get(&format!("{}/{model}", self.name));
        own.or_else(|| self.catalog.get(&format!("anthropic/{model}")))
    }

    async fn exchange(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        let answer = self.http.post(self.path, &self.wire(request)).await?;
        if !answer.is_event_stream() {
            let reply = whole_reply(&self.http, request, &answer.json().await?)?;
            if request.options.stream {
                super::reply::replay(&reply, sink);
            }
            return Ok(reply);
        }
        let mut assembly = Assembly::default();
        answer.events(|event| assembly.take(&self.http, &event, sink)).await?;
        assembly.finish(&self.http, request)
    }
}

/// Whether the head of a request is marked for the provider's cache: it will be sent again in a tool loop or a
/// conversation, or the author asks for it. Elsewhere the dearer writing to the cache would be for nothing.
pub(super) fn marks(request: &Request) -> bool {
    let conversation = request.messages.iter().any(|message| message.role == Role::Assistant);
    request.options.cache.unwrap_or(!request.tools.is_empty() || conversation)
}

/// Marks the last block of the last message: the next turn reads all before it from the cache.
fn mark_end(messages: &mut [Value]) {
    let Some(content) = messages.last_mut().map(|message| &mut message["content"]) else { return };
    if let Some(text) = content.as_str() {
        *content = json!([{"type": "text", "text": text}]);
    }
    let last = content.as_array_mut().and_then(|blocks| blocks.last_mut());
    if let Some(block) = last.filter(|block| block["type"] != "thinking" && block["type"] != "redacted_thinking") {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
}

#[async_trait]
impl Llm for Anthropic {
    fn capabilities(&self, model: &str) -> Capabilities {
        let assumed = Capabilities { tools: true, json_schema: true, images: true, thinking: true };
        Capabilities::of(self.entry(model), assumed)
    }

    async fn call(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        self.http.within(request.options.timeout, self.exchange(request, sink)).await
    }

    fn output_mode(&self, model: &str, schema: &Value) -> OutputMode {
        let sayable = || structured::strict(schema, &SchemaDialect::ANTHROPIC).is_some();
        if self.capabilities(model).json_schema && sayable() { OutputMode::Native } else { OutputMode::Instructions }
    }

    fn wire(&self, request: &Request) -> Value {
        let marked = marks(request);
        let mut body = Map::new();
        body.insert("model".into(), json!(request.model));
        if let Some(system) = request.system.as_ref().filter(|system| !system.is_empty()) {
            let cached_form = || json!([{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]);
            body.insert("system".into(), if marked { cached_form() } else { json!(system) });
        }
        let mut messages = messages(&request.messages);
        if marked {
            mark_end(&mut messages);
        }
        body.insert("messages".into(), json!(messages));
        if !request.tools.is_empty() {
            let strict = self.capabilities(&request.model).json_schema;
            body.insert("tools".into(), tools(&request.tools, strict));
            if let Some(choice) = tool_choice(request) {
                body.insert("tool_choice".into(), choice);
            }
        }
        let mut output_config = Map::new();
        let native = request.output.as_ref().filter(|output| output.mode == OutputMode::Native);
        if let Some(schema) = native.and_then(|output| structured::strict(&output.schema, &SchemaDialect::ANTHROPIC)) {
            output_config.insert("format".into(), json!({"type": "json_schema", "schema": schema}));
        }
        let limits = claude::limits(&request.model, self.entry(&request.model), &request.options);
        let thinks = limits.thinks;
        body.insert("max_tokens".into(), json!(limits.max_tokens));
        body.extend(limits.thinking.map(|thinking| ("thinking".to_string(), thinking)));
        output_config.extend(limits.effort.map(|effort| ("effort".to_string(), json!(effort))));
        if !output_config.is_empty() {
            body.insert("output_config".into(), Value::Object(output_config));
        }
        let sampling = [
            ("temperature", request.options.temperature.map(Value::from)),
            ("top_p", request.options.top_p.map(Value::from)),
            ("top_k", request.options.top_k.map(Value::from)),
        ];
        if !thinks && claude::takes_sampling(&request.model) {
            body.extend(sampling.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))));
        }
        if !request.options.stop.is_empty() {
            body.insert("stop_sequences".into(), json!(request.options.stop));
        }
        if request.options.stream {
            body.insert("stream".into(), json!(true));
        }
        Value::Object(body)
    }

    async fn models(&self) -> Result<Vec<String>, LlmError> {
        let path = self.path.strip_suffix("messages").unwrap_or(self.path);
        let body = self.http.get(&format!("{path}models?limit=1000")).await?;
        let listed = body["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str());
        Ok(listed.map(str::to_string).collect())
    }
}

/// The most tools that are sent strictly: all of a request become one grammar, which must not grow too large.
const STRICT_TOOLS_MAX: usize = 8;
/// The most optional parameters that strict tools may have together.
const STRICT_OPTIONAL_MAX: usize = 24;
/// The most bytes of schemas that are sent strictly.
const STRICT_BYTES_MAX: usize = 8 * 1024;

/// The wire form of tools; strict where `strict` is wanted, the dialect can say the parameters, and all are few.
pub(crate) fn tools(specs: &[ToolSpec], strict: bool) -> Value {
    let strict = strict && is_small(specs);
    let tool = |spec: &ToolSpec| {
        let mut tool = json!({"name": spec.name, "description": spec.description, "input_schema": spec.parameters});
        let sayable = strict && !structured::is_wrapped(&spec.parameters);
        let dialect = || structured::strict(&spec.parameters, &SchemaDialect::ANTHROPIC);
        if let Some(parameters) = sayable.then(dialect).flatten() {
            tool["input_schema"] = parameters;
            tool["strict"] = json!(true);
        }
        tool
    };
    specs.iter().map(tool).collect()
}

pub(super) fn is_small(specs: &[ToolSpec]) -> bool {
    let bytes: usize = specs.iter().map(|spec| spec.parameters.to_string().len()).sum();
    let optional: usize = specs.iter().map(|spec| structured::optional_members(&spec.parameters)).sum();
    specs.len() <= STRICT_TOOLS_MAX && optional <= STRICT_OPTIONAL_MAX && bytes <= STRICT_BYTES_MAX
}

fn tool_choice(request: &Request) -> Option<Value> {
    let serial = request.options.parallel_tool_calls == Some(false);
    let mut choice = match (&request.options.tool_choice, serial) {
        (None, false) => return None,
        (None | Some(ToolChoice::Auto), _) => json!({"type": "auto"}),
        (Some(ToolChoice::None), _) => return Some(json!({"type": "none"})),
        (Some(ToolChoice::Required), _) => json!({"type": "any"}),
        (Some(ToolChoice::Tool(name)), _) => json!({"type": "tool", "name": name}),
    };
    if serial {
        choice["disable_parallel_tool_use"] = json!(true);
    }
    Some(choice)
}

/// Messages in their form: sides alternate, so what one side says in a row is joined, tool results first.
fn messages(messages: &[Message]) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let side = if message.role == Role::Assistant { "assistant" } else { "user" };
        let blocks = message.parts.iter().filter_map(block);
        match turns.last_mut() {
            Some((last, joined)) if *last == side => joined.extend(blocks),
            _ => turns.push((side, blocks.collect())),
        }
    }
    turns.retain(|(_, blocks)| !blocks.is_empty());
    turns.into_iter().map(|(side, blocks)| json!({"role": side, "content": content(blocks)})).collect()
}

fn content(mut blocks: Vec<Value>) -> Value {
    if let [block] = &blocks[..]
        && block["type"] == "text"
    {
        return block["text"].clone();
    }
    // A stable sort: results keep their order.
    blocks.sort_by_key(|block| {
        block["type"] != "tool_result" && block["type"] != "thinking" && block["type"] != "redacted_thinking"
    });
    Value::Array(blocks)
}

fn block(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text } if text.is_empty() => return None,
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Image { source: ImageSource::Url(url), .. } => {
            json!({"type": "image", "source": {"type": "url", "url": url}})
        }
        Part::Image { mime, source: ImageSource::Data(data) } => {
            json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}})
        }
        Part::ToolCall { id, name, arguments } => {
            let input = if arguments.is_object() { arguments.clone() } else { json!({}) };
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
        Part::ToolResult { id, content, is_error, pictures, .. } => {
            let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
            if !pictures.is_empty() {
                let source =
                    |picture: &Picture| json!({"type": "base64", "media_type": picture.mime, "data": picture.data});
                let images = pictures.iter().map(|picture| json!({"type": "image", "source": source(picture)}));
                block["content"] = std::iter::once(json!({"type": "text", "text": content})).chain(images).collect();
            }
            if *is_error {
                block["is_error"] = json!(true);
            }
            block
        }
        // Thoughts of another provider have no signature, or a tagged one, and are refused.
        Part::Thinking { text, signature } => match signature.as_deref()?.split_once(REDACTED_PREFIX) {
            Some(("", data)) => json!({"type": "redacted_thinking", "data": data}),
            _ if signature.as_deref()?.contains(':') => return None,
            _ => json!({"type": "thinking", "thinking": text, "signature": signature}),
        },
    })
}

/// Reads an answer that came whole.
fn whole_reply(http: &Http, request: &Request, body: &Value) -> Result<Reply, LlmError> {
    let Some(content) = body.get("content").and_then(Value::as_array) else {
        return Err(http.error(
            LlmErrorKind::Protocol,
            &format!("answered without `content`: {}", words_of(body.to_string().as_bytes())),
        ));
    };
    let mut assembly = Assembly { done: true, ..Assembly::default() };
    for block in content {
        assembly.blocks.push(Block::begin(block));
    }
    assembly.take_head(body);
    assembly.take_stop(body);
    assembly.finish(http, request)
}

/// A block of a reply while it comes.
enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    ToolUse {
        /// Which call of the reply it is.
        number: usize,
        id: String,
        name: String,
        input: Value,
        fragments: String,
    },
    /// A kind that means nothing here.
    Other,
}

impl Block {
    fn begin(block: &Value) -> Block {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => Block::Text(text("text")),
            "thinking" => Block::Thinking { text: text("thinking"), signature: text("signature") },
            "redacted_thinking" => {
                Block::Thinking { text: String::new(), signature: format!("{REDACTED_PREFIX}{}", text("data")) }
            }
            "tool_use" => Block::ToolUse {
                number: 0,
                id: text("id"),
                name: text("name"),
                input: block.get("input").cloned().unwrap_or_else(|| json!({})),
                fragments: String::new(),
            },
            _ => Block::Other,
        }
    }

    fn into_part(self) -> Option<Part> {
        match self {
            Block::Text(text) => (!text.is_empty()).then_some(Part::Text { text }),
            Block::Thinking { text, signature } => {
                Some(Part::Thinking { text, signature: (!signature.is_empty()).then_some(signature) })
            }
            Block::ToolUse { id, name, input, fragments, .. } => {
                let arguments = if fragments.is_empty() { input } else { super::reply::read_arguments(&fragments) };
                Some(Part::ToolCall { id, name, arguments })
            }
            Block::Other => None,
        }
    }
}

/// A reply while its events come.
#[derive(Default)]
struct Assembly {
    blocks: Vec<Block>,
    /// How many of the blocks are tool calls.
    calls: usize,
    stop: Option<String>,
    usage: Usage,
    model: Option<String>,
    done: bool,
    /// What the pieces so far come to.
    bytes: usize,
}

impl Assembly {
    /// Takes one event; `true` when it was the last.
    fn take(&mut self, http: &Http, event: &SseEvent, sink: &dyn DeltaSink) -> Result<bool, LlmError> {
        let data: Value = serde_json::from_str(&event.data).map_err(|error| {
            let words = words_of(event.data.as_bytes());
            http.error(LlmErrorKind::Protocol, &format!("sent an event that is not JSON ({error}): {words}"))
        })?;
        match data.get("type").and_then(Value::as_str).unwrap_or(&event.event) {
            "message_start" => self.take_head(&data["message"]),
            "content_block_start" => {
                self.count(event.data.len(), http)?;
                self.begin_block(&data["content_block"], sink);
            }
            "content_block_delta" => self.take_delta(&data, http, sink)?,
            "message_delta" => {
                self.take_head(&data);
                self.take_stop(&data["delta"]);
            }
            "message_stop" => self.done = true,
            "error" => return Err(stream_error(http, &data)),
            // `ping`, `content_block_stop`, and what is yet to be invented.
            _ => {}
        }
        Ok(self.done)
    }

    fn begin_block(&mut self, block: &Value, sink: &dyn DeltaSink) {
        let mut block = Block::begin(block);
        if let Block::ToolUse { number, name, .. } = &mut block {
            *number = self.calls;
            self.calls += 1;
            sink.delta(Delta::ToolCall { index: *number, name: name.clone() });
        }
        self.blocks.push(block);
    }

    fn take_delta(&mut self, data: &Value, http: &Http, sink: &dyn DeltaSink) -> Result<(), LlmError> {
        let delta = &data["delta"];
        let kind = delta["type"].as_str().unwrap_or_default();
        let key = match kind {
            "text_delta" => "text",
            "thinking_delta" => "thinking",
            "signature_delta" => "signature",
            "input_json_delta" => "partial_json",
            _ => return Ok(()),
        };
        let piece = delta[key].as_str().unwrap_or_default();
        self.count(piece.len(), http)?;
        let index = data["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let index = index.unwrap_or(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(index) else {
            return Err(
                http.error(LlmErrorKind::Protocol, &format!("sent a piece of block {index}, which it never began"))
            );
        };
        match (kind, block) {
            _ if piece.is_empty() => {}
            ("text_delta", Block::Text(text)) => {
                text.push_str(piece);
                sink.delta(Delta::Text(piece.to_string()));
            }
            ("thinking_delta", Block::Thinking { text, .. }) => {
                text.push_str(piece);
                sink.delta(Delta::Thinking(piece.to_string()));
            }
            ("signature_delta", Block::Thinking { signature, .. }) => signature.push_str(piece),
            ("input_json_delta", Block::ToolUse { number, fragments, .. }) => {
                fragments.push_str(piece);
                sink.delta(Delta::ToolArguments { index: *number, fragment: piece.to_string() });
            }
            // A piece that does not fit its block says nothing.
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize, http: &Http) -> Result<(), LlmError> {
        self.bytes += bytes;
        if self.bytes > REPLY_BYTES_MAX { Err(too_large(http)) } else { Ok(()) }
    }

    /// Takes model and usage; the figures of a later event stand for all before it.
    fn take_head(&mut self, message: &Value) {
        if let Some(model) = message.get("model").and_then(Value::as_str) {
            self.model = Some(model.to_string());
        }
        let count = |key: &str| message.get("usage").and_then(|usage| usage.get(key)).and_then(Value::as_u64);
        let usage = &mut self.usage;
        let cached = count("cache_read_input_tokens").unwrap_or(usage.cached_input_tokens);
        let written = count("cache_creation_input_tokens").unwrap_or(usage.cache_write_tokens);
        let plain_before = usage.input_tokens.saturating_sub(usage.cached_input_tokens + usage.cache_write_tokens);
        let plain = count("input_tokens").unwrap_or(plain_before);
        usage.input_tokens = plain.saturating_add(cached).saturating_add(written);
        usage.cached_input_tokens = cached;
        usage.cache_write_tokens = written;
        usage.output_tokens = count("output_tokens").unwrap_or(usage.output_tokens);
        let thinking = message.pointer("/usage/output_tokens_details/thinking_tokens").and_then(Value::as_u64);
        usage.thinking_tokens = thinking.unwrap_or(usage.thinking_tokens);
    }

    fn take_stop(&mut self, message: &Value) {
        if let Some(reason) = message.get("stop_reason").and_then(Value::as_str) {
            self.stop = Some(reason.to_string());
        }
    }

    fn finish(self, http: &Http, request: &Request) -> Result<Reply, LlmError> {
        if !self.done && self.stop.is_none() {
            return Err(http.error(LlmErrorKind::Transport, "ended its stream in the middle of the reply"));
        }
        let mut parts: Vec<Part> = self.blocks.into_iter().filter_map(Block::into_part).collect();
        structured::settle_arguments(&request.tools, &mut parts);
        let calls = parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
        let finish = match self.stop.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
            Some("refusal") => Finish::Refusal(super::request::text_of(&parts)),
            _ if calls => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        Ok(Reply {
            parts,
            finish,
            usage: self.usage,
            model: self.model.unwrap_or_else(|| request.model.clone()),
            from_cache: false,
        })
    }
}

/// An error in the middle of a stream; its type stands for the status that can no longer be sent.
fn stream_error(http: &Http, data: &Value) -> LlmError {
    let status = match data.pointer("/error/type").and_then(Value::as_str).unwrap_or_default() {
        "overloaded_error" => 529,
        "rate_limit_error" => 429,
        "authentication_error" | "permission_error" => 401,
        "invalid_request_error" | "not_found_error" | "request_too_large" => 400,
        _ => 500,
    };
    let words = words_of(data.to_string().as_bytes());
    http.error(LlmError::kind_of_status(status), &format!("failed while it answered: {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::test_support::{Answer, Collected, MockLlm, failing, provider, survives, tool_conversation};
    use crate::llm::{NoSink, Options, OutputSchema, Thinking};

    fn anthropic() -> Anthropic {
        Anthropic::new("anthropic", &ProviderConfig::default(), Arc::default()).unwrap()
    }

    fn request() -> Request {
        Request { model: "claude-sonnet-4-5".into(), messages: vec![Message::user("Hello")], ..Request::default() }
    }

    #[test]
    fn a_plain_request_says_no_more_than_it_must() {
        assert_eq!(
            anthropic().wire(&request()).to_string(),
            r#"{"model":"claude-sonnet-4-5","messages":[{"role":"user","content":"Hello"}],"max_tokens":16384}"#
        );
    }

    #[test]
    fn every_option_has_its_place() {
        let mut full = tool_conversation();
        full.output = Some(OutputSchema::native("T", json!({"type": "array", "items": {"type": "integer"}})));
        full.options = Options {
            temperature: Some(0.5),
            top_p: Some(0.9),
            top_k: Some(7),
            max_tokens: Some(100),
            seed: Some(7),
            stop: vec!["END".into()],
            parallel_tool_calls: Some(false),
            tool_choice: Some(ToolChoice::Required),
            cache: Some(true),
            stream: true,
            ..Options::default()
        };
        assert_eq!(
            anthropic().wire(&full).to_string(),
            concat!(
                r#"{"model":"m","system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"#,
                r#""messages":[{"role":"user","content":[{"type":"text","text":"Weather?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},"#,
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"tool_use","id":"c1","name":"get_forecast","input":{"city":"Bern"}},{"type":"tool_use","id":"c2","name":"now","input":{}}]},"#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"sunny"},{"type":"tool_result","tool_use_id":"c2","content":"no clock","is_error":true},{"type":"text","text":"Go on","cache_control":{"type":"ephemeral"}}]}],"#,
                r#""tools":[{"name":"get_forecast","description":"Forecast","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false},"strict":true}],"#,
                r#""tool_choice":{"type":"any","disable_parallel_tool_use":true},"max_tokens":100,"#,
                r#""output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"value":{"type":"array","items":{"type":"integer"}}},"required":["value"],"additionalProperties":false}}},"#,
                r#""temperature":0.5,"top_p":0.9,"top_k":7,"stop_sequences":["END"],"stream":true}"#,
            )
        );
    }

    #[test]
    fn thinking_is_a_budget_for_old_models_and_an_effort_for_new_ones() {
        let mut request = request();
        request.options.thinking = Some(Thinking::Effort("high".into()));
        request.options.temperature = Some(0.0);
        let body = anthropic().wire(&request);
        assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 24_576}));
        assert_eq!((&body["max_tokens"], body.get("temperature")), (&json!(40_960), None));
        request.model = "claude-opus-4-6".into();
        let body = anthropic().wire(&request);
        assert_eq!(body["thinking"], json!({"type": "adaptive"}));
        assert_eq!((&body["output_config"], &body["max_tokens"]), (&json!({"effort": "high"}), &json!(16_384)));
        request.options.thinking = Some(Thinking::Off);
        assert_eq!(anthropic().wire(&request).get("thinking"), None);
    }

    #[test]
    fn a_schema_it_cannot_say_goes_as_instructions() {
        let map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        let mode = |model: &str, schema: &Value| anthropic().output_mode(model, schema);
        assert_eq!(mode("claude-sonnet-4-5", &map), OutputMode::Instructions);
        assert_eq!(
            mode("claude-sonnet-4-5", &json!({"type": "array", "items": {"type": "integer"}})),
            OutputMode::Native
        );
        assert_eq!(
            mode("claude-3-5-haiku-20241022", &json!({"type": "array", "items": {"type": "integer"}})),
            OutputMode::Instructions
        );
    }

    #[test]
    fn thoughts_go_back_as_they_came_and_foreign_ones_do_not() {
        let block = |signature: Option<&str>| {
            block(&Part::Thinking { text: "hm".into(), signature: signature.map(str::to_string) })
        };
        assert_eq!(block(Some("redacted_thinking:xyz")), Some(json!({"type": "redacted_thinking", "data": "xyz"})));
        assert_eq!(block(Some("sig")), Some(json!({"type": "thinking", "thinking": "hm", "signature": "sig"})));
        assert_eq!((block(None), block(Some("gemini:c2ln"))), (None, None));
    }

    fn whole_body() -> Value {
        json!({"model": "claude-sonnet-4-5-20250929", "stop_reason": "tool_use", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "Let me see"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}],
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2, "output_tokens": 5}})
    }

    #[tokio::test]
    async fn a_whole_reply_is_read() {
        let body = whole_body();
        let server = MockLlm::answering(vec![Answer::json(200, &body)]).await;
        let llm = provider("anthropic", &server.url());
        let reply = llm.call(&request(), &NoSink).await.unwrap();
        assert_eq!(
            reply.parts,
            [
                Part::Thinking { text: "hm".into(), signature: Some("sig".into()) },
                Part::Thinking { text: String::new(), signature: Some("redacted_thinking:xyz".into()) },
                Part::text("Let me see"),
                Part::ToolCall { id: "c1".into(), name: "f".into(), arguments: json!({"x": 1}) },
            ]
        );
        let usage = Usage {
            input_tokens: 16,
            output_tokens: 5,
            cached_input_tokens: 4,
            cache_write_tokens: 2,
            thinking_tokens: 0,
        };
        assert_eq!((reply.finish, reply.usage), (Finish::ToolCalls, usage));
        let received = &server.received()[0];
        assert_eq!(received.path, "/v1/messages");
        assert_eq!(received.header("x-api-key"), Some("sk-secret-0123456789"));
        assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!(received.body, llm.wire(&request()));
    }

    fn streamed() -> Vec<Value> {
        let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let start =
            |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
        vec![
            json!({"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 1}}}),
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            json!({"type": "ping"}),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            delta(0, json!({"type": "signature_delta", "signature": "si"})),
            delta(0, json!({"type": "signature_delta", "signature": "g"})),
            json!({"type": "content_block_stop", "index": 0}),
            start(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"type": "text_delta", "text": "Grüße "})),
            delta(1, json!({"type": "text_delta", "text": "🦀"})),
            start(2, json!({"type": "tool_use", "id": "a", "name": "f", "input": {}})),
            delta(2, json!({"type": "input_json_delta", "partial_json": ""})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{\"x\": \"ü"})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "\"}"})),
            start(3, json!({"type": "tool_use", "id": "b", "name": "g", "input": {}})),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 42}}),
            json!({"type": "message_stop"}),
        ]
    }

    #[tokio::test]
    async fn a_stream_cut_anywhere_is_assembled() {
        for size in [1, 2, 3, 7, 64, 100_000] {
            let server = MockLlm::answering(vec![Answer::anthropic_stream(&streamed()).in_pieces(size)]).await;
            let mut request = request();
            request.options.stream = true;
            let sink = Collected::default();
            let reply = provider("anthropic", &server.url()).call(&request, &sink).await.unwrap();
            assert_eq!(
                reply.parts,
                [
                    Part::Thinking { text: "hm".into(), signature: Some("sig".into()) },
                    Part::text("Grüße 🦀"),
                    Part::ToolCall { id: "a".into(), name: "f".into(), arguments: json!({"x": "ü"}) },
                    Part::ToolCall { id: "b".into(), name: "g".into(), arguments: json!({}) },
                ]
            );
            let usage = Usage { input_tokens: 12, cached_input_tokens: 3, output_tokens: 42, ..Usage::default() };
            assert_eq!((reply.finish, reply.usage, reply.model.as_str()), (Finish::ToolCalls, usage, "m-1"));
            assert_eq!(sink.shown(), ["(hm)", "Grüße ", "🦀", "[0 f]", "0:{\"x\": \"ü", "0:\"}", "[1 g]"]);
        }
    }

    #[tokio::test]
    async fn stop_reasons_are_told_apart() {
        let reply = |reason: &str| {
            Answer::json(200, &json!({"content": [{"type": "text", "text": "x"}], "stop_reason": reason}))
        };
        let reasons = ["end_turn", "max_tokens", "refusal", "stop_sequence", "model_context_window_exceeded"];
        let server = MockLlm::answering(reasons.map(reply).to_vec()).await;
        let llm = provider("anthropic", &server.url());
        let mut finishes = Vec::new();
        for _ in reasons {
            finishes.push(llm.call(&request(), &NoSink).await.unwrap().finish);
        }
        assert_eq!(finishes, [Finish::Stop, Finish::Length, Finish::Refusal("x".into()), Finish::Stop, Finish::Length]);
    }

    #[tokio::test]
    async fn an_error_inside_a_stream_has_the_kind_of_its_status() {
        let mut events = streamed();
        events.truncate(8);
        events.push(json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
        let server = MockLlm::answering(vec![Answer::anthropic_stream(&events)]).await;
        let error = provider("anthropic", &server.url()).call(&request(), &NoSink).await.unwrap_err();
        assert_eq!((error.kind, error.is_retryable()), (LlmErrorKind::Status { code: 529 }, true));
        assert_eq!(error.message, "provider `anthropic` failed while it answered: Overloaded");
    }

    #[tokio::test]
    async fn a_piece_of_a_block_that_never_began_is_refused() {
        let stray = json!({"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}});
        let server = MockLlm::answering(vec![Answer::anthropic_stream(&[stray])]).await;
        let error = provider("anthropic", &server.url()).call(&request(), &NoSink).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Protocol);
    }

    #[tokio::test]
    async fn strange_answers_end_as_replies_or_errors() {
        survives("anthropic", streamed(), Answer::anthropic_stream).await;
        let whole = |bodies: &[Value]| Answer::json(200, &bodies[0]);
        survives("anthropic", vec![whole_body()], whole).await;
    }

    #[tokio::test]
    async fn a_server_that_fails_is_told_in_words() {
        failing("anthropic", Answer::anthropic_stream(&streamed())).await;
    }
}
