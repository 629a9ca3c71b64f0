//! What providers are sent, and what they are made to answer here, fits the schemas that they publish
//! (`providers/published/`): an unknown key, a missing one or a value of the wrong type is found without a key or a network.

use std::sync::Arc;

use agent_run::llm::{
    ImageSource, Message, NoSink, OutputSchema, Part, Picture, ProviderConfig, Reply, Request, Role, Thinking,
    ToolChoice, ToolSpec, build, structured,
};
use serde_json::{Value, json};

use crate::providers::{WIRES, Wire, ask};
use crate::support::mock_llm::{Answer, MockLlm};
use crate::support::published::{Published, complaints};
use crate::transcripts::conversation;

/// The bytes of a very small picture.
const PNG: &str = "iVBORw0KGgo=";

/// The forms of outputs: an object, a list and a choice (in an envelope), and a map, which no strict mode says.
fn outputs() -> Vec<OutputSchema> {
    let number = json!({"type": "integer", "minimum": 1, "maximum": 9, "description": "How many"});
    let things = json!({
        "type": "object", "required": ["items"], "additionalProperties": false,
        "properties": {
            "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "minItems": 1},
            "note": {"type": "string"}, "sign": {"enum": ["leo", "virgo"]}, "level": {"anyOf": [number, {"type": "null"}]}
        },
        "$defs": {"Item": {"type": "object", "required": ["name"], "additionalProperties": false,
            "properties": {"name": {"type": "string", "maxLength": 20}, "at": {"type": "string", "format": "date-time"}}}}
    });
    let closed = |kind: &str| json!({"type": "object", "required": ["type"], "additionalProperties": false, "properties": {"type": {"const": kind}, "size": {"type": "number"}}});
    let choice = json!({"oneOf": [closed("Cat"), closed("Dog"), {"type": "null"}]});
    let list = json!({"type": "array", "items": {"type": "string"}});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let named = [("Things", things), ("Pet", choice), ("Names", list), ("Tags", map)];
    named.into_iter().map(|(name, schema)| OutputSchema::native(name, schema)).collect()
}

/// Tools with parameters of several forms: all that a schema says, none, and what no strict mode says.
fn tools() -> Vec<ToolSpec> {
    let tool =
        |name: &str, parameters: Value| ToolSpec { name: name.into(), description: "Does it".into(), parameters };
    let map = json!({"type": "object", "properties": {"tags": {"type": "object", "additionalProperties": {"type": "string"}}}});
    vec![
        tool("get_forecast", outputs()[0].schema.clone()),
        tool("now", json!({"type": "object", "properties": {}})),
        tool("tag", map),
    ]
}

/// Requests that use all that a request can say: pictures, tools, structured output, settings, and what came back.
/// `urls`: pictures go by their addresses too.
fn requests(replies: &[Reply], urls: bool) -> Vec<Request> {
    let image = |source: ImageSource| Part::Image { mime: "image/png".into(), source };
    let mut parts = vec![Part::text("What is this?"), image(ImageSource::Data(PNG.into()))];
    parts.extend(urls.then(|| image(ImageSource::Url("https://example.com/cat.png".into()))));
    let asked = Message { role: Role::User, parts };
    let mut plain =
        Request { model: "m".into(), system: Some("Be brief.".into()), messages: vec![asked], ..Request::default() };
    let mut all = vec![plain.clone()];
    plain.output = outputs().into_iter().next();
    let thinking = ["minimal", "low", "medium", "high"].map(|effort| Thinking::Effort(effort.into()));
    let thinking = thinking.into_iter().chain([Thinking::Budget(2_000), Thinking::Off]).map(Some);
    for (at, thinking) in [None].into_iter().chain(thinking).enumerate() {
        let mut request = plain.clone();
        request.options.stream = at % 2 == 1;
        request.options.cache = Some(at % 2 == 1);
        request.options.thinking = thinking;
        request.options.max_tokens = Some(2_000);
        request.options.stop = vec!["END".into()];
        if at == 0 {
            request.options.temperature = Some(0.5);
            request.options.top_p = Some(0.9);
            request.options.top_k = Some(20);
            request.options.seed = Some(7);
        }
        all.push(request);
    }
    for output in outputs() {
        all.push(Request { output: Some(output.clone()), ..plain.clone() });
        all.push(Request { output: Some(output), tools: tools(), ..plain.clone() });
    }
    for choice in [
        None,
        Some(ToolChoice::Auto),
        Some(ToolChoice::Required),
        Some(ToolChoice::None),
        Some(ToolChoice::Tool("now".into())),
    ] {
        all.push(loop_of(&plain, replies, choice));
    }
    all
}

