//! A server that answers every request with the same bytes, as fast as loopback carries them.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The server: one thread, one task for each connection. It lives as long as the program.
pub(crate) struct FastServer {
    address: SocketAddr,
}

impl FastServer {
    /// Starts a server whose model answers `text` to everything, in the form of OpenAI's chat completions.
    pub(crate) fn answering(text: &str) -> FastServer {
        let body = serde_json::json!({
            "id": "chatcmpl-1", "object": "chat.completion", "model": "mock-1",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        });
        let body = body.to_string();
        let length = body.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        let answer: &'static [u8] = answer.into_bytes().leak();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        listener.set_nonblocking(true).expect("a socket can be non-blocking");
        let address = listener.local_addr().expect("a bound listener has an address");
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(accept(listener, answer));
        });
        FastServer { address }
    }

    /// The base URL of its API.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

async fn accept(listener: std::net::TcpListener, answer: &'static [u8]) {
    let listener = TcpListener::from_std(listener).expect("inside a runtime");
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(serve(stream, answer));
    }
}

/// Reads requests one after the other and answers each in one write.
async fn serve(mut stream: TcpStream, answer: &'static [u8]) {
    let mut buffer = Vec::with_capacity(8 * 1024);
    loop {
        while let Some(length) = request_length(&buffer).filter(|length| buffer.len() >= *length) {
            buffer.drain(..length);
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}

/// How long the request at the start of the buffer is, once its head is there.
fn request_length(buffer: &[u8]) -> Option<usize> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..head]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some(head + length.unwrap_or(0))
}
