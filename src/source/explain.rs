//! Words for the parser's errors: which trap it is, and its cure (language.md 12).
//!
//! The parser says only where it could not go on. What the author meant is read off the line: how the value begins,
//! what stands around the place, and what was read before it.

use granit_parser::ErrorKind;

use super::mask::{Culprit, Parts, leading_tabs, line_at, next_line};
use super::{DEPTH_MAX, FileId, Source, Span, SyntaxError, traps};

/// Where the parser stopped, and what was open there.
#[derive(Debug)]
pub(super) struct Stop {
    /// Why it stopped.
    pub(super) kind: ErrorKind,
    /// Where it stopped.
    pub(super) at: usize,
    /// The last scalar or bracket that was read.
    pub(super) last: (usize, usize),
    /// Whether a mapping has just got a value and waits for a key.
    pub(super) last_is_value: bool,
    /// Where the outermost open bracket is.
    pub(super) flow: Option<usize>,
    /// The key whose value was being read.
    pub(super) key: Option<String>,
}

/// What is known when an error is explained.
struct Case<'a> {
    stop: &'a Stop,
    id: FileId,
    source: &'a Source,
    text: &'a str,
    parts: Parts,
}

/// The error in words, and what to leave out so that reading can go on.
pub(super) fn explain(stop: &Stop, id: FileId, source: &Source) -> (SyntaxError, Culprit) {
    let text = source.text();
    if let Some(tabs) = tabs_near(text, stop) {
        let span = Span::new(id, tabs.start as u32, tabs.end as u32);
        let error = SyntaxError::new("tab-indentation", span, "a tab cannot indent; YAML wants spaces");
        let culprit = Culprit { offset: tabs.start, whole_line: false };
        return (error.help("replace tabs at the beginning of lines by spaces, two for each level"), culprit);
    }
    let offset = stop.flow.unwrap_or_else(|| beginning(text, stop));
    let offset = template_above(text, offset).unwrap_or(offset);
    let parts = Parts::at(text, offset);
    let case = Case { stop, id, source, text, parts };
    case.explain(offset)
}

/// The tabs that indent the line where the parser stopped, or the next line with content.
fn tabs_near(text: &str, stop: &Stop) -> Option<std::ops::Range<usize>> {
    let here = leading_tabs(text, stop.at);
    if !here.is_empty() {
        return Some(here);
    }
    let about_tabs = matches!(
        stop.kind,
        ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabInPlainScalar
            | ErrorKind::TabAtBlockScalarStart
    );
    let mut at = next_line(text, line_at(text, stop.at).end).filter(|_| about_tabs)?;
    while text[line_at(text, at)].trim().is_empty() {
        at = next_line(text, line_at(text, at).end)?;
    }
    Some(leading_tabs(text, at)).filter(|tabs| !tabs.is_empty())
}

/// The value of the line that a line belongs to, when it begins as a template does: what follows is part of it.
fn template_above(text: &str, offset: usize) -> Option<usize> {
    let here = Parts::at(text, offset);
    let indent = |line: &str| line.len() - line.trim_start().len();
    let column = indent(&text[here.line.clone()]);
    let mut end = here.line.start;
    while end > 0 {
        let line = line_at(text, end - 1);
        let content = &text[line.clone()];
        if !content.trim().is_empty() && indent(content) < column {
            let owner = Parts::at(text, line.start);
            let value = &text[owner.value.clone()];
            return (value.starts_with("{{") || value.starts_with("{%")).then_some(owner.value.start);
        }
        end = line.start.min(end - 1);
    }
    None
}

/// Where the token begins that the parser could not read.
fn beginning(text: &str, stop: &Stop) -> usize {
    let from = stop.last.1.min(stop.at);
    let skipped = text[from..stop.at].find(|c: char| !c.is_whitespace() && !matches!(c, ':' | '-' | '?' | ','));
    match stop.kind {
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar
        | ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => skipped.map_or(stop.at, |at| from + at),
        _ if text[stop.at..].trim().is_empty() => stop.last.0,
        _ => stop.at,
    }
}

