//! Turns of a model as providers send them, whole and streamed.

use serde_json::{Value, json};

use crate::support::mock_llm::{Answer, event_frame};

/// What a model says in one turn: its thought, its words, its calls.
pub(crate) struct Said {
    /// Which turn it is, from 0.
    pub(crate) turn: usize,
    pub(crate) thought: &'static str,
    pub(crate) text: &'static str,
    pub(crate) calls: Vec<(&'static str, Value)>,
}

impl Said {
    /// The id of a call, on wires that have ids.
    fn id(&self, at: usize) -> String {
        format!("call_{}_{}", self.turn + 1, at + 1)
    }

    /// What a model proves its thought with.
    fn signature(&self) -> String {
        format!("EqQB{}==", self.turn)
    }

    /// The turn as it comes over a wire: a provider's kind, or `responses`.
    pub(crate) fn answer(&self, wire: &str, stream: bool) -> Answer {
        if stream { stream_of(wire, &self.events(wire)) } else { Answer::json(200, &self.whole(wire)) }
    }

    /// The turn as one body.
    pub(crate) fn whole(&self, wire: &str) -> Value {
        self.told(wire, false).remove(0)
    }

    /// The turn as the events of a stream, in the form that cassettes have.
    pub(crate) fn events(&self, wire: &str) -> Vec<Value> {
        self.told(wire, true)
    }

    fn told(&self, wire: &str, stream: bool) -> Vec<Value> {
        match wire {
            "openai" => openai(self, stream),
            "anthropic" => anthropic(self, stream),
            "responses" => responses(self, stream),
            "gemini" => gemini(self, stream),
            "bedrock" => bedrock(self, stream),
            "ollama" => ollama(self, stream),
            other => panic!("there is no wire `{other}`"),
        }
    }
}

/// Events as they come over a wire. One of Bedrock's is `{":event-type", "payload"}`, for its headers and its body.
pub(crate) fn stream_of(wire: &str, events: &[Value]) -> Answer {
    let lines = |start: &str, end: &str| events.iter().map(|event| format!("{start}{event}{end}")).collect::<String>();
    match wire {
        "openai" => Answer::openai_stream(events),
        "anthropic" | "responses" => Answer::anthropic_stream(events),
        "gemini" => Answer::bytes(200, "text/event-stream", lines("data: ", "\r\n\r\n")),
        "ollama" => Answer::bytes(200, "application/x-ndjson", lines("", "\n")),
        "bedrock" => {
            let frame = |event: &Value| {
                let kind = event[":event-type"].as_str().expect("a kind of event");
                let headers =
                    [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")];
                event_frame(&headers, event["payload"].to_string().as_bytes())
            };
            let frames: Vec<u8> = events.iter().flat_map(frame).collect();
            Answer::bytes(200, "application/vnd.amazon.eventstream", frames)
        }
        other => panic!("no form of a stream is known for {other}"),
    }
}

/// A turn as OpenAI sends it.
fn openai(said: &Said, stream: bool) -> Vec<Value> {
    let Said { text, calls, .. } = said;
    let call = |at: usize, name: &str, arguments: &str| json!({"index": at, "id": said.id(at), "type": "function", "function": {"name": name, "arguments": arguments}});
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    if !stream {
        let calls: Vec<Value> =
            calls.iter().enumerate().map(|(at, (name, arguments))| call(at, name, &arguments.to_string())).collect();
        let calls: Vec<Value> = calls
            .into_iter()
            .map(|mut call| {
                // Only pieces are numbered.
                call.as_object_mut().and_then(|call| call.remove("index"));
                call
            })
            .collect();
        let mut message = json!({"role": "assistant", "content": content});
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        return vec![json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1767225600, "model": "mock-1",
                "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})];
    }
    let event = |choices: Value, usage: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1767225600, "model": "mock-1", "choices": choices, "usage": usage});
    let chunk = |delta: Value, finish: Value| {
        event(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]), Value::Null)
    };
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": content}), Value::Null)];
    for (at, (name, arguments)) in calls.iter().enumerate() {
        chunks.push(chunk(json!({"tool_calls": [call(at, name, "")]}), Value::Null));
        for piece in pieces(&arguments.to_string()) {
            let piece = json!({"index": at, "function": {"arguments": piece}});
            chunks.push(chunk(json!({"tool_calls": [piece]}), Value::Null));
        }
    }
    chunks.push(chunk(json!({}), json!(finish)));
    chunks.push(event(json!([]), json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})));
    chunks
}

