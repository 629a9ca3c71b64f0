//! Google's Gemini: `generateContent` and `streamGenerateContent`.
//!
//! What its wire demands: two roles, `user` and `model`; schemas in OpenAPI's words ([`openapi`]); results of calls as
//! objects, under the tool's name; and the thought signature of a part sent back on that same part. A signature stands
//! here as a thinking part before the part it belongs to. Models before Gemini 3 refuse a response schema beside tools:
//! they get the schema as instructions then.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::assembly::{Assembly, answered_without, cut_off, event_json, is_own_call_id, tagged, untagged};
use super::catalog::{Catalog, CatalogEntry};
use super::embed::Embeddings;
use super::error::{LlmError, LlmErrorKind};
use super::http::{Http, words_of};
use super::openapi;
use super::options::{Thinking, ToolChoice};
use super::provider::{Capabilities, Environment, Llm, ProviderConfig, ProviderKind};
use super::reply::{DeltaSink, Finish, Reply, Usage};
use super::request::{ImageSource, Message, OutputMode, Part, Picture, Request, Role, ToolSpec};
use super::structured;

const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
const KEY_VARIABLE: &str = "GEMINI_API_KEY";
/// Tags the signatures of this wire.
const WIRE: &str = "gemini";
/// The format of pictures that it refuses, and with it the whole conversation.
const UNSEEN: &str = "image/gif";
/// What a model is told of such pictures of tools.
const LEFT_OUT: &str = "You cannot see pictures in GIF, so they are left out.";
/// The least that Gemini 2.5 Pro thinks.
const PRO_BUDGET_TOKENS_MIN: u32 = 128;

/// The line of [`PROVIDERS`](super::PROVIDERS).
pub(crate) const KIND: ProviderKind = ProviderKind {
    name: "gemini",
    summary: "Google's Gemini",
    environment: Some(Environment { api_key: KEY_VARIABLE, base_url: "GEMINI_BASE_URL" }),
    build,
};

fn build(name: &str, config: &ProviderConfig, catalog: Arc<Catalog>) -> Result<Arc<dyn Llm>, String> {
    let own = config.api_key.iter().map(|key| ("x-goog-api-key", key.expose().to_string())).collect();
    let http = Http::new(name, BASE_URL, KEY_VARIABLE, own, config)?;
    let last = http.base().path().rsplit('/').next().unwrap_or_default();
    let has_version = last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    let prefix = if has_version { "" } else { "/v1beta" };
    Ok(Arc::new(Gemini { name: name.to_string(), http, catalog, prefix }))
}

/// A provider that speaks Gemini's own wire.
struct Gemini {
    name: String,
    http: Http,
    catalog: Arc<Catalog>,
    /// The version in paths, where the base URL has none.
    prefix: &'static str,
}

impl Gemini {
    fn entry(&self, model: &str) -> Option<&CatalogEntry> {
        let own = self.catalog.get(&format!("{}/{model}", self.name));
        own.or_else(|| self.catalog.get(&format!("gemini/{model}")))
    }

    fn path(&self, model: &str, verb: &str) -> String {
        // `tunedModels/x` and `models/x` are whole names already.
        let family = if model.contains('/') { "" } else { "models/" };
        format!("{}/{family}{model}:{verb}", self.prefix)
    }

    async fn exchange(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        refuse_unseen(&self.http, request)?;
        let verb = if request.options.stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let answer = self.http.post(&self.path(&request.model, verb), &self.wire(request)).await?;
        let mut read = Reading { http: &self.http, assembly: Assembly::new(&self.http, sink), finish: None };
        if answer.is_event_stream() {
            answer.events(|event| read.take(&event_json(&self.http, &event.data)?).map(|()| false)).await?;
            return read.finish(request);
        }
        let body = answer.json().await?;
        if body.get("candidates").is_none() && body.get("promptFeedback").is_none() && body.get("error").is_none() {
            return Err(answered_without(&self.http, "candidates", &body));
        }
        read.take(&body)?;
        // A candidate of a whole answer is whole, whether or not it says why it ended.
        read.finish.get_or_insert(Finish::Stop);
        read.finish(request)
    }
}

