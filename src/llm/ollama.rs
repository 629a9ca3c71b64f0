//! Ollama's own wire: `/api/chat`, lines of JSON instead of events.
//!
//! It runs on this machine unless told otherwise, and needs no key. The output's schema goes as `format`, which holds for
//! every token and so leaves no room for a call: beside tools the schema goes as instructions. Pictures are data only.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::assembly::{Assembly, answered_without, cut_off, event_json};
use super::catalog::{Catalog, CatalogEntry};
use super::embed::Embeddings;
use super::error::{LlmError, LlmErrorKind};
use super::http::{Http, words_of};
use super::openai;
use super::options::Thinking;
use super::provider::{Capabilities, Environment, Llm, ProviderConfig, ProviderKind};
use super::reply::{DeltaSink, Finish, Reply};
use super::request::{ImageSource, Message, OutputMode, Part, Request, Role};
use super::structured;

const BASE_URL: &str = "http://127.0.0.1:11434";

/// The line of [`PROVIDERS`](super::PROVIDERS).
pub(crate) const KIND: ProviderKind = ProviderKind {
    name: "ollama",
    summary: "Ollama, on this machine or another",
    environment: Some(Environment { api_key: "OLLAMA_API_KEY", base_url: "OLLAMA_BASE_URL" }),
    build,
};

fn build(name: &str, config: &ProviderConfig, catalog: Arc<Catalog>) -> Result<Arc<dyn Llm>, String> {
    let own = config.api_key.iter().map(|key| ("authorization", format!("Bearer {}", key.expose()))).collect();
    let mut config = config.clone();
    // The address of its OpenAI-compatible form is written as often; the own form is beside it.
    config.base_url = config.base_url.map(|url| {
        let url = url.trim_end_matches('/');
        url.strip_suffix("/v1").or_else(|| url.strip_suffix("/api")).unwrap_or(url).to_string()
    });
    let http = Http::new(name, BASE_URL, "", own, &config)?;
    Ok(Arc::new(Ollama { name: name.to_string(), http, catalog }))
}

/// A provider that speaks Ollama's wire.
struct Ollama {
    name: String,
    http: Http,
    catalog: Arc<Catalog>,
}

impl Ollama {
    fn entry(&self, model: &str) -> Option<&CatalogEntry> {
        let own = self.catalog.get(&format!("{}/{model}", self.name));
        own.or_else(|| self.catalog.get(&format!("ollama/{model}")))
    }

    async fn exchange(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        refuse_image_urls(&self.http, request)?;
        let answer = self.http.post("/api/chat", &self.wire(request)).await?;
        let mut read = Reading { http: &self.http, assembly: Assembly::new(&self.http, sink), finish: None };
        if request.options.stream && !answer.is("application/json") {
            // A proxy may name the lines anything; an event stream's `data:` is taken off.
            answer
                .lines(|line| match line.trim().strip_prefix("data:").unwrap_or(line).trim() {
                    "" => Ok(false),
                    line => read.take(&event_json(&self.http, line)?),
                })
                .await?;
            return read.finish(request);
        }
        let body = answer.json().await?;
        if body.get("message").is_none_or(|message| !message.is_object()) && body.get("error").is_none() {
            return Err(answered_without(&self.http, "message", &body));
        }
        read.take(&body)?;
        read.finish.get_or_insert(Finish::Stop);
        read.finish(request)
    }
}

/// The error for wires that take pictures as data only.
pub(super) fn refuse_image_urls(http: &Http, request: &Request) -> Result<(), LlmError> {
    let is_url = |part: &Part| matches!(part, Part::Image { source: ImageSource::Url(_), .. });
    if request.messages.iter().any(|message| message.parts.iter().any(is_url)) {
        let text = "takes no address of a picture; give the picture as a file of the project";
        return Err(http.error(LlmErrorKind::BadRequest, text));
    }
    Ok(())
}

#[async_trait]
impl Llm for Ollama {
    fn capabilities(&self, model: &str) -> Capabilities {
        let assumed = Capabilities { tools: true, json_schema: true, images: true, thinking: true };
        Capabilities::of(self.entry(model), assumed)
    }

    async fn call(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        self.http.within(request.options.timeout, self.exchange(request, sink)).await
    }

