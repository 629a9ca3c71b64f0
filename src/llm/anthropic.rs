//! Anthropic's messages.
//!
//! What its wire demands: `max_tokens` always; consecutive messages of one side made one, tool results first; thinking
//! blocks sent back unchanged with their signatures; no sampling settings while it thinks (they are left out). Structured
//! output goes as `output_config.format`, tool arguments come as fragments of JSON.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::catalog::{Catalog, CatalogEntry, Feature};
use super::error::{LlmError, LlmErrorKind};
use super::http::{Http, too_large, words_of};
use super::options::ToolChoice;
use super::parse::REPLY_BYTES_MAX;
use super::provider::{Capabilities, Environment, Llm, ProviderConfig, ProviderKind};
use super::reply::{Delta, DeltaSink, Finish, Reply, Usage};
use super::request::{ImageSource, Message, OutputMode, Part, Request, Role, ToolSpec};
use super::sse::SseEvent;
use super::structured::{self, SchemaDialect};

const BASE_URL: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";
/// The limit on a reply's tokens when neither the author nor the catalog says one.
const MAX_TOKENS: u32 = 16_384;
/// The least budget for thinking that the provider takes.
const BUDGET_TOKENS_MIN: u32 = 1_024;
/// Marks the signature of a thinking part whose thoughts came encrypted.
const REDACTED_PREFIX: &str = "redacted_thinking:";