#[async_trait]
impl Llm for Gemini {
    fn capabilities(&self, model: &str) -> Capabilities {
        let assumed = Capabilities { tools: true, json_schema: true, images: true, thinking: true };
        Capabilities::of(self.entry(model), assumed)
    }

    async fn call(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        self.http.within(request.options.timeout, self.exchange(request, sink)).await
    }

    fn output_mode(&self, model: &str, schema: &Value) -> OutputMode {
        let sayable = || openapi::schema(schema).is_some();
        if self.capabilities(model).json_schema && sayable() { OutputMode::Native } else { OutputMode::Instructions }
    }

    fn wire(&self, request: &Request) -> Value {
        let mut body = Map::new();
        let native = request.output.as_ref().filter(|output| output.mode == OutputMode::Native);
        let beside_tools = !request.tools.is_empty() && generation(&request.model) < 3;
        let system = match native.filter(|_| beside_tools) {
            Some(output) => Some(structured::instructed_system(request, output)),
            None => request.system.clone(),
        };
        if let Some(system) = system.filter(|system| !system.is_empty()) {
            body.insert("systemInstruction".into(), json!({"parts": [{"text": system}]}));
        }
        let in_results = generation(&request.model) >= 3;
        let mut contents = contents(&request.messages, in_results);
        if in_results && request.model.contains("gemini-") {
            contents.iter_mut().for_each(sign);
        }
        body.insert("contents".into(), json!(contents));
        if !request.tools.is_empty() {
            body.insert("tools".into(), json!([{"functionDeclarations": tools(&request.tools)}]));
            if let Some(choice) = &request.options.tool_choice {
                body.insert("toolConfig".into(), json!({"functionCallingConfig": tool_choice(choice)}));
            }
        }
        let mut config = generation_config(request);
        if let Some(schema) = native.filter(|_| !beside_tools).and_then(|output| openapi::schema(&output.schema)) {
            config.insert("responseMimeType".into(), json!("application/json"));
            config.insert("responseSchema".into(), schema);
        }
        if !config.is_empty() {
            body.insert("generationConfig".into(), Value::Object(config));
        }
        Value::Object(body)
    }

    async fn embed(&self, model: &str, texts: &[String]) -> Result<Embeddings, LlmError> {
        let named = format!("models/{model}");
        let one = |text: &String| json!({"model": named, "content": {"parts": [{"text": text}]}});
        let body = json!({"requests": texts.iter().map(one).collect::<Vec<_>>()});
        let asked = async {
            let answer = self.http.post(&self.path(model, "batchEmbedContents"), &body).await?.json().await?;
            Embeddings::read(&self.http, &answer, "/embeddings", "/values", None, texts.len())
        };
        self.http.within(None, asked).await
    }

    async fn models(&self) -> Result<Vec<String>, LlmError> {
        let body = self.http.get(&format!("{}/models?pageSize=1000", self.prefix)).await?;
        let listed = body["models"].as_array().into_iter().flatten().filter_map(|model| model["name"].as_str());
        Ok(listed.map(|name| name.strip_prefix("models/").unwrap_or(name).to_string()).collect())
    }
}

/// The number after `gemini-`; of a model that has none, 3: it is taken for a newer one.
fn generation(model: &str) -> u32 {
    let number = model.rsplit('/').next().and_then(|model| model.strip_prefix("gemini-"));
    let digits = number.and_then(|rest| rest.split(|character: char| !character.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(3)
}

fn generation_config(request: &Request) -> Map<String, Value> {
    let options = &request.options;
    let settings = [
        ("temperature", options.temperature.map(Value::from)),
        ("topP", options.top_p.map(Value::from)),
        ("topK", options.top_k.map(Value::from)),
        ("maxOutputTokens", options.max_tokens.map(Value::from)),
        ("seed", options.seed.map(Value::from)),
        ("stopSequences", (!options.stop.is_empty()).then(|| json!(options.stop))),
        ("thinkingConfig", options.thinking.as_ref().map(|thinking| thinking_config(&request.model, thinking))),
    ];
    settings.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))).collect()
}