/// A loop of tools: each reply, and after it what its calls gave.
fn loop_of(first: &Request, replies: &[Reply], choice: Option<ToolChoice>) -> Request {
    let mut request = first.clone();
    request.tools = tools();
    request.options.parallel_tool_calls = Some(choice.is_none());
    request.options.tool_choice = choice;
    for reply in replies {
        request.messages.push(reply.to_message());
        let picture = Picture { mime: "image/png".into(), data: PNG.into() };
        let result = |(id, name, _): (&str, &str, &Value)| Part::ToolResult {
            id: id.into(),
            name: name.into(),
            content: if name == "now" { String::new() } else { "sunny".into() },
            is_error: name == "now",
            pictures: if name == "now" { Vec::new() } else { vec![picture.clone()] },
        };
        let results: Vec<Part> = reply.tool_calls().map(result).collect();
        request.messages.push(match results.is_empty() {
            true => Message::user("Go on"),
            false => Message::tool_results(results),
        });
    }
    request
}

/// The replies of a wire to these cases.
async fn replies(wire: &Wire, cases: &[&str]) -> Vec<Reply> {
    let server = MockLlm::answering(cases.iter().map(|case| wire.answer(case, true)).collect()).await;
    let llm = wire.provider(&server.url(), None);
    let mut replies = Vec::new();
    for case in cases {
        replies.push(llm.call(&ask(true), &NoSink).await.unwrap_or_else(|error| panic!("{case}: {error}")));
    }
    replies
}

/// Models whose requests differ: an unknown one, and some of which the catalog knows how they think.
const MODELS: &[&str] = &[
    "m",
    "gemini-2.5-flash",
    "gemini-3-pro-preview",
    "claude-opus-4-6",
    "claude-opus-4-7",
    "claude-haiku-4-5",
    "anthropic.claude-opus-5-5",
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "gpt-4.1-mini",
    "gpt-5",
    "gpt-5.1",
    "gpt-oss:20b",
];

#[tokio::test]
async fn every_request_fits_the_published_schema_of_its_provider() {
    // What another provider thought is sent to none.
    let mut all = Vec::new();
    for wire in WIRES {
        all.extend(replies(wire, &["thinking", "tools"]).await);
    }
    let mut wrong = Vec::new();
    for wire in WIRES {
        let published = Published::of(wire.name);
        let validators = [published.request(false), published.request(true)];
        let own = replies(wire, &["thinking", "tools"]).await;
        let llm = wire.provider("http://127.0.0.1:9", None);
        // The address of OpenAI's own, too: it is spoken to strictly.
        let config = ProviderConfig {
            kind: wire.kind.into(),
            api: (wire.name == "responses").then(|| "responses".into()),
            ..ProviderConfig::default()
        };
        let at_home = build(wire.kind, &config, Arc::default()).expect("a provider");
        let config = ProviderConfig {
            api_version: Some("2024-10-21".into()),
            base_url: Some("https://name.openai.azure.com".into()),
            ..config
        };
        let azure = build(wire.kind, &config, Arc::default()).expect("a provider");
        let urls = !["bedrock", "ollama"].contains(&wire.name);
        let mut spoken = vec![(&llm, &own, true), (&llm, &all, true), (&at_home, &own, false)];
        spoken.extend((wire.kind == "openai").then_some((&azure, &own, false)));
        for (llm, replies, elsewhere) in spoken {
            for request in requests(replies, urls) {
                for model in MODELS {
                    let mut placed = Request { model: (*model).into(), ..request.clone() };
                    structured::place_output(&**llm, &mut placed);
                    let mut sent = llm.wire(&placed);
                    if wire.name == "openai" && elsewhere {
                        // Servers of open models know it, OpenAI does not.
                        sent.as_object_mut().and_then(|body| body.remove("top_k"));
                    }
                    let found = complaints(&validators[usize::from(request.options.stream)], &sent);
                    wrong.extend(found.into_iter().map(|found| format!("{} {model}: {found}", wire.name)));
                }
            }
        }
        let thought = llm.wire(&loop_of(&ask(false), &own, None)).to_string();
        let proofs = thought.matches("EqQB").count() + thought.matches("gAAAA==").count();
        assert_eq!(proofs, usize::from(wire.signs), "{}: {thought}", wire.name);
    }
    wrong.sort();
    wrong.dedup();
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
}

