//! Amazon Bedrock: the Converse API, one shape for the models of many makers.
//!
//! Requests are signed (Signature Version 4), or carry a Bedrock API key. Streams are binary frames. What only one maker
//! knows (thinking, `top_k` of Claude) goes as `additionalModelRequestFields`; marks for the prompt cache go only to models
//! whose price for cache writes is known.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::anthropic;
use super::assembly::{Assembly, answered_without, cut_off, tagged, untagged};
use super::catalog::{Catalog, CatalogEntry};
use super::claude;
use super::error::{LlmError, LlmErrorKind};
use super::eventstream::{Broken, Frame, FrameDecoder};
use super::http::{Answer, Http, too_large, words_of};
use super::ollama::refuse_image_urls;
use super::options::ToolChoice;
use super::provider::{Capabilities, Environment, Llm, ProviderConfig, ProviderKind};
use super::reply::{DeltaSink, Finish, Reply, Usage};
use super::request::{ImageSource, Message, OutputMode, Part, Request, Role, ToolSpec};
use super::sigv4::{Credentials, Signed, amz_time, authorization};
use super::structured::{self, SchemaDialect};

/// The service's name in signatures.
const SERVICE: &str = "bedrock";
/// Tags the signatures of this wire.
const WIRE: &str = "bedrock";
/// Marks a thought that came encrypted, after the tag.
const REDACTED: &str = "redacted:";
/// The places that stand before a model's id when calls may be answered in several regions.
const AREAS: &[&str] = &["us.", "us-gov.", "eu.", "apac.", "jp.", "au.", "ca.", "global."];

/// The line of [`PROVIDERS`](super::PROVIDERS).
pub(crate) const KIND: ProviderKind = ProviderKind {
    name: "bedrock",
    summary: "Amazon Bedrock's Converse API",
    environment: Some(Environment { api_key: "AWS_BEARER_TOKEN_BEDROCK", base_url: "BEDROCK_BASE_URL" }),
    build,
};

fn build(name: &str, config: &ProviderConfig, catalog: Arc<Catalog>) -> Result<Arc<dyn Llm>, String> {
    let authorization = config.api_key.iter().map(|key| ("authorization", format!("Bearer {}", key.expose())));
    let region = config.region.clone().unwrap_or_default();
    let base = format!("https://bedrock-runtime.{}.amazonaws.com", if region.is_empty() { "region" } else { &region });
    let http = Http::new(name, &base, "", authorization.collect(), config)?;
    let credentials = match (&config.access_key_id, &config.secret_access_key) {
        _ if config.api_key.is_some() => None,
        (Some(id), Some(key)) => Some(Credentials {
            access_key_id: id.clone(),
            secret_access_key: key.clone(),
            session_token: config.session_token.clone(),
        }),
        _ => None,
    };
    let lacking = match (&credentials, &config.api_key, config.base_url.is_some()) {
        (None, None, false) => Some(
            "has no key: set `access_key_id` and `secret_access_key` (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`), or `api_key`",
        ),
        _ if region.is_empty() && (credentials.is_some() || config.base_url.is_none()) => {
            Some("has no region: set `region`, or `AWS_REGION`")
        }
        _ => None,
    };
    let secrets = [&config.secret_access_key, &config.session_token].into_iter().flatten();
    let http = http.hiding(secrets);
    Ok(Arc::new(Bedrock { name: name.to_string(), http, catalog, region, credentials, lacking }))
}

/// A provider that speaks Converse.
struct Bedrock {
    name: String,
    http: Http,
    catalog: Arc<Catalog>,
    region: String,
    credentials: Option<Credentials>,
    /// What must be set before anything is sent.
    lacking: Option<&'static str>,
}

/// The id of a model of Anthropic's as Anthropic names it: `eu.anthropic.claude-x-20250929-v1:0` is `claude-x-20250929`.
fn claude(model: &str) -> Option<&str> {
    let model = AREAS.iter().find_map(|area| model.strip_prefix(area)).unwrap_or(model);
    let id = model.strip_prefix("anthropic.")?;
    let end = id.rfind("-v").filter(|at| id[at + 2..].starts_with(|digit: char| digit.is_ascii_digit()));
    Some(&id[..end.unwrap_or(id.len())])
}

