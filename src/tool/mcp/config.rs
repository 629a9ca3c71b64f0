//! What the project file says of an MCP server, resolved.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::llm::Secret;

/// How often a server that failed is started again in a run when nothing is said.
pub const RESTARTS: u32 = 3;

/// An MCP server of the project file.
#[derive(Clone, PartialEq)]
pub struct ServerConfig {
    /// How it is reached.
    pub reach: Reach,
    /// How long a call may take, when that is said.
    pub timeout: Option<Duration>,
    /// Further starts after failures, in a row.
    pub restarts: u32,
    /// What must not show in any message: values of environment variables.
    pub secrets: Vec<Secret>,
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub enum Reach {
    /// A program that is started and spoken to over its standard input and output.
    Program {
        /// The program and its arguments.
        command: Vec<Secret>,
        /// Its environment, which is empty otherwise.
        env: Vec<(String, Secret)>,
        /// Where it runs, relative to the project.
        cwd: PathBuf,
    },
    /// An address that is spoken to over streamable HTTP.
    Address {
        /// The address.
        url: Secret,
        /// Headers sent with each request.
        headers: Vec<(String, Secret)>,
    },
}

impl ServerConfig {
    /// A text without the secrets of this server.
    pub fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
    }

    /// The program or address, without secrets, for messages and `plan -v`.
    pub fn endpoint(&self) -> String {
        let shown = match &self.reach {
            Reach::Program { command, .. } => command.iter().map(Secret::expose).collect::<Vec<_>>().join(" "),
            Reach::Address { url, .. } => match reqwest::Url::parse(url.expose()) {
                Ok(url) => crate::action::shown_url(&url),
                Err(_) => "its `url`".to_owned(),
            },
        };
        self.redact(&shown)
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("endpoint", &self.endpoint())
            .field("timeout", &self.timeout)
            .field("restarts", &self.restarts)
            .finish_non_exhaustive()
    }
}
