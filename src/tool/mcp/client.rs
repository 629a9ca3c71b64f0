//! One running server: the handshake, its list of tools, calls with progress and cancellation, its end.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, Implementation,
    ListToolsRequest, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ServerResult,
    Tool as ServerTool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, PeerRequestOptions, RequestHandle, RunningService, ServiceError,
};
use rmcp::{RoleClient, serve_client};
use serde_json::{Map, Value};
use tokio::process::Child;
use tokio::sync::broadcast;

use crate::action::lasting;

use super::config::{Reach, ServerConfig};
use super::convert::{self, LeftOut, ServerTools};
use super::stdio::{self, ErrorLines, Group};
use super::{http, stdio::Started};

/// How long a server may take until it can be called: programs may be downloaded first.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a list of tools may take to come.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server that has ended is waited for to say why, and one that is asked to end to do so.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The most pages of a list of tools.
const PAGES_MAX: usize = 100;
/// The most tools of one server.
const TOOLS_MAX: usize = 2_000;
/// How many notes of progress wait to be passed on.
const PROGRESS_MAX: usize = 256;

/// How far a call has come, by the server's own figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// So far.
    pub progress: f64,
    /// Of how much, when that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server says no; it goes on.
    #[error("{0}")]
    Refused(String),
    /// The server is gone; another start may help.
    #[error("{0}")]
    Gone(String),
}