    fn wire(&self, request: &Request) -> Value {
        let native = request.output.as_ref().filter(|output| output.mode == OutputMode::Native);
        let beside_tools = !request.tools.is_empty();
        let system = match native.filter(|_| beside_tools) {
            Some(output) => Some(structured::instructed_system(request, output)),
            None => request.system.clone(),
        };
        let mut messages: Vec<Value> = Vec::new();
        messages.extend(system.map(|text| json!({"role": "system", "content": text})));
        messages.extend(request.messages.iter().flat_map(message));
        let mut body = Map::new();
        body.insert("model".into(), json!(request.model));
        body.insert("messages".into(), json!(messages));
        if beside_tools {
            body.insert("tools".into(), openai::plain_tools(&request.tools));
        }
        if let Some(output) = native.filter(|_| !beside_tools) {
            body.insert("format".into(), structured::enveloped(&output.schema));
        }
        // It streams unless told otherwise.
        body.insert("stream".into(), json!(request.options.stream));
        if let Some(thinking) = &request.options.thinking {
            body.insert("think".into(), think(&request.model, thinking));
        }
        let options = options(request, self.entry(&request.model));
        if !options.is_empty() {
            body.insert("options".into(), Value::Object(options));
        }
        Value::Object(body)
    }

    async fn embed(&self, model: &str, texts: &[String]) -> Result<Embeddings, LlmError> {
        let body = json!({"model": model, "input": texts});
        let asked = async {
            let answer = self.http.post("/api/embed", &body).await?.json().await?;
            Embeddings::read(&self.http, &answer, "/embeddings", "", Some("/prompt_eval_count"), texts.len())
        };
        self.http.within(None, asked).await
    }

    async fn models(&self) -> Result<Vec<String>, LlmError> {
        let body = self.http.get("/api/tags").await?;
        let listed = body["models"].as_array().into_iter().flatten().filter_map(|model| model["name"].as_str());
        Ok(listed.map(str::to_string).collect())
    }
}

/// Most models think or do not; `gpt-oss` knows levels.
fn think(model: &str, thinking: &Thinking) -> Value {
    match thinking.effort() {
        Some("minimal") if model.starts_with("gpt-oss") => json!("low"),
        Some(effort) if model.starts_with("gpt-oss") => json!(effort),
        effort => json!(effort.is_some()),
    }
}

fn options(request: &Request, entry: Option<&CatalogEntry>) -> Map<String, Value> {
    let options = &request.options;
    let settings = [
        ("temperature", options.temperature.map(Value::from)),
        ("top_p", options.top_p.map(Value::from)),
        ("top_k", options.top_k.map(Value::from)),
        ("num_predict", options.max_tokens.map(Value::from)),
        ("seed", options.seed.map(Value::from)),
        ("stop", (!options.stop.is_empty()).then(|| json!(options.stop))),
        // Its own default is small, and what does not fit is dropped in silence.
        ("num_ctx", entry.and_then(|entry| entry.context_tokens).map(Value::from)),
    ];
    settings.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))).collect()
}

/// One message of ours is one of theirs, but for tool results, of which each is its own.
fn message(message: &Message) -> Vec<Value> {
    let mut sent: Vec<Value> = Vec::new();
    let mut images: Vec<&str> = Vec::new();
    let mut calls: Vec<Value> = Vec::new();
    let mut given: Vec<String> = Vec::new();
    for part in &message.parts {
        match part {
            Part::ToolResult { name, content, pictures, .. } => {
                sent.push(json!({"role": "tool", "tool_name": name, "content": content}));
                if !pictures.is_empty() {
                    given.push(openai::pictures_of(name));
                    images.extend(pictures.iter().map(|picture| picture.data.as_str()));
                }
            }
            Part::ToolCall { name, arguments, .. } => {
                let arguments = if arguments.is_object() { arguments.clone() } else { json!({}) };
                calls.push(json!({"function": {"name": name, "arguments": arguments}}));
            }
            Part::Image { source: ImageSource::Data(data), .. } => images.push(data),
            Part::Image { .. } | Part::Text { .. } | Part::Thinking { .. } => {}
        }
    }
    // Only a user's message has pictures that every model's template knows.
    let text = if given.is_empty() { message.text() } else { given.join("\n") };
    if text.is_empty() && images.is_empty() && calls.is_empty() {
        return sent;
    }
    let role = if message.role == Role::Assistant { "assistant" } else { "user" };
    let mut own = json!({"role": role, "content": text});
    if !images.is_empty() {
        own["images"] = json!(images);
    }
    if !calls.is_empty() {
        own["tool_calls"] = json!(calls);
    }
    sent.push(own);
    sent
}