/// The name under which the catalog knows a model of Bedrock by its maker.
pub(super) fn by_maker(id: &str) -> Option<String> {
    match claude(id) {
        Some(claude) => Some(format!("anthropic/{claude}")),
        None => AREAS.iter().find_map(|area| id.strip_prefix(area)).map(|id| format!("bedrock/{id}")),
    }
}

impl Bedrock {
    fn entry(&self, model: &str) -> Option<&CatalogEntry> {
        let own = self.catalog.get(&format!("{}/{model}", self.name));
        own.or_else(|| self.catalog.get(&format!("bedrock/{model}")))
    }

    async fn exchange(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        if let Some(lacking) = self.lacking {
            return Err(self.http.error(LlmErrorKind::Auth, lacking));
        }
        refuse_image_urls(&self.http, request)?;
        let verb = if request.options.stream { "converse-stream" } else { "converse" };
        let path = format!("/model/{}/{verb}", encoded(&request.model));
        let answer = self.post(&path, &self.wire(request)).await?;
        let mut read = Reading::new(&self.http, sink);
        if answer.is("application/vnd.amazon.eventstream") {
            read.stream(answer).await?;
            return read.finish(request);
        }
        let body = answer.json().await?;
        let Some(content) = body.pointer("/output/message/content").and_then(Value::as_array) else {
            return Err(answered_without(&self.http, "output", &body));
        };
        content.iter().try_for_each(|block| read.block(block))?;
        read.end(&body);
        read.finish.get_or_insert(Finish::Stop);
        read.finish(request)
    }

    /// Posts a signed body.
    async fn post(&self, path: &str, body: &Value) -> Result<Answer<'_>, LlmError> {
        let url = self.http.url(path);
        let bytes = serde_json::to_vec(body).unwrap_or_default();
        let mut headers = HeaderMap::new();
        if let Some(credentials) = &self.credentials {
            let host = url.host_str().unwrap_or_default();
            let host = url.port().map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
            let time = amz_time(jiff::Timestamp::now());
            let mut signed = vec![("host", host.as_str()), ("x-amz-date", time.as_str())];
            signed.extend(credentials.session_token.iter().map(|token| ("x-amz-security-token", token.expose())));
            let authorization = authorization(
                credentials,
                &Signed {
                    method: "POST",
                    path: url.path(),
                    query: "",
                    headers: &signed,
                    body: &bytes,
                    time: &time,
                    region: &self.region,
                    service: SERVICE,
                },
            );
            let sent = signed.into_iter().skip(1).chain([("authorization", authorization.as_str())]);
            for (name, value) in sent {
                let wrong =
                    |_| self.http.error(LlmErrorKind::Auth, "has a key with a character that no header may have");
                let mut value = HeaderValue::from_str(value).map_err(wrong)?;
                value.set_sensitive(true);
                headers.insert(
                    HeaderName::from_static(match name {
                        "x-amz-date" => "x-amz-date",
                        "x-amz-security-token" => "x-amz-security-token",
                        _ => "authorization",
                    }),
                    value,
                );
            }
        }
        self.http.send(Method::POST, &url, headers, Some(bytes)).await
    }
}

/// A model's id as one segment of a path: inference profiles are named by ARNs, which have `/` and `:`.
fn encoded(model: &str) -> String {
    model.replace('%', "%25").replace('/', "%2F").replace(':', "%3A")
}

#[async_trait]
impl Llm for Bedrock {
    fn capabilities(&self, model: &str) -> Capabilities {
        let assumed = Capabilities { tools: true, json_schema: false, images: true, thinking: false };
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
        let entry = self.entry(&request.model);
        let marked = anthropic::marks(request) && entry.is_some_and(|entry| entry.cache_write_usd_per_mtok.is_some());
        let mark = || json!({"cachePoint": {"type": "default"}});
        let mut body = Map::new();
        if let Some(system) = request.system.as_ref().filter(|system| !system.is_empty()) {
            let mut blocks = vec![json!({"text": system})];
            blocks.extend(marked.then(mark));
            body.insert("system".into(), json!(blocks));
        }
        let mut messages = messages(&request.messages);
        if let Some(content) = messages.last_mut().and_then(|last| last["content"].as_array_mut()).filter(|_| marked) {
            content.push(mark());
        }
        body.insert("messages".into(), json!(messages));
        let no_tool = request.options.tool_choice == Some(ToolChoice::None) && !speaks_of_tools(&request.messages);
        if !request.tools.is_empty() && !no_tool {
            let strict = self.capabilities(&request.model).json_schema;
            let mut config = json!({"tools": tools(&request.tools, strict)});
            if let Some(choice) = request.options.tool_choice.as_ref().and_then(tool_choice) {
                config["toolChoice"] = choice;
            }
            body.insert("toolConfig".into(), config);
        }
        self.put_settings(&mut body, request, entry);
        Value::Object(body)
    }
}