/// What hears of the server's notes.
struct Ears {
    progress: broadcast::Sender<ProgressNotificationParam>,
    /// How often the list of tools has changed.
    changes: Arc<AtomicU64>,
}

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("agent-run", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(&self, note: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        // An error means that no call is listening.
        let _ = self.progress.send(note);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

/// The program of a server.
struct Program {
    child: tokio::sync::Mutex<Child>,
    errors: ErrorLines,
    reading: tokio::sync::Mutex<Option<tokio::task::JoinHandle<()>>>,
    /// Dropped with the client: everything that the program started is killed.
    _group: Group,
}

impl Program {
    /// How a program that has ended did so, and its last words.
    async fn end(&self) -> String {
        let mut reading = self.reading.lock().await;
        if let Some(handle) = reading.as_mut() {
            let _ = tokio::time::timeout(END_TIMEOUT, handle).await;
            *reading = None;
        }
        let status = tokio::time::timeout(END_TIMEOUT, async { self.child.lock().await.wait().await }).await;
        let ended = match status {
            Ok(Ok(status)) => match status.code() {
                Some(code) => format!("it ended with status {code}"),
                None => "it was ended by a signal".to_owned(),
            },
            _ => "it closed its output".to_owned(),
        };
        format!("{ended}{}", self.last_words())
    }

    /// The last lines of its error output, below a line of their own.
    fn last_words(&self) -> String {
        let words = self.errors.text();
        let lines = words.lines().map(|line| format!("\n    {line}")).collect::<String>();
        if lines.is_empty() { lines } else { format!("; its last words:{lines}") }
    }
}

/// A server that runs, or an address that answers.
pub struct Client {
    config: ServerConfig,
    name: String,
    changes: Arc<AtomicU64>,
    progress: broadcast::Sender<ProgressNotificationParam>,
    /// The list of tools and the number of changes at which it was asked for.
    tools: Mutex<Option<(u64, Arc<ServerTools>)>>,
    service: RunningService<RoleClient, Ears>,
    program: Option<Program>,
}

/// A request that is under way; dropped before its answer came, the server hears that it is cancelled.
struct UnderWay(Option<RequestHandle<RoleClient>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let (Some(handle), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(handle.cancel(Some("nobody waits for it any more".to_owned())));
        }
    }
}

impl Client {
    /// Starts a server, or reaches it, and makes the protocol's handshake. `root` is the directory of the project, `limit`
    /// how long that may take.
    ///
    /// # Errors
    /// Why that failed, with the last lines of the server's error output; without secrets.
    pub async fn start(name: &str, config: &ServerConfig, root: &Path, limit: Duration) -> Result<Client, String> {
        let (progress, _) = broadcast::channel(PROGRESS_MAX);
        let changes = Arc::new(AtomicU64::new(0));
        let ears = Ears { progress: progress.clone(), changes: changes.clone() };
        let redacted = |text: String| config.redact(&text);
        let (service, program) = match &config.reach {
            Reach::Program { command, env, cwd } => {
                let started = stdio::start(command, env, &root.join(cwd)).map_err(redacted)?;
                let Started { pipes, group, errors, reading, child } = started;
                let reading = tokio::sync::Mutex::new(Some(reading));
                let program = Program { child: tokio::sync::Mutex::new(child), errors, reading, _group: group };
                match tokio::time::timeout(limit, serve_client(ears, pipes)).await {
                    Ok(Ok(service)) => (service, Some(program)),
                    Ok(Err(ClientInitializeError::JsonRpcError(error))) => {
                        let words = format!("it refused the handshake: {}{}", error.message, program.last_words());
                        return Err(redacted(words));
                    }
                    Ok(Err(_)) => return Err(redacted(program.end().await)),
                    Err(_) => {
                        let limit = lasting(limit);
                        return Err(redacted(format!("it was not ready within {limit}{}", program.last_words())));
                    }
                }
            }
            Reach::Address { url, headers } => {
                let transport = http::transport(url, headers).map_err(redacted)?;
                match tokio::time::timeout(limit, serve_client(ears, transport)).await {
                    Ok(Ok(service)) => (service, None),
                    Ok(Err(why)) => return Err(redacted(http::explained(whole(&why), headers))),
                    Err(_) => return Err(format!("it did not answer within {}", lasting(limit))),
                }
            }
        };
        let (name, tools) = (name.to_owned(), Mutex::default());
        Ok(Client { config: config.clone(), name, changes, progress, tools, service, program })
    }

    /// Whether it cannot be called any more.
    pub fn is_gone(&self) -> bool {
        self.service.peer().is_transport_closed()
    }

    /// Its tools; asked for once, and again when it says that they have changed.
    ///
    /// # Errors
    /// Why there is no list.
    pub async fn tools(&self) -> Result<Arc<ServerTools>, CallError> {
        let at = self.changes.load(Ordering::SeqCst);
        let known = self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, tools)) = known.filter(|(known_at, _)| *known_at == at) {
            return Ok(tools);
        }
        let listed = match tokio::time::timeout(LIST_TIMEOUT, self.list()).await {
            Ok(listed) => listed?,
            Err(_) => {
                let limit = lasting(LIST_TIMEOUT);
                return Err(CallError::Refused(format!("it did not list its tools within {limit}")));
            }
        };
        let (listed, mut left_out) = listed;
        let mut tools = convert::tools(&self.name, &self.config, listed);
        tools.left_out.append(&mut left_out);
        let tools = Arc::new(tools);
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, tools.clone()));
        Ok(tools)
    }

    async fn list(&self) -> Result<(Vec<ServerTool>, Vec<LeftOut>), CallError> {
        let (mut tools, mut left_out, mut cursor) = (Vec::new(), Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let mut params = PaginatedRequestParams::default();
            params.cursor = cursor;
            let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
            let answer = self.request(ClientRequest::ListToolsRequest(request), &|_| ()).await?;
            cursor = match answer {
                ServerResult::ListToolsResult(page) => {
                    tools.extend(page.tools);
                    page.next_cursor
                }
                // One tool that is not as the protocol says does not take the others along.
                ServerResult::CustomResult(page) => {
                    let Some(items) = page.0.get("tools").and_then(Value::as_array) else {
                        return Err(CallError::Refused("its list of tools is not what the protocol says".to_owned()));
                    };
                    for item in items {
                        match serde_json::from_value(item.clone()) {
                            Ok(tool) => tools.push(tool),
                            Err(why) => left_out.push(LeftOut {
                                tool: item["name"].as_str().unwrap_or("?").to_owned(),
                                why: why.to_string(),
                            }),
                        }
                    }
                    page.0.get("nextCursor").and_then(Value::as_str).map(str::to_owned)
                }
                _ => return Err(CallError::Refused("its list of tools is not what the protocol says".to_owned())),
            };
            if tools.len() > TOOLS_MAX {
                return Err(CallError::Refused(format!("it has more than the {TOOLS_MAX} tools that are read")));
            }
            if cursor.is_none() {
                return Ok((tools, left_out));
            }
        }
        Err(CallError::Refused(format!("its list of tools has more than the {PAGES_MAX} pages that are read")))
    }

    /// Calls a tool; `on_progress` hears how far it has come. Dropped before it ends, the server is told to stop.
    ///
    /// # Errors
    /// The server's complaint, or that it is gone; without secrets.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        on_progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Value, CallError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answer = self.request(ClientRequest::CallToolRequest(CallToolRequest::new(params)), on_progress).await?;
        match answer {
            ServerResult::CallToolResult(result) => {
                let value = convert::result(result).map_err(|words| CallError::Refused(self.config.redact(&words)))?;
                Ok(redacted(value, &self.config))
            }
            ServerResult::InputRequiredResult(_) => {
                Err(CallError::Refused("it asks for further input, which tools cannot give".to_owned()))
            }
            _ => Err(CallError::Refused("its answer is not what the protocol says of a call's result".to_owned())),
        }
    }

    async fn request(
        &self,
        request: ClientRequest,
        on_progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<ServerResult, CallError> {
        // Listened to before the request is sent, so that the first note is heard.
        let mut notes = self.progress.subscribe();
        let options = PeerRequestOptions::no_options();
        let handle = match self.service.peer().send_cancellable_request(request, options).await {
            Ok(handle) => handle,
            Err(why) => return Err(self.gone(&why).await),
        };
        let token = handle.progress_token.clone();
        let mut under_way = UnderWay(Some(handle));
        let answer = loop {
            let Some(handle) = under_way.0.as_mut() else { break Err(ServiceError::TransportClosed) };
            tokio::select! {
                biased;
                Ok(note) = notes.recv() => {
                    if note.progress_token == token {
                        let ProgressNotificationParam { progress, total, message, .. } = note;
                        on_progress(Progress { progress, total, message: message.map(|text| self.config.redact(&text)) });
                    }
                }
                answer = &mut handle.rx => break answer.unwrap_or(Err(ServiceError::TransportClosed)),
            }
        };
        under_way.0 = None;
        match answer {
            Ok(answer) => Ok(answer),
            Err(ServiceError::McpError(error)) => {
                let more = error.data.map(|data| format!(" ({data})")).filter(|data| data.len() < 2_000);
                let words = format!("{}{}", error.message, more.unwrap_or_default());
                Err(CallError::Refused(self.config.redact(&words)))
            }
            Err(why) => Err(self.gone(&why).await),
        }
    }

    /// The error of a call whose server is gone.
    async fn gone(&self, why: &ServiceError) -> CallError {
        let words = match (&self.program, &self.config.reach) {
            (Some(program), _) => program.end().await,
            (None, Reach::Address { headers, .. }) => http::explained(whole(why), headers),
            (None, Reach::Program { .. }) => whole(why),
        };
        CallError::Gone(self.config.redact(&words))
    }

    /// Asks the server to end and waits a moment for it; what is left of it then is killed.
    pub async fn close(mut self) {
        let _ = self.service.close_with_timeout(END_TIMEOUT).await;
        if let Some(program) = &self.program {
            let _ = tokio::time::timeout(END_TIMEOUT, async { program.child.lock().await.wait().await }).await;
        }
    }
}

/// A value without the secrets that the server was given, which it may echo.
fn redacted(value: Value, config: &ServerConfig) -> Value {
    match value {
        Value::String(text) if config.secrets.is_empty() => Value::String(text),
        Value::String(text) => Value::String(config.redact(&text)),
        Value::Array(items) => items.into_iter().map(|item| redacted(item, config)).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, redacted(value, config))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// An error with everything that led to it, each said once.
fn whole(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_words = inner.to_string();
        if !words.contains(&inner_words) {
            words = format!("{words}: {inner_words}");
        }
        source = inner.source();
    }
    words
}