/// An answer while it is read.
struct Reading<'a> {
    http: &'a Http,
    assembly: Assembly<'a>,
    finish: Option<Finish>,
}

impl Reading<'_> {
    /// Takes an answer, or a piece of one: they have the same shape. `true` when it was the last.
    fn take(&mut self, chunk: &Value) -> Result<bool, LlmError> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let words = words_of(error.to_string().as_bytes());
            let text = format!("failed while it answered: {words}");
            return Err(self.http.error(LlmErrorKind::Status { code: 500 }, &text));
        }
        if let Some(model) = chunk.get("model").and_then(Value::as_str) {
            self.assembly.model = Some(model.to_string());
        }
        let text = |key: &str| chunk.pointer(key).and_then(Value::as_str).unwrap_or_default();
        self.assembly.thinking(text("/message/thinking"))?;
        self.assembly.text(text("/message/content"))?;
        for call in chunk.pointer("/message/tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let field = |place: &str| call.pointer(place).and_then(Value::as_str).unwrap_or_default();
            self.assembly.whole_call(field("/id"), field("/function/name"), call.pointer("/function/arguments"))?;
        }
        if chunk.get("done").and_then(Value::as_bool) != Some(true) {
            return Ok(false);
        }
        let count = |key: &str| chunk.get(key).and_then(Value::as_u64).unwrap_or(0);
        self.assembly.usage.input_tokens = count("prompt_eval_count");
        self.assembly.usage.output_tokens = count("eval_count");
        self.finish = Some(if text("/done_reason") == "length" { Finish::Length } else { Finish::Stop });
        Ok(true)
    }

    fn finish(self, request: &Request) -> Result<Reply, LlmError> {
        match self.finish {
            Some(finish) => Ok(self.assembly.finish(finish, request)),
            None => Err(cut_off(self.http)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::OutputSchema;
    use crate::llm::test_support::{Answer, failing, provider, survives, tool_conversation};

    fn stream(lines: &[Value]) -> Answer {
        let data: String = lines.iter().map(|line| format!("{line}\n")).collect();
        Answer::bytes(200, "application/x-ndjson", data)
    }

    fn lines() -> Vec<Value> {
        let line = |message: Value| json!({"model": "m", "message": message, "done": false});
        vec![
            line(json!({"role": "assistant", "content": "", "thinking": "hm"})),
            line(
                json!({"role": "assistant", "content": "Hello there, this is more than three hundred bytes in all, so that it can be cut"}),
            ),
            line(
                json!({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "now", "arguments": {"zone": "utc"}}}]}),
            ),
            json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
                "prompt_eval_count": 10, "eval_count": 5}),
        ]
    }

    #[test]
    fn a_conversation_in_its_own_words() {
        let llm = provider("ollama", "http://127.0.0.1:11434/v1/");
        let mut request = tool_conversation();
        request.options.max_tokens = Some(7);
        request.options.thinking = Some(Thinking::Off);
        request.output = Some(OutputSchema::native("A", json!({"type": "object"})));
        let wire = llm.wire(&request);
        assert!(
            wire.get("format").is_none() && wire["messages"][0]["content"].as_str().unwrap().contains("JSON Schema")
        );
        request.output = None;
        assert_eq!(
            llm.wire(&request).to_string(),
            concat!(
                r#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Weather?","images":["AAAA"]},"#,
                r#"{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get_forecast","arguments":{"city":"Bern"}}},"#,
                r#"{"function":{"name":"now","arguments":{}}}]},{"role":"tool","tool_name":"get_forecast","content":"sunny"},"#,
                r#"{"role":"tool","tool_name":"now","content":"no clock"},{"role":"user","content":"Go on"}],"#,
                r#""tools":[{"type":"function","function":{"name":"get_forecast","description":"Forecast","parameters":{"type":"object","#,
                r#""properties":{"city":{"type":"string"}},"required":["city"]}}}],"stream":false,"think":false,"options":{"num_predict":7}}"#,
            )
        );
        request.tools.clear();
        request.output = Some(OutputSchema::native("A", json!({"type": "array", "items": {"type": "string"}})));
        assert_eq!(llm.wire(&request)["format"]["properties"]["value"]["type"], "array");
    }

    #[tokio::test]
    async fn it_fails_in_words() {
        failing("ollama", stream(&lines())).await;
    }

    #[tokio::test]
    async fn strange_answers_end_as_a_reply_or_an_error() {
        survives("ollama", lines(), stream).await;
    }
}