/// No schema says which model refuses what.
#[test]
fn newer_models_of_claude_are_sent_no_sampling_settings() {
    for (kind, model, takes) in [
        ("anthropic", "claude-sonnet-4-5", true),
        ("anthropic", "claude-opus-4-7", false),
        ("bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", true),
        ("bedrock", "eu.anthropic.claude-opus-5-5", false),
        ("bedrock", "amazon.nova-lite-v1:0", true),
    ] {
        let config = ProviderConfig { kind: kind.into(), ..ProviderConfig::default() };
        let llm = build(kind, &config, Arc::default()).expect("a provider");
        let mut request = Request { model: model.into(), ..ask(false) };
        (request.options.temperature, request.options.top_k) = (Some(0.5), Some(20));
        let sent = llm.wire(&request).to_string();
        assert_eq!(sent.contains("temperature"), takes, "{model}: {sent}");
        assert_eq!(sent.contains("top_k"), takes && model.contains("claude"), "{model}: {sent}");
    }
}

#[tokio::test]
async fn embeddings_are_asked_for_as_published() {
    for wire in WIRES.iter().filter(|wire| ["openai", "gemini", "ollama"].contains(&wire.name)) {
        let published = Published::of(wire.name);
        let whole = wire.cassette("embed")["whole"].clone();
        assert_eq!(complaints(&published.root("embed reply"), &whole), [""; 0], "{}", wire.name);
        let server = MockLlm::answering(vec![Answer::json(200, &whole)]).await;
        let texts = ["pong".to_owned(), "ping".to_owned()];
        let embedded = wire.provider(&server.url(), None).embed("m", &texts).await.expect("vectors");
        assert_eq!(embedded.vectors, [[0.25, -0.5, 1.0], [0.0, 0.5, 0.125]], "{}", wire.name);
        let sent = &server.received()[0];
        assert_eq!(complaints(&published.root("embed request"), &sent.body), [""; 0], "{}", wire.name);
    }
}

/// Answers are written by hand, so they could be wrong in the same way as what reads them.
#[test]
fn the_answers_of_these_tests_are_such_as_providers_say_they_give() {
    let mut wrong = Vec::new();
    for wire in WIRES {
        let published = Published::of(wire.name);
        let (reply, event) = (published.root("reply"), published.root("event"));
        let mut check = |case: &str, whole: &Value, events: &[Value]| {
            let found = complaints(&reply, &without_extensions(wire.name, whole));
            wrong.extend(found.into_iter().map(|found| format!("{} {case} whole: {found}", wire.name)));
            for (at, one) in events.iter().enumerate() {
                let found = complaints(&event, &without_extensions(wire.name, &published.event(one)));
                wrong.extend(found.into_iter().map(|found| format!("{} {case} event {at}: {found}", wire.name)));
            }
        };
        for case in ["text", "tools", "thinking", "length", "refusal", "empty"] {
            if case != "refusal" || wire.refuses {
                let cassette = wire.cassette(case);
                check(case, &cassette["whole"], cassette["stream"].as_array().expect("events"));
            }
        }
        for said in conversation() {
            check(&format!("turn {}", said.turn), &said.whole(wire.name), &said.events(wire.name));
        }
    }
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
}

/// Takes out what servers are known to send beside what is published.
fn without_extensions(wire: &str, answer: &Value) -> Value {
    fn without(answer: &mut Value, places: &[&str], key: &str) {
        for place in places {
            if let Some(object) = answer.pointer_mut(place).and_then(Value::as_object_mut) {
                object.remove(key);
            }
        }
    }
    let mut answer = answer.clone();
    match wire {
        // A sign of life, which the page on streaming tells of and the SDK has no type for.
        "anthropic" if answer["type"] == "ping" => return json!({"type": "message_stop"}),
        // Padding, so that the length of a piece does not tell its text.
        "bedrock" => without(&mut answer, &["/messageStart", "/contentBlockDelta"], "p"),
        // The number of a call.
        "ollama" => {
            without(&mut answer, &["/message/tool_calls/0/function", "/message/tool_calls/1/function"], "index")
        }
        // Thoughts, as servers that resemble OpenAI show them.
        "openai" => without(&mut answer, &["/choices/0/message", "/choices/0/delta"], "reasoning_content"),
        _ => {}
    }
    answer
}

