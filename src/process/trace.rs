//! What a process does as spans of `tracing`, in the words of OpenTelemetry's conventions for generative AI.
//!
//! Where nobody listens a span costs next to nothing: its fields are not made. What people and models say is in a span
//! only when `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` wants it.

use serde_json::{Value, json};
use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use crate::action::Failure;
use crate::llm::{Finish, Message, Part, Reply, Request, Role};
use crate::program::Action;

use super::core::Core;
use super::decide::Decision;
use super::document::Status;
use super::run::Process;

/// The target of all spans.
pub const TARGET: &str = "agent_run";
/// Says whether what is said is in spans: `true`, `span_only` or `span_and_event`.
pub const CAPTURE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// The run of a process.
pub(super) fn process(core: &Core) -> Span {
    let agent = &core.agent;
    let span = info_span!(
        target: TARGET,
        "invoke_agent",
        otel.name = format_args!("invoke_agent {}", agent.name),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.provider.name = "agent_run",
        gen_ai.agent.name = %agent.name,
        gen_ai.agent.description = Empty,
        gen_ai.conversation.id = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        agent_run.process.id = %core.id,
        agent_run.process.parent = Empty,
        agent_run.status = Empty,
        agent_run.goal = Empty,
        agent_run.cost_usd = Empty,
    );
    if let Some(description) = &agent.description {
        span.record("gen_ai.agent.description", display(description));
    }
    if agent.chat.is_some() {
        span.record("gen_ai.conversation.id", display(&core.id));
    }
    if let Some(parent) = &core.parent {
        span.record("agent_run.process.parent", display(parent));
    }
    span
}

/// The process has come to a halt.
pub(super) fn halted(span: &Span, process: &Process) {
    if span.is_disabled() {
        return;
    }
    let status = process.status();
    span.record("agent_run.status", status.word());
    let used = process.core().ledger.used();
    span.record("gen_ai.usage.input_tokens", used.input_tokens);
    span.record("gen_ai.usage.output_tokens", used.output_tokens);
    span.record("agent_run.cost_usd", used.cost_usd);
    let document = process.document();
    if let Some(goal) = &document.goal {
        span.record("agent_run.goal", display(goal));
    }
    if let Some((_, failure)) = process.failure().filter(|_| status != Status::Completed) {
        failed(span, failure);
    }
}

/// The search for a plan.
pub(super) fn planning(process: &Process) -> Span {
    let span = info_span!(
        target: TARGET,
        "plan",
        otel.kind = "internal",
        agent_run.planner = Empty,
        agent_run.plan.goal = Empty,
        agent_run.plan.steps = Empty,
        agent_run.plan.cost = Empty,
        agent_run.plan.decision = Empty,
    );
    if !span.is_disabled() {
        span.record("agent_run.planner", format!("{:?}", process.planner()).to_lowercase());
    }
    span
}

/// What was decided.
pub(super) fn decided(span: &Span, process: &Process, decision: &Decision) {
    if span.is_disabled() {
        return;
    }
    let word = match decision {
        Decision::Act(_, plan) => {
            if let Some(plan) = plan {
                let steps: Vec<usize> = plan.steps.iter().map(|step| step.action).collect();
                if let Some(goal) = process.goals.get(plan.goal) {
                    span.record("agent_run.plan.goal", display(&goal.name));
                }
                span.record("agent_run.plan.steps", process.action_names(&steps).join(", "));
                span.record("agent_run.plan.cost", plan.cost);
            }
            "act"
        }
        Decision::Ask(_) => "ask",
        Decision::Supervise | Decision::Nothing => "supervise",
        Decision::Done => "done",
        Decision::Stuck(_) => "stuck",
        Decision::Limit(_) => "limit",
        Decision::Wrong(_) => "wrong",
    };
    span.record("agent_run.plan.decision", word);
}

/// An action.
pub(super) fn action(action: &Action) -> Span {
    info_span!(
        target: TARGET,
        "action",
        otel.name = format_args!("action {}", action.name),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        agent_run.action.name = %action.name,
        agent_run.action.kind = action.body.kind(),
        agent_run.action.attempts = Empty,
    )
}

/// An action has ended.
pub(super) fn acted(span: &Span, attempts: u32, failure: Option<&Failure>) {
    span.record("agent_run.action.attempts", attempts);
    if let Some(failure) = failure {
        failed(span, failure);
    }
}

