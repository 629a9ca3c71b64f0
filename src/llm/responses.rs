//! OpenAI's responses API (`api: responses`): items instead of messages, reasoning sent back encrypted.
//!
//! Nothing is kept at the provider (`store: false`), so that a process can be resumed from its own journal alone; what a
//! thinking model needs of its own thoughts goes back as `encrypted_content`. The wire has no seed and no stop texts.

use serde_json::{Map, Value, json};

use super::assembly::{Assembly, answered_without, cut_off, event_json, tagged, untagged};
use super::error::LlmError;
use super::http::{Answer, Http, words_of};
use super::openai;
use super::options::{Thinking, ToolChoice};
use super::reply::{DeltaSink, Finish, Reply, Usage};
use super::request::{ImageSource, Message, OutputMode, Part, Request, Role, ToolSpec};

/// Tags the encrypted thoughts of this wire.
const WIRE: &str = "openai";

/// The body of a request. `thinks`: the model is known to think.
pub(super) fn wire(request: &Request, thinks: bool) -> Value {
    let options = &request.options;
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    if let Some(system) = request.system.as_ref().filter(|system| !system.is_empty()) {
        body.insert("instructions".into(), json!(system));
    }
    body.insert("input".into(), request.messages.iter().flat_map(items).collect());
    if !request.tools.is_empty() {
        body.insert("tools".into(), tools(&request.tools));
        if let Some(choice) = &options.tool_choice {
            body.insert("tool_choice".into(), tool_choice(choice));
        }
    }
    if let Some(output) = request.output.as_ref().filter(|output| output.mode == OutputMode::Native) {
        let mut format = openai::json_schema(&output.name, &output.schema);
        format["type"] = json!("json_schema");
        body.insert("text".into(), json!({"format": format}));
    }
    let thinking = options.thinking.as_ref();
    let reasoning = thinking.and_then(|thinking| Some(reasoning(thinking, openai::effort(&request.model, thinking)?)));
    let settings = [
        ("parallel_tool_calls", options.parallel_tool_calls.filter(|_| !request.tools.is_empty()).map(Value::from)),
        ("temperature", options.temperature.map(Value::from)),
        ("top_p", options.top_p.map(Value::from)),
        ("max_output_tokens", options.max_tokens.map(Value::from)),
        ("include", (thinks || reasoning.is_some()).then(|| json!(["reasoning.encrypted_content"]))),
        ("reasoning", reasoning),
        ("store", Some(json!(false))),
        ("stream", options.stream.then(|| json!(true))),
    ];
    body.extend(settings.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))));
    Value::Object(body)
}

fn reasoning(thinking: &Thinking, effort: &str) -> Value {
    match thinking {
        Thinking::Off => json!({"effort": effort}),
        Thinking::Effort(_) | Thinking::Budget(_) => json!({"effort": effort, "summary": "auto"}),
    }
}

/// The wire form of tools: flat, and `strict` always said, because it is on where it is left out.
pub(super) fn tools(specs: &[ToolSpec]) -> Value {
    let tool = |spec: &ToolSpec| {
        let function = openai::function(spec);
        let strict = function.get("strict").is_some();
        let mut tool = json!({"type": "function", "strict": strict});
        for key in ["name", "description", "parameters"] {
            tool[key] = function[key].clone();
        }
        tool
    };
    specs.iter().map(tool).collect()
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
    }
}