impl Case<'_> {
    fn explain(&self, offset: usize) -> (SyntaxError, Culprit) {
        let value = &self.text[self.parts.value.clone()];
        let in_value = Culprit { offset, whole_line: false };
        if value.starts_with("{{") || value.starts_with("{%") || value.starts_with("{#") {
            return (self.template(), in_value);
        }
        match &self.stop.kind {
            ErrorKind::RecursionLimitExceeded => {
                let message = format!("lists and mappings are nested deeper than {DEPTH_MAX}");
                let error = SyntaxError::new("too-deep", self.here(1), message);
                (error.help("name inner parts and refer to them"), in_value)
            }
            ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
                (self.after_quotes(offset), in_value)
            }
            ErrorKind::UnknownQuotedScalarEscape
            | ErrorKind::InvalidQuotedScalarHexEscape
            | ErrorKind::InvalidUnicodeEscape
            | ErrorKind::InvalidLowSurrogate
            | ErrorKind::InvalidLowSurrogateHexEscape
            | ErrorKind::MissingLowSurrogate
            | ErrorKind::UnpairedLowSurrogate => (self.escape(), in_value),
            ErrorKind::UnclosedQuotedScalar
            | ErrorKind::InvalidQuotedScalarIndent
            | ErrorKind::DocumentIndicatorInQuotedScalar => {
                let quote = self.text[offset..].chars().next().unwrap_or('"');
                let span = Span::new(self.id, offset as u32, (offset + quote.len_utf8()) as u32);
                let message = format!("this {quote} is not closed");
                let error = SyntaxError::new("unclosed-quotes", span, message);
                (error.help("close it; for long text use a `|` block"), in_value)
            }
            ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
                let message = format!("this `{open}` is closed by `{close}`");
                let error = SyntaxError::new("unclosed-bracket", self.here(1), message);
                (error.help("brackets close in the reverse order; a text with brackets needs quotes"), in_value)
            }
            _ if self.stop.flow.is_some() => (self.in_brackets(), in_value),
            ErrorKind::MappingValueNotAllowed => self.colon(),
            ErrorKind::SimpleKeyExpected
            | ErrorKind::ExpectedBlockMappingKey
            | ErrorKind::ExpectedBlockSequenceEntry => self.key_expected(),
            ErrorKind::UnexpectedCharacter { .. }
            | ErrorKind::InvalidBlockScalarHeader
            | ErrorKind::ZeroBlockScalarIndent
            | ErrorKind::MissingAnchorOrAliasName
            | ErrorKind::MisplacedFlowCollectionEnd => (self.start(), in_value),
            ErrorKind::ExpectedDocumentStart => {
                let line = self.parts.line.start..self.parts.line.end;
                let content = self.text[line.clone()].trim();
                let start = line.start + (self.text[line.clone()].len() - self.text[line].trim_start().len());
                let span = self.span(start..start + content.len());
                let message = "this line begins further out than what is before it";
                let error = SyntaxError::new("bad-indentation", span, message);
                let culprit = Culprit { offset, whole_line: true };
                (error.help("keys of one mapping begin in one column, and a file is one mapping"), culprit)
            }
            ErrorKind::BlockSequenceEntryNotAllowed => {
                let error = SyntaxError::new("syntax", self.here(1), "a list does not begin on the line of its key");
                (error.help("put `- …` on the next line, or write `[…]`; if it is text, put it into quotes"), in_value)
            }
            _ => (self.other(), in_value),
        }
    }

    /// The place where the parser stopped, of at most `len` bytes, within its line.
    fn here(&self, len: usize) -> Span {
        let line = line_at(self.text, self.stop.at);
        let rest = self.text.get(self.stop.at..line.end).unwrap_or("");
        let end = rest.char_indices().map(|(at, c)| at + c.len_utf8()).find(|end| *end >= len).unwrap_or(rest.len());
        Span::new(self.id, self.stop.at as u32, (self.stop.at + end) as u32)
    }

    fn span(&self, range: std::ops::Range<usize>) -> Span {
        Span::new(self.id, range.start as u32, range.end as u32)
    }

    fn value(&self) -> &str {
        &self.text[self.parts.value.clone()]
    }

    /// Adds the cure "put it into quotes", as a sure correction when the whole text stands on this line.
    fn quote_it(&self, error: SyntaxError) -> SyntaxError {
        let value = self.value();
        let key = self.parts.key.clone().map_or(String::new(), |key| format!("{}: ", &self.text[key]));
        let span = self.span(self.parts.value.clone());
        if value.is_empty() || value.len() > 200 || value.contains(" #") || self.goes_on() {
            return error.help("put the whole text into quotes, or write it as a `|` block");
        }
        let quoted = traps::quoted(value);
        error.help(format!("put the whole text into quotes: `{key}{quoted}`")).fix(span, quoted)
    }

    /// Whether the value goes on in the next line.
    fn goes_on(&self) -> bool {
        let Some(next) = next_line(self.text, self.parts.line.end) else { return false };
        let line = &self.text[line_at(self.text, next)];
        let column = line.len() - line.trim_start().len();
        column < line.len() && column >= self.parts.inner
    }

    fn template(&self) -> SyntaxError {
        let message = "to YAML this is a mapping in braces, not a template";
        let start = self.parts.value.start;
        self.quote_it(SyntaxError::new("unquoted-template", self.span(start..start + 2), message))
    }

    /// `"…" rest`: quotes within quotes, or text after quotes.
    fn after_quotes(&self, quote_at: usize) -> SyntaxError {
        let text = self.text;
        let quote = text[quote_at..].chars().next().unwrap_or('"');
        let end = if self.stop.flow.is_some() { self.stop.at } else { self.parts.value.end };
        let whole = text.get(quote_at..end).unwrap_or("");
        let adjacent = text[..self.stop.at].ends_with(quote);
        let span = self.span(self.stop.at.saturating_sub(usize::from(adjacent))..self.stop.at.max(self.stop.at));
        let span = if span.is_empty() { self.here(1) } else { span };
        let one_line = self.stop.flow.is_none() && !self.goes_on() && quote_at == self.parts.value.start;
        if adjacent && whole.len() > 2 && whole.ends_with(quote) {
            let inner = &whole[1..whole.len() - 1];
            let error = SyntaxError::new("quotes-in-quotes", span, format!("this {quote} ends the text"));
            let error = match quote {
                '"' => error.help("outside single quotes, inside double ones: `'{{ x | default(\"u\") }}'`"),
                _ => error.help("within single quotes write `''` for one, or use double quotes outside"),
            };
            let plain = !inner.contains(['\\', '\'']) || quote == '\'';
            return if one_line && plain {
                error.fix(self.span(self.parts.value.clone()), traps::quoted(inner))
            } else {
                error
            };
        }
        if let Some(error) = self.optional_key() {
            return error;
        }
        let message = "the text goes on after its quotes";
        let error = SyntaxError::new("text-after-quotes", self.here(1), message);
        if one_line { self.quote_it(error) } else { error.help("put the whole text into the other kind of quotes") }
    }

    /// `"name"?: T`, as other languages have it: the mark of an optional field after the quotes of its name.
    fn optional_key(&self) -> Option<SyntaxError> {
        let (text, at) = (self.text, self.stop.at);
        let quote = text[..at].chars().next_back().filter(|c| matches!(c, '"' | '\''))?;
        let start = text[..at - 1].rfind(quote)?;
        let name = &text[start + 1..at - 1];
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if !text[at..].starts_with("?:") || !is_name {
            return None;
        }
        let message =
            "the `?` of an optional field stands within the quotes of its name, or after a name without quotes";
        let error = SyntaxError::new("text-after-quotes", self.here(1), message);
        Some(error.help(format!("write `{name}?:`")).fix(self.span(start..at + 1), format!("{name}?")))
    }

    /// A backslash in double quotes that is no escape.
    fn escape(&self) -> SyntaxError {
        let bytes = self.text.as_bytes();
        let line = line_at(self.text, self.stop.at);
        let mut at = self.stop.at;
        let unknown = self.stop.kind == ErrorKind::UnknownQuotedScalarEscape;
        // The parser points at the scalar's beginning or at the escape; find the first that it cannot mean.
        while at < line.end {
            if bytes[at] == b'\\' {
                let next = bytes.get(at + 1).copied().unwrap_or(b' ');
                let simple = b"0abtnvfre \"/\\N_LP\t".contains(&next);
                if !(simple || unknown && b"xuU".contains(&next)) {
                    break;
                }
                at += 1;
            }
            at += 1;
        }
        let found = at < line.end;
        let at = if found { at } else { self.stop.at };
        let next = self.text[at..line.end].chars().nth(1).map_or(0, char::len_utf8);
        let span = self.span(at..(at + 1 + next).min(line.end.max(at)));
        let spelled = self.source.slice(span);
        let message = format!("`{spelled}` is not an escape that double quotes know");
        let error = SyntaxError::new("escape-in-quotes", span, message);
        let value = self.value();
        let inner = value.get(1..value.len().saturating_sub(1)).unwrap_or("");
        let error = error.help("in single quotes a backslash is itself: `'\\b\\d'`");
        let sure = value.starts_with('"') && value.ends_with('"') && value.len() > 2 && !inner.contains(['\'', '"']);
        if sure && unknown && !inner.contains("\\n") && !inner.contains("\\\\") {
            return error.fix(self.span(self.parts.value.clone()), format!("'{inner}'"));
        }
        error
    }

    /// Something within `[…]` or `{…}`.
    fn in_brackets(&self) -> SyntaxError {
        let (text, at) = (self.text, self.stop.at);
        let open = self.stop.flow.unwrap_or(at);
        let word = text[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        if text[at..].starts_with('[') && !word.is_empty() {
            let start = at - word.len();
            if text[at..].starts_with("[]") {
                let span = self.span(start..at + 2);
                let error = SyntaxError::new("list-brackets", span, format!("`{word}[]` is not part of the language"));
                return error.help(format!("write `list<{word}>`")).fix(span, format!("list<{word}>"));
            }
            let error = SyntaxError::new("unquoted-start", self.here(1), "a bracket within a text that has no quotes");
            return error.help("within `[…]` and `{…}`, put a text with brackets into quotes");
        }
        let brace = at - usize::from(text[..at].ends_with('{'));
        let inner = text[brace..].trim_start_matches('{');
        if text[brace..].starts_with('{') && inner.starts_with(['%', '#', ' ']) {
            let message = "a template within `[…]` or `{…}` needs quotes";
            return SyntaxError::new("unquoted-template", self.here(1), message).help("write `'{{ … }}'`");
        }
        let bracket = text[open..].chars().next().unwrap_or('[');
        let close = if bracket == '{' { '}' } else { ']' };
        let ended = text[at..].trim().is_empty();
        if ended || text[open..at].contains('\n') || matches!(self.stop.kind, ErrorKind::UnclosedFlowCollection { .. })
        {
            let span = self.span(open..open + bracket.len_utf8());
            let error = SyntaxError::new("unclosed-bracket", span, format!("this `{bracket}` is not closed"));
            let error = error.help(format!("close it with `{close}`; a text with brackets or commas needs quotes"));
            return if ended { error } else { error.related(self.here(1), "here it shows") };
        }
        let before = text[..at].trim_end();
        if before.ends_with(['"', '\'']) {
            if let Some(error) = self.optional_key() {
                return error;
            }
            let error = SyntaxError::new("text-after-quotes", self.here(1), "the text goes on after its quotes");
            return error.help("put the whole text into the other kind of quotes");
        }
        if text[at..].starts_with(':') {
            let error = SyntaxError::new("colon-in-text", self.here(1), "`: ` makes a key of the text before it");
            return error.help("put the whole text into quotes");
        }
        match text[at..].chars().next() {
            Some(c @ ('@' | '`' | '%' | '|' | '>' | '&' | '*' | '-')) => {
                let error = SyntaxError::new(
                    "unquoted-start",
                    self.here(1),
                    format!("a text that starts with `{c}` needs quotes"),
                );
                error.help("put the whole text into quotes")
            }
            _ => {
                let message = format!("expected `,` or `{close}` here");
                let error = SyntaxError::new("syntax", self.here(1), message);
                error.help("within `[…]` and `{…}`, put a text with commas, brackets or `: ` into quotes")
            }
        }
    }

    /// A `:` where no key can stand.
    fn colon(&self) -> (SyntaxError, Culprit) {
        let scalar = line_at(self.text, self.stop.last.0);
        let here = line_at(self.text, self.stop.at);
        if scalar.start == here.start {
            let message = "`: ` within a text that has no quotes makes a key of what is before it";
            let error = SyntaxError::new("colon-in-text", self.here(1), message);
            return (self.quote_it(error), Culprit { offset: self.stop.at, whole_line: false });
        }
        let last = &self.text[self.stop.last.0..scalar.end.max(self.stop.last.0)];
        if self.stop.last_is_value {
            let lead = self.text[here.clone()].len() - self.text[here.clone()].trim_start().len();
            let span = self.span(here.start + lead..self.stop.at);
            let message = "this key is further in than the key before it, which has a value already";
            let error = SyntaxError::new("bad-indentation", span, message);
            let error = error.related(self.span(self.stop.last.0..scalar.end), "the value of the key before it");
            let error = error.help("keys of one mapping begin in one column; a text that goes on needs quotes");
            return (error, Culprit { offset: self.stop.at, whole_line: true });
        }
        let offset = self.stop.last.0;
        (self.no_colon(offset, last.trim_end()), Culprit { offset, whole_line: true })
    }

    /// A line without `: ` where a key is expected.
    fn no_colon(&self, at: usize, line: &str) -> SyntaxError {
        let span = self.span(at..at + line.len());
        let tight =
            line.find(':').filter(|colon| line[..*colon].chars().all(|c| c.is_alphanumeric() || "_-?".contains(c)));
        if let Some(colon) = tight.filter(|colon| *colon > 0) {
            let place = self.span(at + colon..at + colon + 1);
            let error = SyntaxError::new("missing-space", place, "a `:` needs a space after it");
            let cure = format!("write `{}: {}`", &line[..colon], &line[colon + 1..]);
            return error.help(cure).fix(place, ": ");
        }
        let error = SyntaxError::new("missing-colon", span, "expected `key: value`");
        let name = line.split([' ', '=']).next().unwrap_or("");
        let assigned = line.contains(" = ");
        if assigned {
            return error.help(format!("YAML writes `{name}: …`; `=` is for TOML files"));
        }
        error.help(format!("write `{name}: …`; a text on several lines needs a `|` block"))
    }

    /// Something else where a key or a list item is expected.
    fn key_expected(&self) -> (SyntaxError, Culprit) {
        let line = line_at(self.text, self.stop.at);
        let lead = self.text[line.clone()].len() - self.text[line.clone()].trim_start().len();
        let start = line.start + lead;
        let content = self.text[start..line.end].trim_end();
        let culprit = Culprit { offset: start, whole_line: true };
        let span = self.span(start..start + content.len());
        let parts = Parts::at(self.text, start);
        if matches!(self.stop.kind, ErrorKind::ExpectedBlockSequenceEntry) {
            let error = SyntaxError::new("bad-indentation", span, "expected `- …`, as the items before it");
            return (error.help("a list's items all begin with `- `, in one column"), culprit);
        }
        if content == "-" || content.starts_with("- ") {
            let error = SyntaxError::new("bad-indentation", span, "a list item stands where a key is expected");
            return (error.help("indent it below the key of its list"), culprit);
        }
        let case = Case { parts: parts.clone(), ..*self };
        match case.value().chars().next() {
            Some('[' | '{') => return (case.after_bracket(), Culprit { offset: start, whole_line: false }),
            Some('*' | '&') => return (case.start(), Culprit { offset: start, whole_line: false }),
            _ => {}
        }
        if parts.key.is_some() {
            let error = SyntaxError::new("bad-indentation", span, "this line begins in no column that is open");
            return (error.help("keys of one mapping begin in one column"), culprit);
        }
        (self.no_colon(start, content), culprit)
    }

    /// A text that begins with a character that means something else.
    fn start(&self) -> SyntaxError {
        let first = self.text[self.stop.at..].chars().next().unwrap_or(' ');
        if self.stop.at != self.parts.value.start {
            if self.value().starts_with(['[', '{']) {
                return self.after_bracket();
            }
            if !matches!(self.value().chars().next(), Some('|' | '>' | '&' | '*')) {
                return self.other();
            }
        }
        let lead = self.value().chars().next().unwrap_or(first);
        let start = self.parts.value.start;
        if matches!(lead, ' ' | '\n') || lead.is_control() {
            return self.other();
        }
        let span = self.span(start..start + lead.len_utf8());
        let error = SyntaxError::new("unquoted-start", span, format!("a text that starts with `{lead}` needs quotes"));
        let error = if matches!(lead, '|' | '>') {
            error.help(format!("a block begins on the line after `{lead}`"))
        } else {
            error
        };
        self.quote_it(error)
    }

    /// `[x] y`: the bracket ends the value, then more comes.
    fn after_bracket(&self) -> SyntaxError {
        let value = self.parts.value.clone();
        let at = self.stop.at.clamp(value.start, value.end);
        // The parser may point at the line's beginning.
        let close = self.value().find([']', '}']).map_or(value.start, |at| value.start + at + 1);
        let rest = &self.text[close..value.end];
        let at = if at <= close { close + rest.len() - rest.trim_start().len() } else { at };
        let end = at + self.text[at..value.end].chars().next().map_or(0, char::len_utf8);
        let error = SyntaxError::new("unquoted-start", self.span(at..end), "the text goes on after its bracket");
        self.quote_it(error)
    }

    fn other(&self) -> SyntaxError {
        if let ErrorKind::UnexpectedCharacter { character } = self.stop.kind {
            let message = format!("the character `{}` cannot stand here", character.escape_debug());
            let error = SyntaxError::new("syntax", self.here(1), message);
            return error.help("if it is text, put the whole text into quotes");
        }
        if self.value().starts_with(['[', '{']) {
            let error = SyntaxError::new("unquoted-start", self.here(1), "the text goes on after its bracket");
            return self.quote_it(error);
        }
        let error = SyntaxError::new("syntax", self.here(1), format!("this is not YAML: {}", words(&self.stop.kind)));
        if self.value().starts_with('!') {
            let start = self.parts.value.start;
            return traps::tag(self.source, self.span(start..start + 1), self.stop.key.as_deref());
        }
        match &self.stop.key {
            Some(key) => error.help(format!("if the value of `{key}` is text, put it into quotes or a `|` block")),
            None => error,
        }
    }
}

/// The name of an error kind as words: `InvalidTagEscape` is `invalid tag escape`.
fn words(kind: &ErrorKind) -> String {
    let name = format!("{kind:?}");
    let name = name.split([' ', '{', '(']).next().unwrap_or("");
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.extend(c.to_lowercase());
    }
    out
}
