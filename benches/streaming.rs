//! What a reply's first token costs on its way: `cargo bench --bench streaming`. Figures and their meaning:
//! `docs/performance.md`.
//!
//! A model server on the loopback writes the first piece of a streamed reply and notes when. The engine's observer notes
//! when the event of that piece comes. What lies between is the loopback, the HTTP client, and what agent-run adds: the
//! frame found, its JSON read, the guardrails asked whether it may be told, the event made. The same piece read by hand
//! with the same HTTP client, as bytes, says what the first two cost.

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agent_run::compile::{Entry, compile};
use agent_run::engine::{Engine, Input, RunOptions};
use agent_run::process::{Event, Status, What};
use agent_run::world::MemoryWorld;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Replies that are measured, and those before them that are not.
const REPLIES: usize = 2_000;
const WARM_UP: usize = 200;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const PIECE: &str = r#"data: {"id":"c","object":"chat.completion.chunk","model":"mock-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Nobody had closed "}}]}"#;
const REST: &str = concat!(
    r#"data: {"id":"c","object":"chat.completion.chunk","model":"mock-1","choices":[{"index":0,"delta":{"content":"the window."},"finish_reason":"stop"}]}"#,
    "\n\ndata: [DONE]\n\n"
);

/// When the server wrote the last first piece.
type Written = Arc<Mutex<Option<Instant>>>;

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A server of one thread that streams the same reply to every request; gives the base URL of its API.
fn server(written: Written) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.set_nonblocking(true).expect("a socket can be non-blocking");
    let url = format!("http://{}/v1", listener.local_addr().expect("a bound listener has an address"));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("inside a runtime");
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream, written.clone()));
            }
        });
    });
    url
}

async fn serve(mut stream: TcpStream, written: Written) {
    let piece = chunk(&format!("{PIECE}\n\n"));
    let rest = format!("{}0\r\n\r\n", chunk(REST));
    let mut buffer = Vec::with_capacity(8 * 1024);
    loop {
        let head = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        let length = head.map(|head| {
            let text = String::from_utf8_lossy(&buffer[..head]).to_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            head + 4 + length.unwrap_or(0)
        });
        if let Some(length) = length.filter(|length| buffer.len() >= *length) {
            buffer.drain(..length);
            if stream.write_all(HEAD.as_bytes()).await.is_err() {
                return;
            }
            // The model thinks; the head has arrived by then.
            tokio::time::sleep(Duration::from_millis(1)).await;
            *written.lock().expect("no panic") = Some(Instant::now());
            if stream.write_all(piece.as_bytes()).await.is_err() || stream.write_all(rest.as_bytes()).await.is_err() {
                return;
            }
            continue;
        }
        if !matches!(stream.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}

fn engine(url: &str) -> Engine {
    let project = format!(
        "providers:\n  local: {{kind: openai, base_url: \"{url}\"}}\nmodels: {{default: local/mock-1}}\nlimits: {{llm_calls: 10}}\n"
    );
    let workflow = "agent: go_on\ninputs: UserInput\ntypes: {Line: string}\nactions:\n  write: {inputs: UserInput, output: \
                    Line, prompt: \"{{ user_input.content }}\"}\ngoals: {done: {output: Line}}\n";
    let world = MemoryWorld::with_files([("agent-run.yaml", project.as_str()), ("workflows/go_on.yaml", workflow)]);
    let compiled = compile(&world, Entry::File("workflows/go_on.yaml".into()));
    let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    Engine::new(program, Arc::new(world))
}

fn since(written: &Written, came: Instant) -> Duration {
    let written = written.lock().expect("no panic").take().expect("it was written");
    came.saturating_duration_since(written)
}

/// From the write to the event of the piece, in a run.
async fn in_a_run(engine: &Engine, written: &Written) -> Duration {
    let came: Arc<Mutex<Option<Instant>>> = Arc::default();
    let noted = came.clone();
    let observer = move |event: &Event| {
        if matches!(event.what, What::LlmDelta { .. }) {
            noted.lock().expect("no panic").get_or_insert_with(Instant::now);
        }
    };
    let options = RunOptions { observer: Some(Arc::new(observer)), stream: true, ..RunOptions::default() };
    let mut process =
        engine.start("go_on", vec![Input::Text("It was a dark night".into())], options).expect("it starts");
    assert_eq!(process.run().await, Status::Completed, "{:?}", process.failure());
    let came = came.lock().expect("no panic").expect("a piece has come");
    since(written, came)
}

/// From the write to the bytes of the piece, by hand.
async fn by_hand(client: &reqwest::Client, url: &str, written: &Written) -> Duration {
    let body = serde_json::json!({"model": "mock-1", "stream": true, "messages": []});
    let mut answer = client.post(url).json(&body).send().await.expect("the server answers");
    let first = answer.chunk().await.expect("a piece").map(|_| Instant::now()).expect("not the end");
    while answer.chunk().await.expect("the rest").is_some() {}
    since(written, first)
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
    println!(
        "{what:<28} fastest {:>7.1} µs   median {:>7.1} µs   99 of 100 below {:>7.1} µs",
        at(0.0),
        at(0.5),
        at(0.99)
    );
}

fn main() {
    let written = Written::default();
    let url = server(written.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client =
        agent_run::llm::client_builder().tls_certs_only(std::iter::empty()).no_proxy().build().expect("a client");
    let (engine, address) = (engine(&url), format!("{url}/chat/completions"));
    runtime.block_on(async {
        let (mut hand, mut run) = (Vec::new(), Vec::new());
        // By turns, so that what else the machine does falls on both.
        for number in 0..WARM_UP + REPLIES {
            let times = (by_hand(&client, &address, &written).await, in_a_run(&engine, &written).await);
            if number >= WARM_UP {
                hand.push(times.0);
                run.push(times.1);
            }
        }
        show("a piece, read by hand", hand);
        show("a piece, as an event", run);
    });
}
