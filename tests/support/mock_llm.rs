//! A server on loopback that plays a model provider, and misbehaves as real ones do.
//!
//! Minimal HTTP/1.1 over tokio: one task for each connection, keep-alive, bodies by `Content-Length`. What it answers is
//! a function of what came; what came is kept for assertions. It ends when it is dropped.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Which request of this server it is, from 0.
    pub(crate) number: usize,
    /// The path with its query.
    pub(crate) path: String,
    /// Names in lower case, in the order they came.
    pub(crate) headers: Vec<(String, String)>,
    /// The body's text, byte for byte.
    pub(crate) text: String,
    /// The body; null when it is no JSON.
    pub(crate) body: Value,
}

impl Received {
    /// The first header of that name (in lower case).
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// How an answer's bytes reach the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// At once.
    Whole,
    /// In writes of so many bytes.
    Pieces(usize),
    /// So many bytes of the body, then the connection is closed.
    Cut(usize),
    /// So many bytes of the body, then nothing more comes, and the connection stays open.
    Stall(usize),
    /// The connection is closed before a single byte.
    Reset,
}

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    delivery: Delivery,
}

impl Answer {
    /// Any bytes.
    pub(crate) fn bytes(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Answer {
        let headers = vec![("content-type".to_string(), content_type.to_string())];
        Answer { status, headers, body: body.into(), delivery: Delivery::Whole }
    }

    /// JSON.
    pub(crate) fn json(status: u16, body: &Value) -> Answer {
        Answer::bytes(status, "application/json", body.to_string())
    }

    /// A stream of `data:` events without names, as OpenAI sends it; `[DONE]` is added.
    pub(crate) fn openai_stream(chunks: &[Value]) -> Answer {
        let data: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        Answer::bytes(200, "text/event-stream; charset=utf-8", format!("{data}data: [DONE]\n\n"))
    }

    /// A stream of named events, as Anthropic sends it: the name is each event's `type`.
    pub(crate) fn anthropic_stream(events: &[Value]) -> Answer {
        let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_string();
        let data: String = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", name(event))).collect();
        Answer::bytes(200, "text/event-stream; charset=utf-8", data)
    }

    /// A whole OpenAI reply of text.
    pub(crate) fn openai_text(text: &str) -> Answer {
        let message = json!({"role": "assistant", "content": text});
        Answer::json(
            200,
            &json!({"id": "chatcmpl-1", "object": "chat.completion", "model": "mock-1",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}),
        )
    }

    /// A whole Anthropic reply of text.
    pub(crate) fn anthropic_text(text: &str) -> Answer {
        Answer::json(
            200,
            &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "mock-1",
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                "usage": {"input_tokens": 10, "output_tokens": 5}}),
        )
    }

    /// Answers in the form of the path that was asked: OpenAI's or Anthropic's, streamed where the request asks for it.
    pub(crate) fn text_for(received: &Received, text: &str) -> Answer {
        let streamed = received.body["stream"] == true;
        match (received.path.ends_with("/messages"), streamed) {
            (true, false) => Answer::anthropic_text(text),
            (false, false) => Answer::openai_text(text),
            (true, true) => Answer::anthropic_stream(&[
                json!({"type": "message_start", "message": {"model": "mock-1", "usage": {"input_tokens": 10, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
                json!({"type": "message_stop"}),
            ]),
            (false, true) => Answer::openai_stream(&[
                json!({"model": "mock-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}),
                json!({"model": "mock-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
                json!({"model": "mock-1", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}),
            ]),
        }
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }

    /// Writes the answer in pieces of `bytes`, each flushed.
    pub(crate) fn in_pieces(self, bytes: usize) -> Answer {
        Answer { delivery: Delivery::Pieces(bytes.max(1)), ..self }
    }

    /// Closes the connection after `bytes` of the body.
    pub(crate) fn cut_after(self, bytes: usize) -> Answer {
        Answer { delivery: Delivery::Cut(bytes), ..self }
    }

    /// Sends `bytes` of the body and then nothing more.
    pub(crate) fn stall_after(self, bytes: usize) -> Answer {
        Answer { delivery: Delivery::Stall(bytes), ..self }
    }

    /// Closes the connection without an answer.
    pub(crate) fn reset() -> Answer {
        Answer { delivery: Delivery::Reset, ..Answer::bytes(200, "text/plain", "") }
    }
}

/// A frame of Amazon's event stream, with headers of text.
pub(crate) fn event_frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
    };
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(name.len() as u8);
        head.extend(name.as_bytes());
        head.push(7);
        head.extend((value.len() as u16).to_be_bytes());
        head.extend(value.as_bytes());
    }
    let total = 12 + head.len() + payload.len() + 4;
    let mut frame = [(total as u32).to_be_bytes(), (head.len() as u32).to_be_bytes()].concat();
    frame.extend(crc(&frame).to_be_bytes());
    frame.extend(head);
    frame.extend(payload);
    frame.extend(crc(&frame).to_be_bytes());
    frame
}

type Script = dyn Fn(&Received) -> Answer + Send + Sync;

/// The server.
pub(crate) struct MockLlm {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    connections: watch::Sender<Connections>,
    task: tokio::task::JoinHandle<()>,
}

/// What is connected.
#[derive(Default)]
struct Connections {
    open: usize,
    ended: HashSet<SocketAddr>,
}

impl MockLlm {
    /// Starts a server that answers as `script` says.
    pub(crate) async fn start(script: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> MockLlm {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let received = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let kept = received.clone();
        let connections = watch::Sender::default();
        let counts: watch::Sender<Connections> = connections.clone();
        let task = tokio::spawn(async move {
            let mut tasks = tokio::task::JoinSet::new();
            while let Ok((stream, peer)) = listener.accept().await {
                // Without this, an answer's second write waits for the client's delayed acknowledgement of the first.
                let _ = stream.set_nodelay(true);
                counts.send_modify(|counts| counts.open += 1);
                let (script, kept, counts) = (script.clone(), kept.clone(), counts.clone());
                tasks.spawn(async move {
                    serve(stream, script, kept).await;
                    counts.send_modify(|counts| {
                        counts.open -= 1;
                        counts.ended.insert(peer);
                    });
                });
            }
        });
        MockLlm { address, received, connections, task }
    }

    /// How many connections are open now.
    pub(crate) fn open(&self) -> usize {
        self.connections.borrow().open
    }

    /// Waits until all that clients had sent before they ended has been received, but for `idle` connections that stay.
    pub(crate) async fn settled(&self, idle: usize) {
        // Connections are taken in their order: once this one was, all before it were.
        let mark = TcpStream::connect(self.address).await.expect("the server listens");
        let own = mark.local_addr().expect("a connection has an address");
        drop(mark);
        let mut connections = self.connections.subscribe();
        let is_done = |counts: &Connections| counts.open <= idle && counts.ended.contains(&own);
        connections.wait_for(is_done).await.expect("the server runs");
    }

    /// Starts a server that gives these answers in turn, the last one for ever.
    pub(crate) async fn answering(answers: Vec<Answer>) -> MockLlm {
        MockLlm::start(move |received| answers[received.number.min(answers.len() - 1)].clone()).await
    }

    /// The base URL, without a path.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What came so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for MockLlm {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, script: Arc<Script>, kept: Arc<Mutex<Vec<Received>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(mut received) = read_request(&mut stream).await {
        let answer = {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            received.number = kept.len();
            kept.push(received.clone());
            drop(kept);
            script(&received)
        };
        if !matches!(write_answer(stream.get_mut(), &answer).await, Ok(true)) {
            return;
        }
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_string();
    let header =
        |line: &str| line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()));
    let headers: Vec<_> = lines.filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Some(Received { number: 0, path, headers, text, body })
}

/// Writes the answer; `false` when the connection must end.
async fn write_answer(stream: &mut TcpStream, answer: &Answer) -> std::io::Result<bool> {
    if answer.delivery == Delivery::Reset {
        return Ok(false);
    }
    let mut head = format!("HTTP/1.1 {} Mock\r\ncontent-length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    match answer.delivery {
        Delivery::Whole | Delivery::Reset => stream.write_all(&answer.body).await?,
        Delivery::Pieces(bytes) => {
            for piece in answer.body.chunks(bytes) {
                stream.write_all(piece).await?;
                stream.flush().await?;
                // Lets the client read this piece before the next one comes.
                tokio::task::yield_now().await;
            }
        }
        Delivery::Cut(bytes) => {
            stream.write_all(&answer.body[..bytes.min(answer.body.len())]).await?;
            stream.flush().await?;
            return Ok(false);
        }
        Delivery::Stall(bytes) => {
            stream.write_all(&answer.body[..bytes.min(answer.body.len())]).await?;
            stream.flush().await?;
            std::future::pending::<()>().await;
        }
    }
    stream.flush().await?;
    Ok(true)
}