/// One message of ours is several items: thoughts, what is said, calls, and results each for itself.
fn items(message: &Message) -> Vec<Value> {
    let assistant = message.role == Role::Assistant;
    let mut items: Vec<Value> = Vec::new();
    let mut content: Vec<Value> = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text { text } if text.is_empty() => {}
            Part::Text { text } => {
                content.push(json!({"type": "input_text", "text": text}));
            }
            Part::Image { mime, source } => {
                let url = match source {
                    ImageSource::Data(data) => format!("data:{mime};base64,{data}"),
                    ImageSource::Url(url) => url.clone(),
                };
                content.push(json!({"type": "input_image", "image_url": url, "detail": "auto"}));
            }
            Part::ToolCall { id, name, arguments } => {
                said(&mut items, &mut content, assistant);
                let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_string);
                items.push(json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments}));
            }
            Part::ToolResult { id, content: text, pictures, .. } => {
                let output = match pictures.is_empty() {
                    true => json!(text),
                    false => {
                        let images = pictures.iter().map(|picture| {
                            let url = format!("data:{};base64,{}", picture.mime, picture.data);
                            json!({"type": "input_image", "image_url": url, "detail": "auto"})
                        });
                        std::iter::once(json!({"type": "input_text", "text": text})).chain(images).collect()
                    }
                };
                items.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
            }
            Part::Thinking { signature, .. } => {
                let own = signature.as_deref().and_then(|signature| untagged(WIRE, signature)?.split_once(':'));
                if let Some((id, encrypted)) = own {
                    said(&mut items, &mut content, assistant);
                    items.push(json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": encrypted}));
                }
            }
        }
    }
    said(&mut items, &mut content, assistant);
    items
}

/// Ends a message item, when something was said.
fn said(items: &mut Vec<Value>, content: &mut Vec<Value>, assistant: bool) {
    if content.is_empty() {
        return;
    }
    let content = std::mem::take(content);
    items.push(match assistant {
        false => json!({"type": "message", "role": "user", "content": content}),
        // What the model said goes back as plain text: as an item of its own it would need the provider's id.
        true => {
            let texts: Vec<&str> = content.iter().filter_map(|part| part["text"].as_str()).collect();
            json!({"type": "message", "role": "assistant", "content": texts.join("\n")})
        }
    });
}

/// Reads an answer, whole or streamed.
pub(super) async fn read(
    http: &Http,
    answer: Answer<'_>,
    request: &Request,
    sink: &dyn DeltaSink,
) -> Result<Reply, LlmError> {
    let mut read =
        Reading { http, assembly: Assembly::new(http, sink), open: Vec::new(), refusal: String::new(), finish: None };
    if answer.is_event_stream() {
        answer.events(|event| read.take(&event_json(http, &event.data)?)).await?;
        return read.finish(request);
    }
    let body = answer.json().await?;
    let Some(output) = body.get("output").and_then(Value::as_array) else {
        return Err(read.failure(&body).unwrap_or_else(|| answered_without(http, "output", &body)));
    };
    for item in output {
        read.begin(None, item)?;
        read.whole(item)?;
        read.end(item)?;
    }
    read.end_response(&body)?;
    read.finish(request)
}

/// An answer while it is read.
struct Reading<'a> {
    http: &'a Http,
    assembly: Assembly<'a>,
    /// Calls under way: the item's number, the call's, and whether some of its arguments came.
    open: Vec<(Option<u64>, usize, bool)>,
    refusal: String,
    finish: Option<Finish>,
}