impl Bedrock {
    fn put_settings(&self, body: &mut Map<String, Value>, request: &Request, entry: Option<&CatalogEntry>) {
        let options = &request.options;
        let mut further = Map::new();
        let mut inference = Map::new();
        let mut samples = true;
        if let Some(id) = claude(&request.model) {
            let limits = claude::limits(id, entry, options);
            samples = !limits.thinks && claude::takes_sampling(id);
            further.extend(limits.thinking.map(|thinking| ("thinking".to_string(), thinking)));
            further.extend(limits.effort.map(|effort| ("output_config".to_string(), json!({"effort": effort}))));
            inference.insert("maxTokens".into(), json!(limits.max_tokens));
            further.extend(options.top_k.filter(|_| samples).map(|top_k| ("top_k".to_string(), json!(top_k))));
        } else if let Some(max_tokens) = options.max_tokens {
            inference.insert("maxTokens".into(), json!(max_tokens));
        }
        let sampling = [("temperature", options.temperature), ("topP", options.top_p)];
        let sampling = sampling.into_iter().filter(|_| samples);
        inference.extend(sampling.filter_map(|(key, value)| Some((key.to_string(), json!(value?)))));
        if !options.stop.is_empty() {
            inference.insert("stopSequences".into(), json!(options.stop));
        }
        if !inference.is_empty() {
            body.insert("inferenceConfig".into(), Value::Object(inference));
        }
        if !further.is_empty() {
            body.insert("additionalModelRequestFields".into(), Value::Object(further));
        }
        let native = request.output.as_ref().filter(|output| output.mode == OutputMode::Native);
        let dialect = |schema: &Value| structured::strict(schema, &SchemaDialect::ANTHROPIC);
        if let Some((name, schema)) = native.and_then(|output| Some((&output.name, dialect(&output.schema)?))) {
            let definition = json!({"name": super::openai::schema_name(name), "schema": schema.to_string()});
            let format = json!({"type": "json_schema", "structure": {"jsonSchema": definition}});
            body.insert("outputConfig".into(), json!({"textFormat": format}));
        }
    }
}

/// The wire form of tools, strict as Anthropic's are.
pub(super) fn tools(specs: &[ToolSpec], strict: bool) -> Value {
    let tool = |tool: &Value| {
        let mut spec = json!({"name": tool["name"], "inputSchema": {"json": tool["input_schema"]}});
        // An empty description is refused.
        if tool["description"].as_str().is_some_and(|text| !text.is_empty()) {
            spec["description"] = tool["description"].clone();
        }
        if tool.get("strict").is_some() {
            spec["strict"] = json!(true);
        }
        json!({"toolSpec": spec})
    };
    anthropic::tools(specs, strict).as_array().into_iter().flatten().map(tool).collect()
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => Some(json!({"auto": {}})),
        ToolChoice::Required => Some(json!({"any": {}})),
        ToolChoice::Tool(name) => Some(json!({"tool": {"name": name}})),
        ToolChoice::None => None,
    }
}

/// Whether calls or results are in the conversation, which is refused without the tools beside it.
fn speaks_of_tools(messages: &[Message]) -> bool {
    let of_tools = |part: &Part| matches!(part, Part::ToolCall { .. } | Part::ToolResult { .. });
    messages.iter().any(|message| message.parts.iter().any(of_tools))
}

/// Messages in its form: sides alternate, so what one side says in a row is joined.
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
    turns.into_iter().map(|(side, blocks)| json!({"role": side, "content": blocks})).collect()
}

fn image(mime: &str, data: &str) -> Value {
    let format = mime.rsplit('/').next().unwrap_or_default();
    let format = if format == "jpg" { "jpeg" } else { format };
    json!({"image": {"format": format, "source": {"bytes": data}}})
}