/// Gemini 3 takes a level, models before it a budget. None can be brought to think not at all but the smaller ones before 3.
fn thinking_config(model: &str, thinking: &Thinking) -> Value {
    let shown = thinking.effort().is_some();
    let mut config = match generation(model) >= 3 {
        true => json!({"thinkingLevel": level(model, thinking.effort().unwrap_or("minimal"))}),
        false => {
            let least = if model.contains("2.5-pro") { PRO_BUDGET_TOKENS_MIN } else { 0 };
            json!({"thinkingBudget": thinking.budget().unwrap_or(0).max(least)})
        }
    };
    if shown {
        config["includeThoughts"] = json!(true);
    }
    config
}

/// The level of a model that is nearest to an effort.
fn level(model: &str, effort: &str) -> String {
    let id = model.rsplit('/').next().unwrap_or(model);
    let is_of = |families: &[&str]| families.iter().any(|family| id.starts_with(family));
    let nearest = match effort {
        "minimal" if !is_of(&["gemini-3-flash", "gemini-3.1-flash", "gemini-3.5-flash"]) => "low",
        "medium" if is_of(&["gemini-3-pro"]) => "high",
        effort => effort,
    };
    nearest.to_ascii_uppercase()
}

/// The wire form of tools: `parameters` in its own dialect, else the JSON Schema as it is.
pub(crate) fn tools(specs: &[ToolSpec]) -> Value {
    let tool = |spec: &ToolSpec| {
        let mut declaration = json!({"name": spec.name, "description": spec.description});
        let has_parameters =
            spec.parameters.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
        let dialect = openapi::schema(&spec.parameters).filter(|_| !structured::is_wrapped(&spec.parameters));
        match dialect {
            // An object without properties is refused.
            _ if !has_parameters
                && spec.parameters.get("additionalProperties").is_none_or(|more| !more.is_object()) => {}
            Some(parameters) => declaration["parameters"] = parameters,
            None => declaration["parametersJsonSchema"] = spec.parameters.clone(),
        }
        declaration
    };
    specs.iter().map(tool).collect()
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    }
}

/// Messages in its form: what one side says in a row is one content. Pictures that tools gave stand in their results where
/// the model takes them there, else after all results.
fn contents(messages: &[Message], in_results: bool) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let side = if message.role == Role::Assistant { "model" } else { "user" };
        let mut parts = parts(&message.parts);
        place_pictures(&message.parts, &mut parts, in_results);
        match turns.last_mut() {
            Some((last, joined)) if *last == side => joined.extend(parts),
            _ => turns.push((side, parts)),
        }
    }
    turns.retain(|(_, parts)| !parts.is_empty());
    turns.into_iter().map(|(side, parts)| json!({"role": side, "parts": parts})).collect()
}

/// Signs the first call of a turn that has no signature: a call that another model made. Gemini 3 refuses a call without
/// one, and takes this word from those who hand a conversation over.
fn sign(content: &mut Value) {
    let calls = content["parts"].as_array_mut().into_iter().flatten().filter(|part| part.get("functionCall").is_some());
    let mut calls: Vec<&mut Value> = calls.collect();
    let signed = calls.iter().any(|call| call.get("thoughtSignature").is_some());
    if let Some(first) = calls.first_mut().filter(|_| !signed) {
        first["thoughtSignature"] = json!("skip_thought_signature_validator");
    }
}

/// Adds the pictures of results to their parts, or after them.
fn place_pictures(of: &[Part], parts: &mut Vec<Value>, in_results: bool) {
    let inline = |picture: &Picture| json!({"inlineData": {"mimeType": picture.mime, "data": picture.data}});
    let results = of.iter().filter_map(|part| match part {
        Part::ToolResult { name, pictures, .. } => Some((name, pictures)),
        _ => None,
    });
    let mut after = Vec::new();
    for (at, (name, pictures)) in results.enumerate().filter(|(_, (_, pictures))| !pictures.is_empty()) {
        let seen: Vec<Value> = pictures.iter().filter(|picture| picture.mime != UNSEEN).map(inline).collect();
        // A message of results has nothing else, so that its parts stand at the same places.
        let mut result = parts.get_mut(at).and_then(|part| part.get_mut("functionResponse"));
        if let Some(result) = result.as_deref_mut().filter(|_| seen.len() < pictures.len()) {
            let texts = result["response"].as_object_mut().into_iter().flatten();
            for (_, text) in texts {
                *text = json!(format!("{}\n\n{LEFT_OUT}", text.as_str().unwrap_or_default()));
            }
        }
        match result.filter(|_| in_results) {
            _ if seen.is_empty() => {}
            Some(result) => result["parts"] = json!(seen),
            None => {
                after.push(json!({"text": super::openai::pictures_of(name)}));
                after.extend(seen);
            }
        }
    }
    parts.append(&mut after);
}