/// A turn as Anthropic sends it.
fn anthropic(said: &Said, stream: bool) -> Vec<Value> {
    let Said { thought, text, calls, .. } = said;
    let mut blocks = Vec::new();
    if !thought.is_empty() {
        blocks.push(json!({"type": "thinking", "thinking": thought, "signature": said.signature()}));
    }
    if said.turn == 1 {
        blocks.push(json!({"type": "redacted_thinking", "data": "EmwKAhgB"}));
    }
    if !text.is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
    }
    for (at, (name, arguments)) in calls.iter().enumerate() {
        blocks.push(json!({"type": "tool_use", "id": said.id(at), "name": name, "input": arguments}));
    }
    let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let message = |content: Value, stop: Value, usage: Value| json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "mock-1", "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage});
    if !stream {
        return vec![message(json!(blocks), json!(stop), json!({"input_tokens": 10, "output_tokens": 5}))];
    }
    let begun = message(json!([]), Value::Null, json!({"input_tokens": 10, "output_tokens": 1}));
    let mut events = vec![json!({"type": "message_start", "message": begun})];
    for (index, block) in blocks.iter().enumerate() {
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let text_of = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let mut empty = block.clone();
        let deltas: Vec<Value> = match block["type"].as_str() {
            Some("thinking") => {
                (empty["thinking"], empty["signature"]) = (json!(""), json!(""));
                let thoughts = pieces(&text_of("thinking"));
                let thoughts = thoughts.into_iter().map(|it| delta(json!({"type": "thinking_delta", "thinking": it})));
                let signed = delta(json!({"type": "signature_delta", "signature": block["signature"]}));
                thoughts.chain([signed]).collect()
            }
            Some("text") => {
                empty["text"] = json!("");
                let texts = pieces(&text_of("text")).into_iter();
                texts.map(|it| delta(json!({"type": "text_delta", "text": it}))).collect()
            }
            Some("tool_use") => {
                empty["input"] = json!({});
                let parts = pieces(&block["input"].to_string()).into_iter();
                parts.map(|it| delta(json!({"type": "input_json_delta", "partial_json": it}))).collect()
            }
            _ => Vec::new(),
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        events.extend(deltas);
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let end = json!({"stop_reason": stop, "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// A text in pieces of five characters.
fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(5).map(|piece| piece.iter().collect()).collect()
}

/// A turn as OpenAI's responses API sends it.
fn responses(said: &Said, stream: bool) -> Vec<Value> {
    let mut items = Vec::new();
    if !said.thought.is_empty() {
        let summary = json!([{"type": "summary_text", "text": said.thought}]);
        items.push(json!({"id": format!("rs_{}", said.turn), "type": "reasoning", "summary": summary, "encrypted_content": said.signature()}));
    }
    if !said.text.is_empty() {
        let content = json!([{"type": "output_text", "text": said.text, "annotations": []}]);
        items.push(json!({"id": format!("msg_{}", said.turn), "type": "message", "role": "assistant", "status": "completed", "content": content}));
    }
    for (at, (name, arguments)) in said.calls.iter().enumerate() {
        items.push(json!({"id": format!("fc_{}_{at}", said.turn), "type": "function_call", "status": "completed",
            "call_id": said.id(at), "name": name, "arguments": arguments.to_string()}));
    }
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15});
    let mut begun = json!({"id": "resp_1", "object": "response", "created_at": 1767225600, "status": "in_progress",
        "model": "mock-1", "error": null, "incomplete_details": null, "output": [], "parallel_tool_calls": true,
        "tool_choice": "auto", "tools": []});
    let mut whole = begun.clone();
    (whole["status"], whole["output"], whole["usage"]) = (json!("completed"), json!(items), usage);
    if !stream {
        return vec![whole];
    }
    let mut events = vec![json!({"type": "response.created", "response": begun})];
    for (index, item) in items.iter().enumerate() {
        begun = item.clone();
        let delta = |kind: &str, piece: String| {
            let mut delta = json!({"type": format!("response.{kind}.delta"), "item_id": item["id"], "output_index": index, "delta": piece});
            match kind {
                "output_text" => (delta["content_index"], delta["logprobs"]) = (json!(0), json!([])),
                "reasoning_summary_text" => delta["summary_index"] = json!(0),
                _ => {}
            }
            delta
        };
        let deltas: Vec<Value> = match item["type"].as_str() {
            Some("reasoning") => {
                (begun["summary"], begun["encrypted_content"]) = (json!([]), json!(""));
                pieces(said.thought).into_iter().map(|piece| delta("reasoning_summary_text", piece)).collect()
            }
            Some("message") => {
                begun["content"] = json!([]);
                pieces(said.text).into_iter().map(|piece| delta("output_text", piece)).collect()
            }
            _ => {
                begun["arguments"] = json!("");
                let arguments = item["arguments"].as_str().unwrap_or_default();
                pieces(arguments).into_iter().map(|piece| delta("function_call_arguments", piece)).collect()
            }
        };
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        events.extend(deltas);
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": whole}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

/// A turn as Gemini sends it: calls without ids, the signature on the first of them.
fn gemini(said: &Said, stream: bool) -> Vec<Value> {
    let mut parts = Vec::new();
    if !said.thought.is_empty() {
        parts.push(json!({"text": said.thought, "thought": true}));
    }
    if !said.text.is_empty() {
        parts.push(json!({"text": said.text}));
    }
    for (at, (name, arguments)) in said.calls.iter().enumerate() {
        let mut part = json!({"functionCall": {"name": name, "args": arguments}});
        if at == 0 && !said.thought.is_empty() {
            part["thoughtSignature"] = json!(said.signature());
        }
        parts.push(part);
    }
    let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15});
    let chunk = |parts: Vec<Value>, finish: Option<&str>| {
        let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "mock-1"})
    };
    if !stream {
        return vec![chunk(parts, Some("STOP"))];
    }
    let mut chunks: Vec<Value> = parts.into_iter().map(|part| chunk(vec![part], None)).collect();
    chunks.push(chunk(vec![json!({"text": ""})], Some("STOP")));
    chunks
}