fn block(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text } if text.trim().is_empty() => return None,
        Part::Text { text } => json!({"text": text}),
        Part::Image { mime, source: ImageSource::Data(data) } => image(mime, data),
        Part::Image { .. } => return None,
        Part::ToolCall { id, name, arguments } => {
            let input = if arguments.is_object() { arguments.clone() } else { json!({}) };
            json!({"toolUse": {"toolUseId": id, "name": name, "input": input}})
        }
        Part::ToolResult { id, content, is_error, pictures, .. } => {
            // Blank text is refused.
            let text = if content.trim().is_empty() { "(nothing)" } else { content };
            let images = pictures.iter().map(|picture| image(&picture.mime, &picture.data));
            let content: Value = std::iter::once(json!({"text": text})).chain(images).collect();
            let mut result = json!({"toolUseId": id, "content": content});
            if *is_error {
                result["status"] = json!("error");
            }
            json!({"toolResult": result})
        }
        Part::Thinking { text, signature } => {
            let signature = untagged(WIRE, signature.as_deref()?)?;
            match signature.strip_prefix(REDACTED) {
                Some(data) => json!({"reasoningContent": {"redactedContent": data}}),
                None => json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}),
            }
        }
    })
}

/// An answer while it is read.
struct Reading<'a> {
    http: &'a Http,
    assembly: Assembly<'a>,
    /// The number of the call that each block is.
    calls: Vec<(u64, usize)>,
    /// The signature of the thought under way.
    signature: String,
    finish: Option<Finish>,
}

impl<'a> Reading<'a> {
    fn new(http: &'a Http, sink: &'a dyn DeltaSink) -> Reading<'a> {
        let assembly = Assembly::new(http, sink);
        Reading { http, assembly, calls: Vec::new(), signature: String::new(), finish: None }
    }

    async fn stream(&mut self, answer: Answer<'_>) -> Result<(), LlmError> {
        let http = self.http;
        let mut decoder = FrameDecoder::default();
        answer
            .pieces(|bytes| {
                let frames = decoder.feed(bytes).map_err(|broken| match broken {
                    Broken::TooLarge => too_large(http),
                    Broken::Malformed(why) => {
                        http.error(LlmErrorKind::Protocol, &format!("sent an event stream that cannot be read: {why}"))
                    }
                })?;
                frames.iter().try_for_each(|frame| self.frame(frame)).map(|()| false)
            })
            .await?;
        if decoder.is_inside() { Err(cut_off(http)) } else { Ok(()) }
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), LlmError> {
        let payload = std::str::from_utf8(&frame.payload).unwrap_or_default();
        if frame.header(":message-type").is_some_and(|kind| kind != "event") {
            let code = frame.header(":exception-type").or_else(|| frame.header(":error-code")).unwrap_or("error");
            let status = match code {
                "throttlingException" => 429,
                "validationException" => 400,
                "serviceUnavailableException" => 503,
                _ => 500,
            };
            let text = format!("failed while it answered: {code}: {}", words_of(payload.as_bytes()));
            return Err(self.http.error(LlmError::kind_of_status(status), &text));
        }
        let event = super::assembly::event_json(self.http, payload)?;
        let number = event.get("contentBlockIndex").and_then(Value::as_u64).unwrap_or(0);
        match frame.header(":event-type").unwrap_or_default() {
            "contentBlockStart" => {
                if let Some(call) = event.pointer("/start/toolUse").filter(|call| call.is_object()) {
                    let field = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default();
                    let call = self.assembly.begin_call(field("toolUseId"), field("name"))?;
                    self.calls.push((number, call));
                }
            }
            "contentBlockDelta" => self.delta(number, &event["delta"])?,
            "contentBlockStop" => self.end_thought()?,
            "messageStop" | "metadata" => self.end(&event),
            // `messageStart`, and what is yet to be invented.
            _ => {}
        }
        Ok(())
    }

    fn delta(&mut self, number: u64, delta: &Value) -> Result<(), LlmError> {
        let text = |pointer: &str| delta.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        self.assembly.text(text("/text"))?;
        self.assembly.thinking(text("/reasoningContent/text"))?;
        self.signature.push_str(text("/reasoningContent/signature"));
        let redacted = text("/reasoningContent/redactedContent");
        if !redacted.is_empty() {
            self.assembly.signature(tagged(WIRE, &format!("{REDACTED}{redacted}")))?;
        }
        match self.calls.iter().rev().find(|(block, _)| *block == number) {
            Some((_, call)) => self.assembly.arguments(*call, text("/toolUse/input")),
            None => Ok(()),
        }
    }

    fn end_thought(&mut self) -> Result<(), LlmError> {
        match std::mem::take(&mut self.signature) {
            none if none.is_empty() => Ok(()),
            signature => self.assembly.signature(tagged(WIRE, &signature)),
        }
    }

    /// A block that came whole.
    fn block(&mut self, block: &Value) -> Result<(), LlmError> {
        let text = |pointer: &str| block.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        self.assembly.text(text("/text"))?;
        self.assembly.thinking(text("/reasoningContent/reasoningText/text"))?;
        self.signature.push_str(text("/reasoningContent/reasoningText/signature"));
        self.end_thought()?;
        let redacted = text("/reasoningContent/redactedContent");
        if !redacted.is_empty() {
            self.assembly.signature(tagged(WIRE, &format!("{REDACTED}{redacted}")))?;
        }
        match block.get("toolUse").filter(|call| call.is_object()) {
            Some(call) => {
                self.assembly.whole_call(text("/toolUse/toolUseId"), text("/toolUse/name"), call.get("input"))
            }
            None => Ok(()),
        }
    }

    /// Takes the reason for the end and the figures, where they are.
    fn end(&mut self, body: &Value) {
        if let Some(usage) = body.get("usage").filter(|usage| usage.is_object()) {
            self.assembly.usage = read_usage(usage);
        }
        if let Some(reason) = body.get("stopReason").and_then(Value::as_str) {
            self.finish = Some(match reason {
                "max_tokens" | "model_context_window_exceeded" => Finish::Length,
                "content_filtered" | "guardrail_intervened" => Finish::ContentFilter,
                "refusal" => Finish::Refusal(String::new()),
                _ => Finish::Stop,
            });
        }
    }

    fn finish(self, request: &Request) -> Result<Reply, LlmError> {
        match self.finish {
            Some(finish) => Ok(self.assembly.finish(finish, request)),
            None => Err(cut_off(self.http)),
        }
    }
}

