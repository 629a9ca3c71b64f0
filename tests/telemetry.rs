//! Traces over OTLP: a collector on the loopback decodes what the program sends. In builds with the feature `otlp`:
//! `cargo test --features otlp --test main telemetry`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::project::Project;

/// One field of a protobuf message: its number and what it holds.
#[derive(Clone, Debug)]
enum Held<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a protobuf message, in order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Held<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let held = match tag & 7 {
            0 => Held::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_at(8);
                bytes = rest;
                Held::Number(u64::from_le_bytes(number.try_into().expect("eight bytes")))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                let (inner, rest) = bytes.split_at(length);
                bytes = rest;
                Held::Bytes(inner)
            }
            5 => {
                let (number, rest) = bytes.split_at(4);
                bytes = rest;
                Held::Number(u64::from(u32::from_le_bytes(number.try_into().expect("four bytes"))))
            }
            other => panic!("no wire type {other}"),
        };
        found.push((tag >> 3, held));
    }
    found
}

fn inner(bytes: &[u8], number: u64) -> Vec<&[u8]> {
    let all = fields(bytes).into_iter();
    all.filter_map(|(at, held)| match held {
        Held::Bytes(bytes) if at == number => Some(bytes),
        _ => None,
    })
    .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An `AnyValue` as text.
fn value(bytes: &[u8]) -> String {
    match fields(bytes).first() {
        Some((1, Held::Bytes(bytes))) => text(bytes),
        Some((2, Held::Number(is))) => (*is != 0).to_string(),
        Some((3, Held::Number(number))) => number.to_string(),
        Some((4, Held::Number(bits))) => f64::from_bits(*bits).to_string(),
        Some((5, Held::Bytes(list))) => format!("{:?}", inner(list, 1).into_iter().map(value).collect::<Vec<_>>()),
        other => format!("{other:?}"),
    }
}

/// Keys and values of a list of `KeyValue`.
fn attributes(entries: Vec<&[u8]>) -> BTreeMap<String, String> {
    let pairs = entries.into_iter().map(|entry| (text(inner(entry, 1)[0]), value(inner(entry, 2)[0])));
    pairs.collect()
}

#[derive(Debug)]
struct Span {
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    name: String,
    kind: u64,
    attributes: BTreeMap<String, String>,
    service: String,
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(body: &[u8]) -> Vec<Span> {
    let mut found = Vec::new();
    for resource_spans in inner(body, 1) {
        let resource = inner(resource_spans, 1);
        let service = attributes(inner(resource[0], 1)).remove("service.name").unwrap_or_default();
        for span in inner(resource_spans, 2).into_iter().flat_map(|scope| inner(scope, 2)) {
            let bytes = |number| inner(span, number).first().map(|bytes| bytes.to_vec()).unwrap_or_default();
            let kind = fields(span).into_iter().find_map(|(at, held)| match held {
                Held::Number(kind) if at == 6 => Some(kind),
                _ => None,
            });
            found.push(Span {
                trace: bytes(1),
                id: bytes(2),
                parent: bytes(4),
                name: text(&bytes(5)),
                kind: kind.unwrap_or_default(),
                attributes: attributes(inner(span, 9)),
                service: service.clone(),
            });
        }
    }
    found
}

/// A collector: its address, and the path, headers and body of each request.
fn collector() -> (String, Receiver<(String, String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).expect("a body");
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            reader.get_mut().write_all(answer).expect("answered");
            if sender.send((path, head, body)).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

fn project(address: &str) -> Project {
    let script =
        "replies: [{when: {action: tell}, reply: {text: Grey}, usage: {input_tokens: 30, output_tokens: 7}}]\n";
    let workflow = "agent: weather
types: {Report: {text: string}}
inputs: UserInput
actions:
  tell: {inputs: UserInput, output: Report, llm: {stop: [END]}, prompt: 'Weather for {{ user_input.content }}'}
goals: {told: {output: Report}}
";
    Project::new()
        .file("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\n")
        .file("workflows/weather.yaml", workflow)
        .file("script.yaml", script)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=t1")
}

#[test]
fn a_run_arrives_at_a_collector_as_one_trace() {
    let (address, received) = collector();
    project(&address).run(&["run", "weather", "--script", "script.yaml", "Oslo"]).exits(0);
    let (path, head, body) = received.recv_timeout(Duration::from_secs(30)).expect("spans have come");
    assert_eq!(path, "/v1/traces");
    assert!(head.contains("application/x-protobuf") && head.contains("x-tenant: t1"), "{head}");
    let spans = spans(&body);
    let find = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"));
    let (run, action, chat) = (find("invoke_agent weather"), find("action tell"), find("chat gpt-4.1-mini"));
    assert_eq!(run.service, "agent-run");
    assert_eq!((&run.parent, &action.parent, &chat.parent), (&Vec::new(), &run.id, &action.id));
    assert!(!run.trace.is_empty() && spans.iter().all(|span| span.trace == run.trace));
    assert_eq!((run.kind, chat.kind), (1, 3), "internal and client");
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-4.1-mini"),
        ("gen_ai.request.stop_sequences", "[\"END\"]"),
        ("gen_ai.response.finish_reasons", "[\"stop\"]"),
        ("gen_ai.usage.input_tokens", "30"),
        ("gen_ai.usage.output_tokens", "7"),
    ] {
        assert_eq!(chat.attributes.get(key).map(String::as_str), Some(value), "{key}: {chat:#?}");
    }
    assert!(!String::from_utf8_lossy(&body).contains("Oslo"), "what was said is in no span");
}

#[test]
fn what_is_said_is_sent_when_it_is_wanted_and_a_service_has_its_name() {
    let (address, received) = collector();
    let project = project(&address)
        .env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        .env("OTEL_SERVICE_NAME", "desk");
    project.run(&["run", "weather", "--script", "script.yaml", "Oslo"]).exits(0);
    let (.., body) = received.recv_timeout(Duration::from_secs(30)).expect("spans have come");
    let spans = spans(&body);
    let chat = spans.iter().find(|span| span.name.starts_with("chat ")).expect("a call");
    assert_eq!(chat.service, "desk");
    assert!(chat.attributes["gen_ai.input.messages"].contains("Weather for Oslo"), "{chat:#?}");
    assert!(chat.attributes["gen_ai.output.messages"].contains("Grey"), "{chat:#?}");
}

#[test]
fn a_collector_that_is_not_there_costs_no_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    project(&address).run(&["run", "weather", "--script", "script.yaml", "Oslo"]).exits(0);
    let off = project("http://127.0.0.1:9").env("OTEL_SDK_DISABLED", "true");
    off.run(&["run", "weather", "--script", "script.yaml", "Oslo"]).exits(0);
}
