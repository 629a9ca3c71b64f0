//! MCP servers of the project file: each is a program or an address, with its environment resolved.

use std::path::{Path, PathBuf};

use crate::decl::Name;
use crate::decl::tools::McpServer;
use crate::diag::Diagnostic;
use crate::llm::Secret;
use crate::program::MissingEnv;
use crate::tool::mcp::{RESTARTS, Reach, ServerConfig};
use crate::world::normal;

use super::env;
use super::load::Loaded;
use super::providers::{Providers, bad_url, is_web_address, missing_env};

/// Checks one server and adds it to the project's.
pub(crate) fn resolve(loaded: &mut Loaded<'_>, providers: &mut Providers, name: &Name, server: &McpServer) {
    let command = server.command.as_ref().filter(|command| !command.0.is_empty());
    match (command, &server.url) {
        (None, None) if !server.partial.0 => loaded.diagnostics.push(
            Diagnostic::error("missing-key", name.span, format!("the MCP server `{}` is nowhere", name.value))
                .help("give it a `command` to start, or the `url` where it answers"),
        ),
        (Some(_), Some(url)) => loaded.diagnostics.push(Diagnostic::error(
            "two-forms",
            url.span,
            "an MCP server has a `command` or a `url`, not both",
        )),
        _ => {}
    }
    if let Some(url) = server.url.as_ref().filter(|url| !is_web_address(&url.value)) {
        loaded.diagnostics.push(bad_url(url.span));
    }
    one_word(loaded, command.map(|command| command.0.as_slice()).unwrap_or_default());
    misplaced(loaded, server);
    let cwd = match server.cwd.as_ref().map(|cwd| (cwd, normal(Path::new(&cwd.value)))) {
        None => PathBuf::new(),
        Some((_, Some(inside))) => inside,
        Some((cwd, None)) => {
            let message = format!("`{}` leads out of the project", cwd.value);
            let finding = Diagnostic::error("path-escapes", cwd.span, message).help("write a path within the project");
            loaded.diagnostics.push(finding);
            PathBuf::new()
        }
    };
    let mut texts = Texts { loaded, providers, server: &name.value, secrets: Vec::new() };
    let reach = match (command, &server.url) {
        (Some(command), _) => Reach::Program {
            command: command.iter().map(|word| texts.secret(word)).collect(),
            env: server.env.iter().map(|(name, value)| (name.value.clone(), texts.secret(value))).collect(),
            cwd,
        },
        (None, Some(url)) => Reach::Address {
            url: texts.secret(url),
            headers: server.headers.iter().map(|(name, value)| (name.value.clone(), texts.secret(value))).collect(),
        },
        (None, None) => return,
    };
    let config = ServerConfig {
        reach,
        timeout: server.timeout.map(|timeout| timeout.0),
        restarts: server.restarts.map_or(RESTARTS, |count| count.get()),
        secrets: texts.secrets,
    };
    providers.mcp_servers.insert(name.value.clone(), config);
}

/// Warns of a command line written as one word: there is no shell to split it.
fn one_word(loaded: &mut Loaded<'_>, command: &[Name]) {
    let [program] = command else { return };
    let words: Vec<&str> = program.value.split_whitespace().collect();
    if words.len() > 1 && !program.value.contains("${env:") {
        let message = "this is taken as the name of one program; there is no shell";
        let finding = Diagnostic::warning("one-word-command", program.span, message);
        loaded.diagnostics.push(finding.help(format!("write `[{}]`", words.join(", "))));
    }
}

/// Reports what only the other kind of server has.
fn misplaced(loaded: &mut Loaded<'_>, server: &McpServer) {
    let is_program = server.command.is_some();
    let headers = server.headers.iter().next().map(|(name, _)| name.span).filter(|_| is_program);
    let env = server.env.iter().next().map(|(name, _)| name.span).filter(|_| !is_program && server.url.is_some());
    for (span, what) in [
        (headers, "`headers` are sent to a `url`; a program has `env`"),
        (env, "`env` is for a program; a `url` has `headers`"),
    ] {
        if let Some(span) = span {
            loaded.diagnostics.push(Diagnostic::error("two-forms", span, what));
        }
    }
}

/// Resolves the texts of one server.
struct Texts<'a, 'w> {
    loaded: &'a mut Loaded<'w>,
    providers: &'a mut Providers,
    server: &'a str,
    secrets: Vec<Secret>,
}

impl Texts<'_, '_> {
    fn secret(&mut self, written: &Name) -> Secret {
        let resolved = env::resolve(&written.value, self.loaded.world);
        for variable in resolved.missing {
            let source = self.loaded.sources.get(written.span.file);
            let (line, column) = source.line_column(written.span.start);
            self.providers.missing_env.push(MissingEnv {
                section: "mcp_servers".to_owned(),
                name: self.server.to_owned(),
                variable: variable.clone(),
                place: format!("{}:{line}:{column}", source.path()),
            });
            self.loaded.diagnostics.push(missing_env(&variable, written.span));
        }
        for variable in env::variables(&written.value) {
            // `PATH` and the like are in every message about a program; they are no secret.
            if !PLAIN.contains(&variable.as_str()) {
                self.secrets.extend(self.loaded.world.env(&variable).map(Secret::new));
            }
        }
        Secret::new(resolved.value)
    }
}

/// Variables that hold no secret.
const PLAIN: &[&str] = &["PATH", "HOME", "USER", "LANG", "TMPDIR", "PWD"];
