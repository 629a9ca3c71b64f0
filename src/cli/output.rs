//! Where output goes: results to stdout, progress and diagnostics to stderr; with `--json` exactly one document.

use std::io::{IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json};

use super::Fault;
use super::args::{Color, Global};

/// What a heading or name looks like.
pub(super) const BOLD: Style = Style::new().bold();
/// Less important text.
pub(super) const DIM: Style = Style::new().dimmed();
/// Something that went well.
pub(super) const GREEN: Style = AnsiColor::Green.on_default();
/// Something that went wrong.
pub(super) const RED: Style = AnsiColor::Red.on_default().bold();
/// A warning.
pub(super) const YELLOW: Style = AnsiColor::Yellow.on_default();
/// A name that is being worked on.
pub(super) const CYAN: Style = AnsiColor::Cyan.on_default();

/// The streams of the command and how they are written.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    /// Exactly one JSON document on stdout.
    pub json: bool,
    /// The result only.
    pub quiet: bool,
    /// Planning in detail.
    pub verbose: bool,
    /// Color on stdout.
    pub color: bool,
    /// Color on stderr.
    pub color_err: bool,
    /// A person sits at stdin and stderr.
    pub interactive: bool,
    /// Stdout is a terminal.
    pub stdout_terminal: bool,
    /// Stderr is a terminal that can move its cursor.
    pub live: bool,
}

/// The `check` document (cli.md 3) of something that is wrong in no file.
pub(super) fn fault_document(message: &str, help: &[String]) -> Value {
    let help = if help.is_empty() { Value::Null } else { help.join("\n").into() };
    json!({
        "errors": 1,
        "warnings": 0,
        "diagnostics": [{
            "code": "command-line",
            "severity": "error",
            "message": message,
            "help": help,
            "file": null,
            "line": null,
            "column": null,
            "end_line": null,
            "end_column": null,
            "related": [],
        }],
        "checked": {},
    })
}

impl Out {
    /// The streams as the flags and the terminal want them.
    pub fn new(global: &Global) -> Out {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = |terminal: bool| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !no_color && !dumb,
        };
        let err = std::io::stderr().is_terminal();
        Out {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            color: color(std::io::stdout().is_terminal()),
            color_err: color(err),
            interactive: err && std::io::stdin().is_terminal(),
            stdout_terminal: std::io::stdout().is_terminal(),
            live: err && !dumb,
        }
    }

    /// True when progress is shown live: stderr is a terminal that can move its cursor, and nobody asked for silence.
    pub(super) fn interactive_output(&self) -> bool {
        self.live && !self.quiet
    }

    /// Prints a line of the result. A reader that went away (`| head`) is not an error.
    pub fn line(&self, text: impl AsRef<str>) {
        let mut stdout = std::io::stdout().lock();
        let _ = writeln!(stdout, "{}", text.as_ref());
    }

    /// Prints the one JSON document, indented at a terminal's width of two.
    pub fn document(&self, document: &impl Serialize) {
        match serde_json::to_string_pretty(document) {
            Ok(text) => self.line(text),
            Err(error) => self.note(format!("the document could not be written: {error}")),
        }
    }

    /// Prints a line of progress or a diagnostic to stderr, unless quiet.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            let mut stderr = std::io::stderr().lock();
            let _ = writeln!(stderr, "{}", text.as_ref());
        }
    }

    /// Shows why the command could not do its work; with `--json` as the one document too, in the form of `check`.
    pub fn fault(&self, fault: &Fault) {
        if self.json {
            self.document(&fault_document(&fault.message, &fault.help));
        }
        let mut stderr = std::io::stderr().lock();
        let _ = writeln!(stderr, "{} {}", self.paint_err(RED, "error:"), fault.message);
        for help in &fault.help {
            let _ = writeln!(stderr, "  {} {help}", self.paint_err(CYAN, "help:"));
        }
    }

    /// Text for stdout in a style.
    pub fn paint(&self, style: Style, text: impl std::fmt::Display) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    /// Text for stderr in a style.
    pub fn paint_err(&self, style: Style, text: impl std::fmt::Display) -> String {
        if self.color_err { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}