/// The error for a prompt with a picture in the one format that it refuses.
fn refuse_unseen(http: &Http, request: &Request) -> Result<(), LlmError> {
    let is_unseen = |part: &Part| matches!(part, Part::Image { mime, .. } if mime == UNSEEN);
    if request.messages.iter().any(|message| message.parts.iter().any(is_unseen)) {
        let text = "takes no picture in GIF; give it as PNG, JPEG or WebP";
        return Err(http.error(LlmErrorKind::BadRequest, text));
    }
    Ok(())
}

/// The parts of a message; a signature joins the part after it.
fn parts(parts: &[Part]) -> Vec<Value> {
    let mut sent = Vec::new();
    let mut pending: Option<&str> = None;
    for part in parts {
        if let Part::Thinking { signature, .. } = part {
            if let Some(signature) = signature.as_deref().and_then(|signature| untagged(WIRE, signature)) {
                pending = Some(signature);
            }
            continue;
        }
        let Some(mut value) = self::part(part) else { continue };
        if let Some(signature) = pending.take() {
            value["thoughtSignature"] = json!(signature);
        }
        sent.push(value);
    }
    sent.extend(pending.map(|signature| json!({"text": "", "thoughtSignature": signature})));
    sent
}

fn part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text } if text.is_empty() => return None,
        Part::Text { text } => json!({"text": text}),
        Part::Image { mime, source: ImageSource::Data(data) } => {
            json!({"inlineData": {"mimeType": mime, "data": data}})
        }
        Part::Image { mime, source: ImageSource::Url(url) } => json!({"fileData": {"mimeType": mime, "fileUri": url}}),
        Part::ToolCall { id, name, arguments } => {
            let args = if arguments.is_object() { arguments.clone() } else { json!({}) };
            with_id(json!({"name": name, "args": args}), id, "functionCall")
        }
        Part::ToolResult { id, name, content, is_error, .. } => {
            let key = if *is_error { "error" } else { "output" };
            with_id(json!({"name": name, "response": {key: content}}), id, "functionResponse")
        }
        Part::Thinking { .. } => return None,
    })
}

/// Adds the id that the provider gave the call, but no id of ours.
fn with_id(mut inner: Value, id: &str, key: &str) -> Value {
    if !is_own_call_id(id) {
        inner["id"] = json!(id);
    }
    json!({ key: inner })
}

/// An answer while it is read.
struct Reading<'a> {
    http: &'a Http,
    assembly: Assembly<'a>,
    finish: Option<Finish>,
}

impl Reading<'_> {
    /// Takes an answer, or a piece of one: they have the same shape.
    fn take(&mut self, chunk: &Value) -> Result<(), LlmError> {
        if let Some(error) = chunk.get("error").filter(|error| error.is_object()) {
            let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            let kind = LlmError::kind_of_status(status.unwrap_or(500));
            let words = words_of(chunk.to_string().as_bytes());
            return Err(self.http.error(kind, &format!("failed while it answered: {words}")));
        }
        if let Some(usage) = chunk.get("usageMetadata").filter(|usage| usage.is_object()) {
            self.assembly.usage = read_usage(usage);
        }
        if let Some(model) = chunk.get("modelVersion").and_then(Value::as_str) {
            self.assembly.model = Some(model.to_string());
        }
        if chunk.pointer("/promptFeedback/blockReason").is_some_and(|reason| !reason.is_null()) {
            self.finish = Some(Finish::ContentFilter);
        }
        let Some(candidate) = chunk.pointer("/candidates/0") else { return Ok(()) };
        for part in candidate.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten() {
            self.take_part(part)?;
        }
        if let Some(reason) = candidate.get("finishReason").and_then(Value::as_str) {
            self.finish = Some(match reason {
                "MAX_TOKENS" => Finish::Length,
                "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
                    Finish::ContentFilter
                }
                _ => Finish::Stop,
            });
        }
        Ok(())
    }

    fn take_part(&mut self, part: &Value) -> Result<(), LlmError> {
        let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            self.assembly.thinking(text)?;
        }
        if let Some(signature) = part.get("thoughtSignature").and_then(Value::as_str) {
            self.assembly.signature(tagged(WIRE, signature))?;
        }
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            return Ok(());
        }
        self.assembly.text(text)?;
        let Some(call) = part.get("functionCall").filter(|call| call.is_object()) else { return Ok(()) };
        let field = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default();
        self.assembly.whole_call(field("id"), field("name"), call.get("args"))
    }

    fn finish(self, request: &Request) -> Result<Reply, LlmError> {
        match self.finish {
            Some(finish) => Ok(self.assembly.finish(finish, request)),
            None => Err(cut_off(self.http)),
        }
    }
}

