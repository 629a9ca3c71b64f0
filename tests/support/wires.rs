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

    /// The turn in the words of a wire: a provider's kind, or `responses`.
    pub(crate) fn answer(&self, wire: &str, stream: bool) -> Answer {
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

/// A turn as OpenAI sends it.
fn openai(said: &Said, stream: bool) -> Answer {
    let Said { text, calls, .. } = said;
    let call = |at: usize, name: &str, arguments: &str| json!({"index": at, "id": said.id(at), "type": "function", "function": {"name": name, "arguments": arguments}});
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    if !stream {
        let calls: Vec<Value> =
            calls.iter().enumerate().map(|(at, (name, arguments))| call(at, name, &arguments.to_string())).collect();
        let mut message = json!({"role": "assistant", "content": content});
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        return Answer::json(
            200,
            &json!({"id": "chatcmpl-1", "object": "chat.completion", "model": "mock-1",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}),
        );
    }
    let chunk = |delta: Value, finish: Value| json!({"id": "chatcmpl-1", "model": "mock-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": content}), Value::Null)];
    for (at, (name, arguments)) in calls.iter().enumerate() {
        chunks.push(chunk(json!({"tool_calls": [call(at, name, "")]}), Value::Null));
        for piece in pieces(&arguments.to_string()) {
            let piece = json!({"index": at, "function": {"arguments": piece}});
            chunks.push(chunk(json!({"tool_calls": [piece]}), Value::Null));
        }
    }
    chunks.push(chunk(json!({}), json!(finish)));
    chunks.push(json!({"model": "mock-1", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}));
    Answer::openai_stream(&chunks)
}

/// A turn as Anthropic sends it.
fn anthropic(said: &Said, stream: bool) -> Answer {
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
    if !stream {
        return Answer::json(
            200,
            &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "mock-1", "content": blocks,
                "stop_reason": stop, "usage": {"input_tokens": 10, "output_tokens": 5}}),
        );
    }
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"model": "mock-1", "usage": usage}})];
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
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}}));
    events.push(json!({"type": "message_stop"}));
    Answer::anthropic_stream(&events)
}

/// A text in pieces of five characters.
fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(5).map(|piece| piece.iter().collect()).collect()
}

/// A turn as OpenAI's responses API sends it.
fn responses(said: &Said, stream: bool) -> Answer {
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
    let whole = json!({"id": "resp_1", "object": "response", "status": "completed", "model": "mock-1", "error": null,
        "incomplete_details": null, "output": items, "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}});
    if !stream {
        return Answer::json(200, &whole);
    }
    let mut events = vec![json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})];
    for (index, item) in items.iter().enumerate() {
        let mut begun = item.clone();
        let delta = |kind: &str, piece: String| json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": piece});
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
    Answer::anthropic_stream(&events)
}

/// A turn as Gemini sends it: calls without ids, the signature on the first of them.
fn gemini(said: &Said, stream: bool) -> Answer {
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
    let chunk = |parts: Vec<Value>, finish: Value| {
        json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": finish}],
            "usageMetadata": usage, "modelVersion": "mock-1"})
    };
    if !stream {
        return Answer::json(200, &chunk(parts, json!("STOP")));
    }
    let mut chunks: Vec<Value> = parts.into_iter().map(|part| chunk(vec![part], Value::Null)).collect();
    chunks.push(chunk(vec![json!({"text": ""})], json!("STOP")));
    let data: String = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect();
    Answer::bytes(200, "text/event-stream", data)
}

/// A turn as Bedrock sends it.
fn bedrock(said: &Said, stream: bool) -> Answer {
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
        return Answer::json(200, &json!({"output": {"message": message}, "stopReason": stop, "usage": usage}));
    }
    let frame = |kind: &str, payload: Value| {
        let headers = [(":message-type", "event"), (":event-type", kind), (":content-type", "application/json")];
        event_frame(&headers, payload.to_string().as_bytes())
    };
    let mut frames = frame("messageStart", json!({"role": "assistant"}));
    for (index, block) in blocks.iter().enumerate() {
        let delta = |delta: Value| frame("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
        if let Some(call) = block.get("toolUse") {
            let start = json!({"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}});
            frames.extend(frame("contentBlockStart", json!({"contentBlockIndex": index, "start": start})));
            for piece in pieces(&call["input"].to_string()) {
                frames.extend(delta(json!({"toolUse": {"input": piece}})));
            }
        } else if let Some(text) = block.get("text").and_then(Value::as_str) {
            pieces(text).into_iter().for_each(|piece| frames.extend(delta(json!({"text": piece}))));
        } else {
            for piece in pieces(said.thought) {
                frames.extend(delta(json!({"reasoningContent": {"text": piece}})));
            }
            frames.extend(delta(json!({"reasoningContent": {"signature": said.signature()}})));
        }
        frames.extend(frame("contentBlockStop", json!({"contentBlockIndex": index})));
    }
    frames.extend(frame("messageStop", json!({"stopReason": stop})));
    frames.extend(frame("metadata", json!({"usage": usage})));
    Answer::bytes(200, "application/vnd.amazon.eventstream", frames)
}

/// A turn as Ollama sends it: calls without ids, arguments as objects.
fn ollama(said: &Said, stream: bool) -> Answer {
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
        return Answer::json(200, &end(message));
    }
    let mut lines: Vec<Value> = pieces(said.thought).into_iter().map(|piece| line("thinking", json!(piece))).collect();
    lines.extend(pieces(said.text).into_iter().map(|piece| line("content", json!(piece))));
    lines.extend(calls.into_iter().map(|call| line("tool_calls", json!([call]))));
    lines.push(end(json!({"role": "assistant", "content": ""})));
    let data: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Answer::bytes(200, "application/x-ndjson", data)
}