/// A request to a model. `told` is false where what is said is told to no one.
pub(super) fn chat(core: &Core, request: &Request, told: bool) -> Span {
    let options = &request.options;
    let span = info_span!(
        target: TARGET,
        "chat",
        otel.name = format_args!("chat {}", request.model),
        otel.kind = "client",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider(&request.provider),
        gen_ai.request.model = %request.model,
        gen_ai.request.temperature = options.temperature,
        gen_ai.request.top_p = options.top_p,
        gen_ai.request.top_k = options.top_k.map(f64::from),
        gen_ai.request.max_tokens = options.max_tokens,
        gen_ai.request.seed = options.seed,
        gen_ai.request.stop_sequences = Empty,
        gen_ai.request.stream = options.stream,
        gen_ai.output.type = if request.output.is_some() { "json" } else { "text" },
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        gen_ai.system_instructions = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        gen_ai.tool.definitions = Empty,
        agent_run.call = %request.name,
        agent_run.turn = request.turn as u64,
        agent_run.from_cache = Empty,
        agent_run.cost_usd = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    if !options.stop.is_empty() {
        list(&span, "gen_ai.request.stop_sequences", &options.stop);
    }
    if told && captures(core) {
        if let Some(system) = &request.system {
            record_json(&span, "gen_ai.system_instructions", &json!([{"type": "text", "content": system}]));
        }
        let messages: Vec<Value> = request.messages.iter().map(message).collect();
        record_json(&span, "gen_ai.input.messages", &Value::from(messages));
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters})
        });
        record_json(&span, "gen_ai.tool.definitions", &Value::from(tools.collect::<Vec<_>>()));
    }
    span
}

/// A model has answered.
pub(super) fn replied(span: &Span, core: &Core, reply: &Reply, cost_usd: f64, told: bool) {
    if span.is_disabled() {
        return;
    }
    let usage = &reply.usage;
    span.record("gen_ai.response.model", display(&reply.model));
    list(span, "gen_ai.response.finish_reasons", &[finish(&reply.finish).to_owned()]);
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    for (name, tokens) in [
        ("gen_ai.usage.cache_read.input_tokens", usage.cached_input_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
        ("gen_ai.usage.reasoning.output_tokens", usage.thinking_tokens),
    ] {
        if tokens > 0 {
            span.record(name, tokens);
        }
    }
    span.record("agent_run.from_cache", reply.from_cache);
    span.record("agent_run.cost_usd", cost_usd);
    if told && captures(core) {
        let mut said = message(&reply.to_message());
        said["finish_reason"] = finish(&reply.finish).into();
        record_json(span, "gen_ai.output.messages", &json!([said]));
    }
}

/// A call of a tool.
pub(super) fn tool(core: &Core, name: &str, description: &str, arguments: &serde_json::Map<String, Value>) -> Span {
    let span = info_span!(
        target: TARGET,
        "execute_tool",
        otel.name = format_args!("execute_tool {name}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = name,
        gen_ai.tool.type = "function",
        gen_ai.tool.description = description,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
    );
    if !span.is_disabled() && captures(core) {
        record_json(&span, "gen_ai.tool.call.arguments", &Value::Object(arguments.clone()));
    }
    span
}

/// A tool has answered.
pub(super) fn called(span: &Span, core: &Core, result: &Result<Value, Failure>) {
    match result {
        Err(failure) => failed(span, failure),
        Ok(value) if !span.is_disabled() && captures(core) => record_json(span, "gen_ai.tool.call.result", value),
        Ok(_) => {}
    }
}

/// Something failed; its kind alone is told, since a message may hold what was said.
pub(super) fn failed(span: &Span, failure: &Failure) {
    if !failure.is_waiting() {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", failure.kind.word());
    }
}

/// Whether what is said may be in spans.
fn captures(core: &Core) -> bool {
    let wanted = core.host.world().env(CAPTURE).unwrap_or_default().to_lowercase();
    matches!(wanted.as_str(), "true" | "1" | "span_only" | "span_and_event")
}

/// The provider by the name that the conventions have for it.
fn provider(name: &str) -> &str {
    match name {
        "gemini" => "gcp.gemini",
        "bedrock" => "aws.bedrock",
        "azure" => "azure.ai.openai",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        "" => "_OTHER",
        other => other,
    }
}

fn finish(finish: &Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_call",
        Finish::ContentFilter | Finish::Refusal(_) => "content_filter",
    }
}

/// A message in the form of the conventions.
fn message(message: &Message) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let parts: Vec<Value> = message
        .parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => json!({"type": "text", "content": text}),
            Part::Thinking { text, .. } => json!({"type": "reasoning", "content": text}),
            Part::ToolCall { id, name, arguments } => {
                json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments})
            }
            Part::ToolResult { id, content, .. } => {
                json!({"type": "tool_call_response", "id": id, "response": content})
            }
            // Pictures are large, and not what a trace is read for.
            Part::Image { .. } => json!({"type": "image"}),
        })
        .collect();
    json!({"role": role, "parts": parts})
}

fn record_json(span: &Span, field: &'static str, value: &Value) {
    span.record(field, display(value));
}

/// A list of texts. `tracing` has no lists, so that an exporter is given it past the span's fields.
fn list(span: &Span, field: &'static str, texts: &[String]) {
    #[cfg(feature = "otlp")]
    {
        use tracing_opentelemetry::OpenTelemetrySpanExt;
        let texts = texts.iter().map(|text| opentelemetry::StringValue::from(text.clone())).collect();
        span.set_attribute(field, opentelemetry::Value::Array(opentelemetry::Array::String(texts)));
    }
    #[cfg(not(feature = "otlp"))]
    span.record(field, display(json!(texts)));
}
