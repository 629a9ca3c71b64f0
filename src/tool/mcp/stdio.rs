//! A server as a child process: started without a shell in a cleared environment, one JSON-RPC message a line, its
//! error output kept for messages, its whole process group killed with it.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::llm::Secret;

use super::RESULT_BYTES_MAX;

/// The variable that a server finds in its environment when `env` does not name it: where programs are.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How many of the last lines of its error output a message shows.
const ERROR_LINES: usize = 8;
/// The longest line of it that is kept, in bytes.
const ERROR_LINE_BYTES: usize = 400;
/// How much of the beginning and end of a message that is too long is looked through for its id.
const ID_WITHIN: usize = 512;

/// The last lines that a server wrote to its error output.
#[derive(Clone, Debug, Default)]
pub(super) struct ErrorLines(Arc<Mutex<VecDeque<String>>>);

impl ErrorLines {
    fn push(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        if line.is_empty() {
            return;
        }
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == ERROR_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The lines, oldest first.
    pub(super) fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Kills a server with all that it started, when it is dropped.
#[derive(Debug)]
pub(super) struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // An error means that nothing of the group is left.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// A server that was started.
pub(super) struct Started {
    pub(super) pipes: Pipes,
    pub(super) group: Group,
    pub(super) errors: ErrorLines,
    /// Ends when the error output does; what it gathered is complete then.
    pub(super) reading: tokio::task::JoinHandle<()>,
    pub(super) child: Child,
}

/// Starts the program of a server.
pub(super) fn start(command: &[Secret], env: &[(String, Secret)], cwd: &Path) -> Result<Started, String> {
    let mut words = command.iter().map(Secret::expose);
    let program = words.next().unwrap_or_default();
    let mut spawn = Command::new(program);
    spawn.args(words).env_clear().env("PATH", PATH).envs(env.iter().map(|(name, value)| (name, value.expose())));
    if !cwd.as_os_str().is_empty() {
        spawn.current_dir(cwd);
    }
    spawn.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
    let mut child = spawn.spawn().map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no program `{program}` where programs are looked for (its environment is only what `env` says; \
             give the program's full path, or `env: {{PATH: \"${{env:PATH}}\"}}`)"
        ),
        _ => format!("`{program}` cannot be run: {why}"),
    })?;
    let group = Group(child.id());
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(format!("`{program}` has no pipes"));
    };
    let errors = ErrorLines::default();
    let reading = tokio::spawn(read_errors(stderr, errors.clone()));
    let pipes = Pipes {
        stdin: Arc::new(tokio::sync::Mutex::new(Some(stdin))),
        stdout: BufReader::new(stdout),
        line: Line::default(),
    };
    Ok(Started { pipes, group, errors, reading, child })
}

async fn read_errors(pipe: impl AsyncRead + Unpin, errors: ErrorLines) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = u64::try_from(ERROR_LINE_BYTES).unwrap_or(u64::MAX);
        match (&mut pipe).take(limit).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => errors.push(&line),
        }
    }
}

/// A line as it comes; of one that is too long only the beginning and the end.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    /// The last bytes of a line that is too long.
    tail: VecDeque<u8>,
    is_too_long: bool,
}

impl Line {
    fn push(&mut self, more: &[u8]) {
        if !self.is_too_long && self.bytes.len() + more.len() > RESULT_BYTES_MAX {
            self.is_too_long = true;
            self.bytes.truncate(ID_WITHIN);
            self.bytes.shrink_to_fit();
        }
        if self.is_too_long {
            self.tail.extend(&more[more.len().saturating_sub(ID_WITHIN)..]);
            let surplus = self.tail.len().saturating_sub(ID_WITHIN);
            self.tail.drain(..surplus);
        } else {
            self.bytes.extend_from_slice(more);
        }
    }

    /// The message that the line is; `None` for what is none, which servers write there by mistake.
    fn message(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let line = std::mem::take(self);
        if line.is_too_long {
            let tail: Vec<u8> = line.tail.into_iter().collect();
            let id = last_id(&tail).or_else(|| last_id(&line.bytes))?;
            return refusal(id, &format!("its answer is longer than the {} MiB that are read", RESULT_BYTES_MAX >> 20));
        }
        let value: Value = serde_json::from_slice(line.bytes.trim_ascii()).ok()?;
        let id = value.get("id").cloned();
        match serde_json::from_value(value) {
            Ok(message) => Some(message),
            Err(why) => refusal(id?, &format!("its answer is not what the protocol says: {why}")),
        }
    }
}

/// An answer in place of one that cannot be given.
fn refusal(id: Value, why: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    let message = json!({"jsonrpc": "2.0", "id": id, "error": {"code": super::UNREADABLE, "message": why}});
    serde_json::from_value(message).ok()
}

/// The last `"id": n` in a piece of JSON.
fn last_id(bytes: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(bytes);
    let (_, after) = text.rsplit_once("\"id\"")?;
    let digits: String =
        after.trim_start().strip_prefix(':')?.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<u64>().ok().map(Value::from)
}

/// The pipes of a server as a transport of messages.
pub(super) struct Pipes {
    stdin: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    stdout: BufReader<ChildStdout>,
    /// What came of the next line: `receive` may be dropped in the middle of it.
    line: Line,
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let stdin = self.stdin.clone();
        async move {
            let mut text = serde_json::to_vec(&item).map_err(io::Error::other)?;
            text.push(b'\n');
            let mut stdin = stdin.lock().await;
            let pipe = stdin.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
            pipe.write_all(&text).await?;
            pipe.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let chunk = self.stdout.fill_buf().await.ok()?;
            if chunk.is_empty() {
                return None;
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            self.line.push(&chunk[..end.unwrap_or(chunk.len())]);
            let used = end.map_or(chunk.len(), |end| end + 1);
            self.stdout.consume(used);
            if end.is_some()
                && let Some(message) = self.line.message()
            {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.stdin.lock().await.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_message_that_is_too_long_is_found_at_either_end() {
        for text in [r#"{"jsonrpc":"2.0","id":7,"result":{"#, r#"…"}]},"jsonrpc":"2.0", "id" : 7}"#] {
            assert_eq!(last_id(text.as_bytes()), Some(json!(7)), "{text}");
        }
        assert_eq!(last_id(b"{}"), None);
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error_for_its_call_and_is_not_kept() {
        let mut line = Line::default();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            line.push(&chunk);
            assert!(line.bytes.len() + line.tail.len() <= RESULT_BYTES_MAX);
        }
        line.push(br#""}]},"jsonrpc":"2.0","id":3}"#);
        let message = serde_json::to_value(line.message().unwrap()).unwrap();
        assert_eq!(message["id"], 3);
        assert!(message["error"]["message"].as_str().unwrap().contains("16 MiB"), "{message}");
    }

    #[test]
    fn what_is_no_message_is_passed_over_and_what_is_a_wrong_one_fails_its_call() {
        let message = |text: &str| {
            let mut line = Line::default();
            line.push(text.as_bytes());
            line.message().map(|message| serde_json::to_value(message).unwrap())
        };
        assert_eq!(message("Server running on stdio"), None);
        assert_eq!(message(""), None);
        let wrong = message(r#"{"jsonrpc":"2.0","id":4,"result":7,"error":8}"#);
        assert!(wrong.is_some_and(|wrong| wrong["id"] == 4));
    }
}