/// Tokens that touched the cache are not among `inputTokens` here.
fn read_usage(usage: &Value) -> Usage {
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (cached, written) = (count("cacheReadInputTokens"), count("cacheWriteInputTokens"));
    Usage {
        input_tokens: count("inputTokens").saturating_add(cached).saturating_add(written),
        output_tokens: count("outputTokens"),
        cached_input_tokens: cached,
        cache_write_tokens: written,
        thinking_tokens: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::test_support::{Answer, MockLlm, event_frame, tool_conversation};
    use crate::llm::{NoSink, Secret};

    fn signing(url: &str) -> Arc<dyn Llm> {
        let config = ProviderConfig {
            kind: "bedrock".into(),
            base_url: Some(url.into()),
            region: Some("eu-central-1".into()),
            access_key_id: Some(Secret::new("AKIDEXAMPLE")),
            secret_access_key: Some(Secret::new("very-secret-key")),
            session_token: Some(Secret::new("a-session-token")),
            ..ProviderConfig::default()
        };
        crate::llm::build("bedrock", &config, Arc::default()).unwrap()
    }

    fn stream(events: &[(&str, Value)]) -> Answer {
        let frame = |(kind, payload): &(&str, Value)| {
            event_frame(&[(":message-type", "event"), (":event-type", kind)], payload.to_string().as_bytes())
        };
        let bytes: Vec<u8> = events.iter().flat_map(frame).collect();
        Answer::bytes(200, "application/vnd.amazon.eventstream", bytes)
    }

    fn events() -> Vec<(&'static str, Value)> {
        vec![
            ("messageStart", json!({"role": "assistant"})),
            ("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}})),
            (
                "contentBlockDelta",
                json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "c2ln"}}}),
            ),
            ("contentBlockStop", json!({"contentBlockIndex": 0})),
            (
                "contentBlockStart",
                json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t1", "name": "now"}}}),
            ),
            ("contentBlockDelta", json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{\"zone\":"}}})),
            ("contentBlockDelta", json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": "\"utc\"}"}}})),
            ("contentBlockStop", json!({"contentBlockIndex": 1})),
            ("messageStop", json!({"stopReason": "tool_use"})),
            ("metadata", json!({"usage": {"inputTokens": 4, "outputTokens": 5, "cacheReadInputTokens": 6}})),
        ]
    }

    #[tokio::test]
    async fn it_signs_and_reads_frames() {
        let server = MockLlm::answering(vec![stream(&events()).in_pieces(7)]).await;
        let llm = signing(&server.url());
        let model = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";
        let mut request = Request { model: model.into(), messages: vec![Message::user("Hi")], ..Request::default() };
        request.options.stream = true;
        let reply = llm.call(&request, &NoSink).await.unwrap();
        assert_eq!(reply.usage.input_tokens, 10);
        assert_eq!(
            block(&reply.parts[0]),
            Some(json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}))
        );
        assert_eq!(reply.tool_calls().next(), Some(("t1", "now", &json!({"zone": "utc"}))));
        let received = &server.received()[0];
        assert_eq!(received.path, "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream");
        let authorization = received.header("authorization").unwrap();
        assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{authorization}");
        assert!(
            authorization
                .contains("/eu-central-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token,")
        );
        assert_eq!(received.header("x-amz-security-token"), Some("a-session-token"));
    }

    #[tokio::test]
    async fn what_is_missing_is_told_and_exceptions_are_failures() {
        let nothing = ProviderConfig { kind: "bedrock".into(), ..ProviderConfig::default() };
        let llm = crate::llm::build("bedrock", &nothing, Arc::default()).unwrap();
        let error = llm.call(&tool_conversation(), &NoSink).await.unwrap_err();
        assert!(error.kind == LlmErrorKind::Auth && error.message.contains("AWS_ACCESS_KEY_ID"), "{error}");
        let exception = event_frame(
            &[(":message-type", "exception"), (":exception-type", "throttlingException")],
            br#"{"message": "slow down"}"#,
        );
        let mut broken = exception.clone();
        broken[20] ^= 1;
        let answers = vec![
            Answer::bytes(200, "application/vnd.amazon.eventstream", exception),
            Answer::bytes(200, "application/vnd.amazon.eventstream", broken),
            stream(&events()[..4]),
            Answer::json(403, &json!({"message": "bad very-secret-key"})),
        ];
        let server = MockLlm::answering(answers).await;
        let llm = signing(&server.url());
        let mut request = tool_conversation();
        request.options.stream = true;
        let mut kinds = Vec::new();
        for _ in 0..4 {
            let error = llm.call(&request, &NoSink).await.unwrap_err();
            assert!(!error.message.contains("very-secret-key"), "{error}");
            kinds.push(error.kind);
        }
        use LlmErrorKind::{Auth, Protocol, RateLimited, Transport};
        assert_eq!(kinds, [RateLimited, Protocol, Transport, Auth]);
    }

    #[test]
    fn a_conversation_in_its_own_words() {
        assert_eq!(claude("us.anthropic.claude-3-5-haiku-20241022-v1:0"), Some("claude-3-5-haiku-20241022"));
        assert_eq!(claude("amazon.nova-pro-v1:0"), None);
        let llm = signing("http://127.0.0.1:1");
        let mut request = tool_conversation();
        request.model = "anthropic.claude-sonnet-4-5-20250929-v1:0".into();
        request.options.tool_choice = Some(ToolChoice::Required);
        request.options.max_tokens = Some(50);
        let wire = llm.wire(&request);
        assert_eq!(wire["system"][1], json!({"cachePoint": {"type": "default"}}), "its price is Anthropic's");
        assert_eq!(
            wire["messages"][2]["content"].to_string(),
            concat!(
                r#"[{"toolResult":{"toolUseId":"c1","content":[{"text":"sunny"}]}},"#,
                r#"{"toolResult":{"toolUseId":"c2","content":[{"text":"no clock"}],"status":"error"}},"#,
                r#"{"text":"Go on"},{"cachePoint":{"type":"default"}}]"#
            )
        );
        assert_eq!(wire["toolConfig"]["toolChoice"], json!({"any": {}}));
        assert_eq!(wire["toolConfig"]["tools"][0]["toolSpec"]["strict"], true);
        assert_eq!(wire["inferenceConfig"], json!({"maxTokens": 50}));
    }
}