/// The line of [`PROVIDERS`](super::PROVIDERS).
pub(crate) const KIND: ProviderKind = ProviderKind {
    name: "anthropic",
    summary: "Anthropic's messages",
    environment: Some(Environment { api_key: "ANTHROPIC_API_KEY", base_url: "ANTHROPIC_BASE_URL" }),
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
        let http = Http::new(name, BASE_URL, headers, config)?;
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

    /// Adds what limits the reply and how the model thinks; returns whether it does.
    fn put_limits(
        &self,
        body: &mut Map<String, Value>,
        output_config: &mut Map<String, Value>,
        request: &Request,
    ) -> bool {
        let entry = self.entry(&request.model);
        let most = entry.and_then(|entry| entry.max_output_tokens);
        let mut max_tokens =
            request.options.max_tokens.unwrap_or_else(|| most.map_or(MAX_TOKENS, |most| most.min(MAX_TOKENS)));
        let thinking =
            request.options.thinking.as_ref().and_then(|thinking| Some((thinking.effort()?, thinking.budget()?)));
        let adaptive = entry.and_then(|entry| entry.has(Feature::AdaptiveThinking)).unwrap_or(false);
        let thinking = thinking.map(|(effort, budget)| {
            if adaptive {
                let effort = if effort == "minimal" { "low" } else { effort };
                output_config.insert("effort".into(), json!(effort));
                return json!({"type": "adaptive"});
            }
            let budget = budget.max(BUDGET_TOKENS_MIN);
            // The limit covers thinking too, and must be greater than its budget.
            if max_tokens <= budget {
                max_tokens = max_tokens.saturating_add(budget).min(most.unwrap_or(u32::MAX));
            }
            json!({"type": "enabled", "budget_tokens": budget.min(max_tokens.saturating_sub(1))})
        });
        body.insert("max_tokens".into(), json!(max_tokens));
        let thinks = thinking.is_some();
        if let Some(thinking) = thinking {
            body.insert("thinking".into(), thinking);
        }
        thinks
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
        let mut body = Map::new();
        body.insert("model".into(), json!(request.model));
        if let Some(system) = request.system.as_ref().filter(|system| !system.is_empty()) {
            let cached = request.options.cache == Some(true);
            let cached_form = || json!([{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]);
            body.insert("system".into(), if cached { cached_form() } else { json!(system) });
        }
        body.insert("messages".into(), json!(messages(&request.messages)));
        if !request.tools.is_empty() {
            body.insert("tools".into(), tools(&request.tools));
            if let Some(choice) = tool_choice(request) {
                body.insert("tool_choice".into(), choice);
            }
        }
        let mut output_config = Map::new();
        let native = request.output.as_ref().filter(|output| output.mode == OutputMode::Native);
        if let Some(schema) = native.and_then(|output| structured::strict(&output.schema, &SchemaDialect::ANTHROPIC)) {
            output_config.insert("format".into(), json!({"type": "json_schema", "schema": schema}));
        }
        let thinks = self.put_limits(&mut body, &mut output_config, request);
        if !output_config.is_empty() {
            body.insert("output_config".into(), Value::Object(output_config));
        }
        let sampling = [
            ("temperature", request.options.temperature.map(Value::from)),
            ("top_p", request.options.top_p.map(Value::from)),
            ("top_k", request.options.top_k.map(Value::from)),
        ];
        if !thinks {
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
}

/// The wire form of tools.
pub(crate) fn tools(specs: &[ToolSpec]) -> Value {
    let tool =
        |spec: &ToolSpec| json!({"name": spec.name, "description": spec.description, "input_schema": spec.parameters});
    specs.iter().map(tool).collect()
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
        Part::ToolResult { id, content, is_error, .. } => {
            let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
            if *is_error {
                block["is_error"] = json!(true);
            }
            block
        }
        // Thoughts of another provider have no signature, and are refused.
        Part::Thinking { text, signature } => match signature.as_deref()?.split_once(REDACTED_PREFIX) {
            Some(("", data)) => json!({"type": "redacted_thinking", "data": data}),
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
            Block::ToolUse { id, name, input, fragments } => {
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
    stop: Option<String>,
    usage: Usage,
    model: Option<String>,
    done: bool,
    bytes: usize,
}

impl Assembly {
    /// Takes one event; `true` when it was the last.
    fn take(&mut self, http: &Http, event: &SseEvent, sink: &dyn DeltaSink) -> Result<bool, LlmError> {
        let data: Value = serde_json::from_str(&event.data).map_err(|error| {
            let words = words_of(event.data.as_bytes());
            http.error(LlmErrorKind::Protocol, &format!("sent an event that is not JSON ({error}): {words}"))
        })?;
        self.bytes += event.data.len();
        if self.blocks.len() > REPLY_BYTES_MAX / 64 {
            return Err(too_large(http));
        }
        match data.get("type").and_then(Value::as_str).unwrap_or(&event.event) {
            "message_start" => self.take_head(&data["message"]),
            "content_block_start" => self.begin_block(&data["content_block"], sink),
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
        let block = Block::begin(block);
        if let Block::ToolUse { name, .. } = &block {
            let index = self.blocks.iter().filter(|block| matches!(block, Block::ToolUse { .. })).count();
            sink.delta(Delta::ToolCall { index, name: name.clone() });
        }
        self.blocks.push(block);
    }

    fn take_delta(&mut self, data: &Value, http: &Http, sink: &dyn DeltaSink) -> Result<(), LlmError> {
        let index = data.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        let index = index.unwrap_or(self.blocks.len().saturating_sub(1));
        let before = self.blocks.iter().take(index);
        let call_index = before.filter(|block| matches!(block, Block::ToolUse { .. })).count();
        let piece = |key: &str| data["delta"].get(key).and_then(Value::as_str).unwrap_or_default();
        let Some(block) = self.blocks.get_mut(index) else {
            return Err(
                http.error(LlmErrorKind::Protocol, &format!("sent a piece of block {index}, which it never began"))
            );
        };
        let (target, piece, delta) = match (data["delta"]["type"].as_str().unwrap_or_default(), block) {
            ("text_delta", Block::Text(text)) => (text, piece("text"), Delta::Text(piece("text").into())),
            ("thinking_delta", Block::Thinking { text, .. }) => {
                (text, piece("thinking"), Delta::Thinking(piece("thinking").into()))
            }
            ("signature_delta", Block::Thinking { signature, .. }) => {
                signature.push_str(piece("signature"));
                return Ok(());
            }
            ("input_json_delta", Block::ToolUse { fragments, .. }) => {
                let fragment = piece("partial_json");
                (fragments, fragment, Delta::ToolArguments { index: call_index, fragment: fragment.into() })
            }
            _ => return Ok(()),
        };
        if target.len() + piece.len() > REPLY_BYTES_MAX {
            return Err(too_large(http));
        }
        target.push_str(piece);
        if !piece.is_empty() {
            sink.delta(delta);
        }
        Ok(())
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
        let parts: Vec<Part> = self.blocks.into_iter().filter_map(Block::into_part).collect();
        let calls = parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
        let finish = match self.stop.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
            Some("refusal") => Finish::Refusal(super::request::text_of(&parts)),
            _ if calls => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        Ok(Reply { parts, finish, usage: self.usage, model: self.model.unwrap_or_else(|| request.model.clone()) })
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