fn read_usage(usage: &Value) -> Usage {
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input_tokens: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        output_tokens: count("candidatesTokenCount").saturating_add(count("thoughtsTokenCount")),
        cached_input_tokens: count("cachedContentTokenCount"),
        cache_write_tokens: 0,
        thinking_tokens: count("thoughtsTokenCount"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::test_support::{Answer, MockLlm, failing, provider, survives, tool_conversation};
    use crate::llm::{NoSink, OutputSchema};

    fn stream(chunks: &[Value]) -> Answer {
        let data: String = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect();
        Answer::bytes(200, "text/event-stream", data)
    }

    fn chunks() -> Vec<Value> {
        let part = |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]});
        vec![
            part(json!({"text": "hm", "thought": true})),
            part(json!({"text": "Hello"})),
            part(json!({"functionCall": {"name": "now", "args": {"zone": "utc"}}, "thoughtSignature": "c2ln"})),
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 2}, "modelVersion": "m-1"}),
        ]
    }

    #[tokio::test]
    async fn a_signature_goes_back_on_the_part_it_came_with() {
        let server = MockLlm::answering(vec![stream(&chunks())]).await;
        let llm = provider("gemini", &server.url());
        let mut request =
            Request { model: "gemini-3-pro".into(), messages: vec![Message::user("Hi")], ..Request::default() };
        request.options.stream = true;
        let reply = llm.call(&request, &NoSink).await.unwrap();
        assert_eq!((reply.finish.clone(), reply.usage.output_tokens), (Finish::ToolCalls, 7));
        request.messages.push(reply.to_message());
        let wire = llm.wire(&request);
        assert_eq!(
            wire["contents"][1],
            json!({"role": "model", "parts": [{"text": "Hello"},
                {"functionCall": {"name": "now", "args": {"zone": "utc"}}, "thoughtSignature": "c2ln"}]})
        );
        let path = &server.received()[0].path;
        assert_eq!(path, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse");
    }

    #[test]
    fn a_conversation_in_its_own_words() {
        let llm = provider("gemini", "http://127.0.0.1:1/v1beta");
        let mut request = tool_conversation();
        request.model = "gemini-2.5-flash".into();
        request.options.thinking = Some(Thinking::Budget(2000));
        request.options.tool_choice = Some(ToolChoice::Tool("get_forecast".into()));
        request.options.stop = vec!["END".into()];
        assert_eq!(
            llm.wire(&request).to_string(),
            concat!(
                r#"{"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"Weather?"},"#,
                r#"{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},{"role":"model","parts":[{"functionCall":{"name":"get_forecast","#,
                r#""args":{"city":"Bern"},"id":"c1"}},{"functionCall":{"name":"now","args":{},"id":"c2"}}]},{"role":"user","parts":["#,
                r#"{"functionResponse":{"name":"get_forecast","response":{"output":"sunny"},"id":"c1"}},"#,
                r#"{"functionResponse":{"name":"now","response":{"error":"no clock"},"id":"c2"}},{"text":"Go on"}]}],"#,
                r#""tools":[{"functionDeclarations":[{"name":"get_forecast","description":"Forecast","parameters":{"type":"OBJECT","#,
                r#""properties":{"city":{"type":"STRING"}},"propertyOrdering":["city"],"required":["city"]}}]}],"#,
                r#""toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["get_forecast"]}},"#,
                r#""generationConfig":{"stopSequences":["END"],"thinkingConfig":{"thinkingBudget":2000,"includeThoughts":true}}}"#,
            )
        );
    }

    #[tokio::test]
    async fn a_picture_in_gif_is_left_out_of_results_and_refused_in_prompts() {
        let picture = |mime: &str| Picture { mime: mime.into(), data: "AAAA".into() };
        let result = |pictures: Vec<Picture>| Part::ToolResult {
            id: "c1".into(),
            name: "snap".into(),
            content: "A shelf".into(),
            is_error: false,
            pictures,
        };
        let told = |pictures: Vec<Picture>, in_results: bool| {
            contents(&[Message::tool_results(vec![result(pictures)])], in_results)[0]["parts"].clone()
        };
        let answer = |part: &Value| part["functionResponse"]["response"]["output"].as_str().unwrap().to_owned();
        for in_results in [true, false] {
            let only = told(vec![picture(UNSEEN)], in_results);
            assert_eq!(only.as_array().map(Vec::len), Some(1), "{only}");
            assert_eq!(answer(&only[0]), format!("A shelf\n\n{LEFT_OUT}"));
        }
        let both = told(vec![picture(UNSEEN), picture("image/png")], true);
        assert_eq!(both[0]["functionResponse"]["parts"][0]["inlineData"]["mimeType"], "image/png");
        assert!(answer(&both[0]).ends_with(LEFT_OUT), "{both}");
        assert_eq!(answer(&told(vec![picture("image/png")], true)[0]), "A shelf");
        let image = Part::Image { mime: UNSEEN.into(), source: ImageSource::Data("R0lGODlh".into()) };
        let asked = Message { role: Role::User, parts: vec![image] };
        let request = Request { model: "gemini-2.5-flash".into(), messages: vec![asked], ..Request::default() };
        let error = provider("gemini", "http://127.0.0.1:9").call(&request, &NoSink).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::BadRequest);
        assert!(error.message.contains("takes no picture in GIF"), "{error}");
    }

    #[test]
    fn each_model_is_told_how_much_to_think_in_words_that_it_takes() {
        let told = |model: &str, thinking: Thinking| thinking_config(model, &thinking);
        let effort = |word: &str| Thinking::Effort(word.into());
        assert_eq!(
            told("gemini-3.1-pro-preview", effort("medium")),
            json!({"thinkingLevel": "MEDIUM", "includeThoughts": true})
        );
        for (model, effort, level) in [
            ("gemini-3-pro-preview", "medium", "HIGH"),
            ("gemini-3-pro-preview", "minimal", "LOW"),
            ("gemini-3-flash-preview", "minimal", "MINIMAL"),
            ("gemini-3.8-flash", "minimal", "LOW"),
        ] {
            assert_eq!(told(model, Thinking::Effort(effort.into()))["thinkingLevel"], level, "{model} {effort}");
        }
        for (model, off) in [
            ("gemini-3-flash-preview", json!({"thinkingLevel": "MINIMAL"})),
            ("models/gemini-3.1-pro-preview", json!({"thinkingLevel": "LOW"})),
            ("gemini-2.5-flash", json!({"thinkingBudget": 0})),
            ("gemini-2.5-pro", json!({"thinkingBudget": 128})),
        ] {
            assert_eq!(told(model, Thinking::Off), off, "{model}");
        }
    }

    #[test]
    fn beside_tools_older_models_get_the_schema_as_instructions() {
        let llm = provider("gemini", "http://127.0.0.1:1");
        let mut request = tool_conversation();
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
        request.output = Some(OutputSchema::native("A", schema));
        for (model, native) in [("gemini-2.5-pro", false), ("gemini-3-pro", true)] {
            request.model = model.into();
            let wire = llm.wire(&request);
            assert_eq!(wire.pointer("/generationConfig/responseSchema").is_some(), native, "{model}");
            let system = wire["systemInstruction"]["parts"][0]["text"].as_str().unwrap();
            assert_eq!(system.contains("JSON Schema of `A`"), !native, "{system}");
        }
    }

    #[tokio::test]
    async fn it_fails_in_words() {
        failing("gemini", stream(&chunks())).await;
    }

    #[tokio::test]
    async fn strange_answers_end_as_a_reply_or_an_error() {
        survives("gemini", chunks(), stream).await;
    }
}