/// Every schema refuses what is misspelt, of the wrong type, or lacking; else this file would show nothing.
#[tokio::test]
async fn a_wrong_key_a_wrong_type_and_a_lacking_key_are_found() {
    type Spoil = fn(&mut Value);
    fn put(body: &mut Value, place: &str, key: &str, value: Value) {
        let object = body.pointer_mut(place).and_then(Value::as_object_mut);
        object.unwrap_or_else(|| panic!("nothing at {place}")).insert(key.into(), value);
    }
    fn drop(body: &mut Value, place: &str, key: &str) {
        let dropped = body.pointer_mut(place).and_then(Value::as_object_mut).and_then(|object| object.remove(key));
        assert!(dropped.is_some(), "no {key} at {place}");
    }
    let spoilt: &[(&str, &[Spoil])] = &[
        (
            "anthropic",
            &[
                |body| put(body, "", "maxTokens", json!(5)),
                |body| put(body, "", "max_tokens", json!("many")),
                |body| drop(body, "", "max_tokens"),
                |body| put(body, "/tools/0", "inputSchema", json!({})),
                |body| put(body, "/messages/0/content/1/source", "media_type", json!("image/bmp")),
                |body| put(body, "/tool_choice", "type", json!("required")),
                |body| put(body, "/output_config/format", "type", json!("json")),
            ],
        ),
        (
            "bedrock",
            &[
                |body| put(body, "", "max_tokens", json!(5)),
                |body| put(body, "/inferenceConfig", "temperature", json!(2)),
                |body| drop(body, "/toolConfig/tools/0/toolSpec", "inputSchema"),
                |body| put(body, "/messages/0/content/1/image", "format", json!("image/png")),
                |body| put(body, "/messages/0/content/0", "image", json!({})),
                |body| put(body, "/toolConfig/toolChoice", "any", json!({})),
            ],
        ),
        (
            "gemini",
            &[
                |body| put(body, "", "generation_config", json!({})),
                |body| put(body, "/generationConfig", "thinkingLevel", json!("LOW")),
                |body| put(body, "/generationConfig", "topP", json!("0.5")),
                |body| put(body, "/contents/0/parts/0", "inlineData", json!({"mimeType": "image/png", "data": "AA=="})),
                |body| put(body, "/toolConfig/functionCallingConfig", "mode", json!("REQUIRED")),
                |body| drop(body, "/tools/0/functionDeclarations/0", "name"),
                |body| put(body, "/tools/0/functionDeclarations/0/parameters", "type", json!("object")),
            ],
        ),
        (
            "ollama",
            &[
                |body| put(body, "", "tool", json!([])),
                |body| put(body, "", "stream", json!("yes")),
                |body| drop(body, "", "model"),
                |body| put(body, "/messages/0", "image", json!("AA==")),
                |body| put(body, "/options", "num_context", json!(4096)),
                |body| put(body, "/options", "stop", json!("END")),
            ],
        ),
        (
            "openai",
            &[
                |body| put(body, "", "max_token", json!(5)),
                |body| put(body, "", "seed", json!("seven")),
                |body| drop(body, "", "messages"),
                |body| put(body, "/tools/0", "strict", json!(true)),
                |body| put(body, "/messages/1/content/1", "image_url", json!("https://example.com")),
                |body| put(body, "", "tool_choice", json!("any")),
                |body| put(body, "/response_format/json_schema", "strict", json!("yes")),
            ],
        ),
        (
            "responses",
            &[
                |body| put(body, "", "messages", json!([])),
                |body| put(body, "", "max_tokens", json!(5)),
                |body| put(body, "/tools/0", "function", json!({})),
                |body| put(body, "/input/0/content/0", "type", json!("text")),
                |body| put(body, "/text/format", "json_schema", json!({})),
                |body| drop(body, "/tools/0", "strict"),
            ],
        ),
    ];
    for (name, spoil) in spoilt {
        let wire = WIRES.iter().find(|wire| wire.name == *name).expect("a wire");
        let config = ProviderConfig {
            kind: wire.kind.into(),
            api: (wire.name == "responses").then(|| "responses".into()),
            ..ProviderConfig::default()
        };
        let llm = build(wire.kind, &config, Arc::default()).expect("a provider");
        let replies = replies(wire, &["tools"]).await;
        let mut request = requests(&replies, false).remove(1);
        request.model = "anthropic.claude-sonnet-4-5-20250929-v1:0".into();
        request.options.thinking = None;
        request.tools = tools();
        request.options.tool_choice = Some(ToolChoice::Tool("now".into()));
        let validator = Published::of(name).request(false);
        let mut sent = llm.wire(&request);
        if *name == "ollama" {
            assert!(sent.get("format").is_none(), "{sent}");
        }
        assert_eq!(complaints(&validator, &sent), [""; 0], "{name}: {sent}");
        for (at, spoil) in spoil.iter().enumerate() {
            let good = sent.clone();
            spoil(&mut sent);
            assert!(!complaints(&validator, &sent).is_empty(), "{name} {at}: {sent}");
            sent = good;
        }
    }
}