impl Reading<'_> {
    /// Takes one event; `true` when it was the last.
    fn take(&mut self, event: &Value) -> Result<bool, LlmError> {
        let delta = event.get("delta").and_then(Value::as_str).unwrap_or_default();
        let number = event.get("output_index").and_then(Value::as_u64);
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "response.output_item.added" => self.begin(number, &event["item"])?,
            "response.output_text.delta" => self.assembly.text(delta)?,
            "response.refusal.delta" => self.refusal.push_str(delta),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.assembly.thinking(delta)?
            }
            "response.reasoning_summary_part.added" if event["summary_index"].as_u64().unwrap_or(0) > 0 => {
                self.assembly.thinking("\n\n")?;
            }
            "response.function_call_arguments.delta" => {
                if let Some(open) = self.open.iter_mut().rev().find(|open| open.0 == number) {
                    open.2 = true;
                    self.assembly.arguments(open.1, delta)?;
                }
            }
            "response.output_item.done" => {
                let item = &event["item"];
                let open = self.open.iter().rev().find(|open| open.0 == number).copied();
                if let Some((_, call, false)) = open.filter(|_| item["type"] == "function_call") {
                    self.assembly.arguments(call, item["arguments"].as_str().unwrap_or_default())?;
                }
                self.end(item)?;
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end_response(&event["response"])?;
                return Ok(true);
            }
            "error" => return Err(self.failure(event).unwrap_or_else(|| cut_off(self.http))),
            // What is begun, ended or searched, and what is yet to be invented.
            _ => {}
        }
        Ok(false)
    }

    fn begin(&mut self, number: Option<u64>, item: &Value) -> Result<(), LlmError> {
        if item["type"] == "function_call" {
            let field = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
            let call = self.assembly.begin_call(field("call_id"), field("name"))?;
            self.open.push((number, call, false));
        }
        Ok(())
    }

    /// The inside of an item that came whole.
    fn whole(&mut self, item: &Value) -> Result<(), LlmError> {
        if item["type"] == "function_call" {
            let call = self.open.last().map_or(0, |open| open.1);
            return self.assembly.arguments(call, item["arguments"].as_str().unwrap_or_default());
        }
        for (at, summary) in item["summary"].as_array().into_iter().flatten().enumerate() {
            self.assembly.thinking(if at > 0 { "\n\n" } else { "" })?;
            self.assembly.thinking(summary["text"].as_str().unwrap_or_default())?;
        }
        for part in item["content"].as_array().into_iter().flatten().filter(|_| item["type"] == "message") {
            match part["type"].as_str() {
                Some("output_text") => self.assembly.text(part["text"].as_str().unwrap_or_default())?,
                Some("refusal") => self.refusal.push_str(part["refusal"].as_str().unwrap_or_default()),
                _ => {}
            }
        }
        Ok(())
    }

    /// What is known of an item only at its end: the encrypted thoughts.
    fn end(&mut self, item: &Value) -> Result<(), LlmError> {
        let field = |key: &str| item.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        match (item["type"] == "reasoning", field("encrypted_content")) {
            (true, Some(encrypted)) => {
                self.assembly.signature(tagged(WIRE, &format!("{}:{encrypted}", field("id").unwrap_or_default())))
            }
            _ => Ok(()),
        }
    }

    fn end_response(&mut self, response: &Value) -> Result<(), LlmError> {
        if let Some(error) = self.failure(response) {
            return Err(error);
        }
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            self.assembly.usage = read_usage(usage);
        }
        if let Some(model) = response.get("model").and_then(Value::as_str) {
            self.assembly.model = Some(model.to_string());
        }
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        self.finish = Some(match (response["status"].as_str(), reason) {
            (Some("incomplete"), Some("content_filter")) => Finish::ContentFilter,
            (Some("incomplete"), _) => Finish::Length,
            _ => Finish::Stop,
        });
        Ok(())
    }

    /// The error that an event or a response tells of.
    fn failure(&self, told: &Value) -> Option<LlmError> {
        let is_event = told["type"] == "error";
        let error = if is_event { told } else { told.get("error").filter(|error| !error.is_null())? };
        let code = error.get("code").or_else(|| error.get("type")).and_then(Value::as_str).unwrap_or_default();
        let status = match code {
            "rate_limit_exceeded" | "rate_limit_error" => 429,
            "invalid_prompt" | "invalid_request_error" | "context_length_exceeded" => 400,
            _ => 500,
        };
        let words = words_of(json!({ "error": error }).to_string().as_bytes());
        Some(self.http.error(LlmError::kind_of_status(status), &format!("failed while it answered: {words}")))
    }

    fn finish(self, request: &Request) -> Result<Reply, LlmError> {
        let refused = !self.refusal.is_empty();
        match self.finish {
            Some(_) if refused => Ok(self.assembly.finish(Finish::Refusal(self.refusal), request)),
            Some(finish) => Ok(self.assembly.finish(finish, request)),
            None => Err(cut_off(self.http)),
        }
    }
}

fn read_usage(usage: &Value) -> Usage {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input_tokens: count("/input_tokens"),
        output_tokens: count("/output_tokens"),
        cached_input_tokens: count("/input_tokens_details/cached_tokens"),
        cache_write_tokens: count("/input_tokens_details/cache_write_tokens"),
        thinking_tokens: count("/output_tokens_details/reasoning_tokens"),
    }
}
