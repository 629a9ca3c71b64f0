//! One line a diagnostic, for editors and logs: `path:line:column: severity[code]: message (help)`.

use std::fmt::Write;

use super::super::Diagnostic;
use crate::source::Sources;

/// One line for each diagnostic, each ended by a line break. The first help follows in brackets.
pub fn short(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        if let Some(span) = diagnostic.span {
            let source = sources.get(span.file);
            let (line, column) = source.line_column(span.start);
            let _ = write!(out, "{}:{line}:{column}: ", source.path());
        }
        let _ = write!(out, "{}[{}]: {}", diagnostic.severity.as_str(), diagnostic.code, one_line(&diagnostic.message));
        if let Some(help) = diagnostic.help.first() {
            let _ = write!(out, " ({})", one_line(help));
        }
        out.push('\n');
    }
    out
}

/// A text in which line breaks and escape sequences are spelled out, so that it stays one line.
fn one_line(text: &str) -> String {
    let spelled = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(spelled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Span;

    #[test]
    fn a_diagnostic_is_one_line() {
        let mut sources = Sources::new();
        let id = sources.add("a.yaml", "é: b\nc: d\n");
        let found = [
            Diagnostic::error("syntax", Span::new(id, 6, 7), "wrong\n\u{1b}[0m").help("so"),
            Diagnostic::warning("syntax", None, "odd"),
        ];
        let expected = "a.yaml:2:1: error[syntax]: wrong\\n\\u{1b}[0m (so)\nwarning[syntax]: odd\n";
        assert_eq!(short(&found, &sources), expected);
    }
}