/// A turn as Bedrock sends it.
fn bedrock(said: &Said, stream: bool) -> Vec<Value> {
    let mut blocks = Vec::new();
    if !said.thought.is_empty() {
        let thought = json!({"text": said.thought, "signature": said.signature()});
        blocks.push(json!({"reasoningContent": {"reasoningText": thought}}));
    }
    if !said.text.is_empty() {
        blocks.push(json!({"text": said.text}));
    }
    for (at, (name, arguments)) in said.calls.iter().enumerate() {
        blocks.push(json!({"toolUse": {"toolUseId": said.id(at), "name": name, "input": arguments}}));
    }
    let stop = if said.calls.is_empty() { "end_turn" } else { "tool_use" };
    let usage = json!({"inputTokens": 10, "outputTokens": 5, "totalTokens": 15});
    if !stream {
        let message = json!({"role": "assistant", "content": blocks});
        return vec![
            json!({"output": {"message": message}, "stopReason": stop, "usage": usage, "metrics": {"latencyMs": 7}}),
        ];
    }
    let frame = |kind: &str, payload: Value| json!({":event-type": kind, "payload": payload});
    let mut frames = vec![frame("messageStart", json!({"role": "assistant"}))];
    for (index, block) in blocks.iter().enumerate() {
        let delta = |delta: Value| frame("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
        if let Some(call) = block.get("toolUse") {
            let start = json!({"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}});
            frames.push(frame("contentBlockStart", json!({"contentBlockIndex": index, "start": start})));
            for piece in pieces(&call["input"].to_string()) {
                frames.push(delta(json!({"toolUse": {"input": piece}})));
            }
        } else if let Some(text) = block.get("text").and_then(Value::as_str) {
            pieces(text).into_iter().for_each(|piece| frames.push(delta(json!({"text": piece}))));
        } else {
            for piece in pieces(said.thought) {
                frames.push(delta(json!({"reasoningContent": {"text": piece}})));
            }
            frames.push(delta(json!({"reasoningContent": {"signature": said.signature()}})));
        }
        frames.push(frame("contentBlockStop", json!({"contentBlockIndex": index})));
    }
    frames.push(frame("messageStop", json!({"stopReason": stop})));
    frames.push(frame("metadata", json!({"usage": usage, "metrics": {"latencyMs": 7}})));
    frames
}

/// A turn as Ollama sends it: calls without ids, arguments as objects.
fn ollama(said: &Said, stream: bool) -> Vec<Value> {
    let calls: Vec<Value> = said
        .calls
        .iter()
        .map(|(name, arguments)| json!({"function": {"name": name, "arguments": arguments}}))
        .collect();
    let line = |key: &str, value: Value| {
        let mut message = json!({"role": "assistant", "content": ""});
        message[key] = value;
        json!({"model": "mock-1", "message": message, "done": false})
    };
    let end = |message: Value| json!({"model": "mock-1", "message": message, "done": true, "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 5});
    if !stream {
        let mut message = json!({"role": "assistant", "content": said.text});
        if !said.thought.is_empty() {
            message["thinking"] = json!(said.thought);
        }
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        return vec![end(message)];
    }
    let mut lines: Vec<Value> = pieces(said.thought).into_iter().map(|piece| line("thinking", json!(piece))).collect();
    lines.extend(pieces(said.text).into_iter().map(|piece| line("content", json!(piece))));
    lines.extend(calls.into_iter().map(|call| line("tool_calls", json!([call]))));
    lines.push(end(json!({"role": "assistant", "content": ""})));
    lines
}
