//! Diagnostics for people: the source line, carets, other places, cures.
//!
//! Only the lines that are shown are handed to `annotate-snippets`, so a large file costs no more than a small one.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, normalize_untrusted_str};

use super::super::{Diagnostic, Severity};
use crate::source::{Source, Sources, Span};

/// Another place in the same file is drawn in the same excerpt when it is at most this many lines away.
const EXCERPT_LINES_MAX: usize = 40;

/// A place of more lines than this is shown by its first line.
const SPAN_LINES_MAX: usize = 4;

/// How diagnostics are shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to color (ANSI).
    pub color: bool,
    /// The terminal's width in columns.
    pub width: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { color: false, width: 120 }
    }
}

/// All diagnostics for a terminal, each followed by an empty line.
pub fn human(diagnostics: &[Diagnostic], sources: &Sources, options: Options) -> String {
    let renderer = if options.color { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(options.width.max(40));
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&renderer.render(&[group(diagnostic, sources)]));
        out.push_str("\n\n");
    }
    out
}

/// A place to draw, with the words beside it.
struct Mark<'a> {
    span: Span,
    kind: AnnotationKind,
    label: Option<&'a str>,
}

/// Places of one file near to one another.
struct Excerpt<'a> {
    source: &'a Source,
    marks: Vec<Mark<'a>>,
}

impl<'a> Excerpt<'a> {
    /// First and last line of a place, the last cut when there are many.
    fn lines(source: &Source, span: Span) -> (usize, usize) {
        let first = source.line_column(span.start).0;
        let last = source.line_column(span.end).0;
        (first, if last >= first + SPAN_LINES_MAX { first } else { last })
    }

    fn is_near(&self, span: Span) -> bool {
        let line = self.source.line_column(span.start).0;
        self.marks.iter().all(|mark| {
            let other = self.source.line_column(mark.span.start).0;
            mark.span.file == span.file && other.abs_diff(line) <= EXCERPT_LINES_MAX
        })
    }

    fn snippet(&self) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let lines = self.marks.iter().map(|mark| Self::lines(self.source, mark.span));
        let (first, last) = lines.fold((usize::MAX, 1), |(first, last), (a, b)| (first.min(a), last.max(b)));
        let start = self.source.line_start(first) as usize;
        let end = self.source.line_start(last) as usize + self.source.line_text(last).len();
        let text = self.source.text().get(start..end.max(start)).unwrap_or("");
        let annotations = self.marks.iter().map(|mark| {
            let line_end = |line| self.source.line_start(line) as usize + self.source.line_text(line).len();
            let last = Self::lines(self.source, mark.span).1;
            let from = (mark.span.start as usize).saturating_sub(start).min(text.len());
            let to = (mark.span.end as usize).min(line_end(last)).saturating_sub(start).clamp(from, text.len());
            mark.kind.span(from..to).label(mark.label)
        });
        Snippet::source(text).path(self.source.path()).line_start(first).annotations(annotations)
    }
}

fn group<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(diagnostic.message.as_str()).id(diagnostic.code));
    for excerpt in excerpts(diagnostic, sources) {
        group = group.element(excerpt.snippet());
    }
    for help in &diagnostic.help {
        group = group.element(Level::HELP.message(normalize_untrusted_str(help)));
    }
    group
}

/// The diagnostic's places, those near to one another together, its own first.
fn excerpts<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Vec<Excerpt<'a>> {
    let own =
        diagnostic.span.map(|span| Mark { span, kind: AnnotationKind::Primary, label: diagnostic.label.as_deref() });
    let others = diagnostic.related.iter().map(|related| Mark {
        span: related.span,
        kind: AnnotationKind::Context,
        label: Some(related.message.as_str()),
    });
    let mut excerpts: Vec<Excerpt<'a>> = Vec::new();
    for mark in own.into_iter().chain(others) {
        match excerpts.iter_mut().find(|excerpt| excerpt.is_near(mark.span)) {
            Some(excerpt) => excerpt.marks.push(mark),
            None => excerpts.push(Excerpt { source: sources.get(mark.span.file), marks: vec![mark] }),
        }
    }
    excerpts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Diagnostics;
    use crate::source::read;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        let mut sources = Sources::new();
        let id = sources.add("workflows/a.yaml", text);
        let (_, errors) = read(id, sources.get(id));
        let found: Diagnostics = errors.into_iter().collect();
        human(&found.sorted(&sources), &sources, Options::default())
    }

    #[test]
    fn the_line_carets_and_cures_are_shown() {
        let expected = "\
error[colon-in-text]: `: ` within a text that has no quotes makes a key of what is before it
 --> workflows/a.yaml:2:18
  |
2 | prompt: Summarize: {{ x }}
  |                  ^
  |
  = help: put the whole text into quotes: `prompt: 'Summarize: {{ x }}'`

";
        assert_eq!(shown("a: 1\nprompt: Summarize: {{ x }}\n"), expected);
    }

    #[test]
    fn other_places_are_named() {
        let text = shown("\u{feff}é: 1\r\nb: 2\r\né: 3\r\n");
        assert!(text.contains("workflows/a.yaml:3:1") && text.contains("- it was first given here"), "{text}");
        let far = shown(&format!("a: 1\n{}a: 2\n", "# x\n".repeat(100)));
        assert!(far.contains("workflows/a.yaml:102:1") && far.contains("workflows/a.yaml:1:1"), "{far}");
    }

    #[test]
    fn escape_sequences_of_a_file_do_not_reach_the_terminal() {
        assert!(!shown("a: \"\u{1b}[31m\" x\nb: @\u{1b}[0m\n").contains('\u{1b}'));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_place_can_be_shown(text in "[a-c: \té日😀\r\n\u{feff}\u{0}]{0,30}", a in 0..40usize, b in 0..40usize, c in 0..40usize) {
            let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0) as u32;
            let mut sources = Sources::new();
            let id = sources.add("a.yaml", text.as_str());
            let (a, b, c) = (boundary(a), boundary(b), boundary(c));
            let found = [
                Diagnostic::error("syntax", Span::new(id, a.min(b), b.max(a)), "wrong").related(Span::new(id, b, c), "here"),
                Diagnostic::warning("syntax", None, "odd").help("no place"),
            ];
            let text = human(&found, &sources, Options { color: true, width: 10 });
            prop_assert!(text.contains("wrong") && text.contains("odd"));
            super::super::short(&found, &sources);
            super::super::json(&found, &sources, serde_json::Value::Null);
        }
    }
}
