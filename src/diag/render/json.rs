//! The `check` document (cli.md 3).

use serde_json::{Map, Value, json as object};

use super::super::{Diagnostic, Severity};
use crate::source::{Sources, Span};

/// The `check` document; `checked` says what was checked and is handed on as it is.
pub fn json(diagnostics: &[Diagnostic], sources: &Sources, checked: Value) -> Value {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count();
    object!({
        "errors": errors,
        "warnings": diagnostics.len() - errors,
        "diagnostics": diagnostics.iter().map(|diagnostic| one(diagnostic, sources)).collect::<Vec<_>>(),
        "checked": checked,
    })
}

fn one(diagnostic: &Diagnostic, sources: &Sources) -> Value {
    let mut entry = Map::new();
    entry.insert("code".into(), diagnostic.code.into());
    entry.insert("severity".into(), diagnostic.severity.as_str().into());
    entry.insert("message".into(), diagnostic.message.as_str().into());
    let help = if diagnostic.help.is_empty() { Value::Null } else { diagnostic.help.join("\n").into() };
    entry.insert("help".into(), help);
    let place = |span: Span| {
        let source = sources.get(span.file);
        let ((line, column), (end_line, end_column)) = (source.line_column(span.start), source.line_column(span.end));
        (source.path().to_owned(), line, column, end_line, end_column)
    };
    match diagnostic.span.map(place) {
        Some((file, line, column, end_line, end_column)) => {
            entry.insert("file".into(), file.into());
            for (key, number) in
                [("line", line), ("column", column), ("end_line", end_line), ("end_column", end_column)]
            {
                entry.insert(key.into(), number.into());
            }
        }
        None => {
            for key in ["file", "line", "column", "end_line", "end_column"] {
                entry.insert(key.into(), Value::Null);
            }
        }
    }
    let related = diagnostic.related.iter().map(|related| {
        let (file, line, column, ..) = place(related.span);
        object!({"message": related.message, "file": file, "line": line, "column": column})
    });
    entry.insert("related".into(), related.collect());
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_counts_and_places() {
        let mut sources = Sources::new();
        let id = sources.add("a.yaml", "é: b\né: d\n");
        let found = [
            Diagnostic::error("duplicate-key", Span::new(id, 6, 8), "twice")
                .related(Span::new(id, 0, 2), "first")
                .help("x"),
            Diagnostic::warning("syntax", None, "odd"),
        ];
        let document = json(&found, &sources, object!({"files": 1}));
        let expected = object!({
            "errors": 1, "warnings": 1, "checked": {"files": 1},
            "diagnostics": [
                {"code": "duplicate-key", "severity": "error", "message": "twice", "help": "x", "file": "a.yaml", "line": 2,
                 "column": 1, "end_line": 2, "end_column": 2,
                 "related": [{"message": "first", "file": "a.yaml", "line": 1, "column": 1}]},
                {"code": "syntax", "severity": "warning", "message": "odd", "help": null, "file": null, "line": null,
                 "column": null, "end_line": null, "end_column": null, "related": []},
            ],
        });
        assert_eq!(document, expected);
    }
}
