//! The map from a string's value to the file: each style is decoded once more, piece by piece, beside the parser.
//!
//! The parser gives only the value. The decoders here follow the rules of each style and note where every piece comes
//! from; their value is compared with the parser's, and only when both agree is the map used. Should they ever
//! disagree, the string maps as a whole, which is coarse but never wrong.

use super::{Segment, Span, Style, Text};

/// A value under construction with the map to the file.
struct Builder<'a> {
    file: &'a str,
    value: String,
    segments: Vec<Segment>,
}

impl<'a> Builder<'a> {
    fn new(file: &'a str) -> Self {
        Self { file, value: String::new(), segments: Vec::new() }
    }

    /// The file's bytes `start..end` as they are.
    fn verbatim(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        let (value, len) = (self.value.len() as u32, (end - start) as u32);
        self.value.push_str(&self.file[start..end]);
        match self.segments.last_mut() {
            Some(last) if last.value_len == last.file_len && last.file + last.file_len == start as u32 => {
                last.value_len += len;
                last.file_len += len;
            }
            _ => self.segments.push(Segment { value, value_len: len, file: start as u32, file_len: len }),
        }
    }

    /// `text`, which the file's bytes `start..end` stand for as a whole.
    fn replaced(&mut self, text: &str, start: usize, end: usize) {
        if text.is_empty() {
            return;
        }
        let (value, value_len) = (self.value.len() as u32, text.len() as u32);
        self.value.push_str(text);
        self.segments.push(Segment { value, value_len, file: start as u32, file_len: (end - start) as u32 });
    }

    /// The finished string when its value is what the parser says, else the parser's value mapped as a whole.
    fn finish(self, expected: &str, span: Span, style: Style) -> Text {
        if self.value == expected {
            return Text::with_segments(self.value, span, style, self.segments);
        }
        let whole =
            Segment { value: 0, value_len: expected.len() as u32, file: span.start, file_len: span.len() as u32 };
        // Equal lengths would be read as byte by byte.
        let segments = if whole.value_len == whole.file_len { Vec::new() } else { vec![whole] };
        Text::with_segments(expected, span, style, segments)
    }
}

/// The place of a YAML scalar in plain style or quotes. `span` is what the parser gives: the scalar with its quotes.
pub(super) fn yaml_flow(value: &str, file: &str, span: Span, style: Style) -> Text {
    let (start, end) = (span.start as usize, span.end as usize);
    if style == Style::Plain {
        if file.get(start..end) == Some(value) {
            return Text::verbatim(value, span, style, span.start);
        }
        return flow(file, start, end, style).finish(value, span, style);
    }
    let quoted = file.get(start..end).is_some_and(|raw| raw.len() >= 2);
    let (start, end) = if quoted { (start + 1, end - 1) } else { (end, end) };
    flow(file, start, end, style).finish(value, span, style)
}

/// Decodes the inside of a flow scalar, `start..end` of the file.
fn flow(file: &str, start: usize, end: usize, style: Style) -> Builder<'_> {
    let mut out = Builder::new(file);
    let bytes = file.as_bytes();
    let (mut at, mut run) = (start, start);
    while at < end {
        match (bytes[at], style) {
            (b'\n' | b'\r', _) => {
                // Blanks before the break are not content, unless they came out of an escape.
                let kept = run + trimmed_len(&file[run..at]);
                out.verbatim(run, kept);
                let (next, breaks) = skip_breaks(bytes, at, end);
                out.replaced(&folded(breaks), kept, next);
                (at, run) = (next, next);
            }
            (b'\'', Style::Single) => {
                out.verbatim(run, at);
                out.replaced("'", at, (at + 2).min(end));
                at = (at + 2).min(end);
                run = at;
            }
            (b'\\', Style::Double) => {
                out.verbatim(run, at);
                at = escape(&mut out, at, end, yaml_escape);
                run = at;
            }
            _ => at += 1,
        }
    }
    out.verbatim(run, end);
    out
}

/// The length of a text without the spaces and tabs at its end.
fn trimmed_len(text: &str) -> usize {
    text.trim_end_matches([' ', '\t']).len()
}

/// From a line break on: where content goes on, and how many breaks were passed.
fn skip_breaks(bytes: &[u8], mut at: usize, end: usize) -> (usize, usize) {
    let mut breaks = 0;
    while at < end {
        match bytes[at] {
            b'\r' if at + 1 < end && bytes[at + 1] == b'\n' => {}
            b'\n' | b'\r' => breaks += 1,
            b' ' | b'\t' => {}
            _ => break,
        }
        at += 1;
    }
    (at, breaks)
}

/// What folding makes of line breaks: one is a space, more are one fewer.
fn folded(breaks: usize) -> String {
    if breaks <= 1 { " ".to_owned() } else { "\n".repeat(breaks - 1) }
}

/// Decodes the escape at `at`, a backslash; returns where it ends.
fn escape(out: &mut Builder<'_>, at: usize, end: usize, simple: fn(u8) -> Option<&'static str>) -> usize {
    let bytes = out.file.as_bytes();
    let Some(kind) = bytes.get(at + 1).copied().filter(|_| at + 1 < end) else { return end };
    let digits = match kind {
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        b'\n' | b'\r' | b' ' | b'\t' if is_line_end(bytes, at + 1, end) => {
            return skip_continuation(bytes, at + 1, end, out);
        }
        _ => {
            if let Some(text) = simple(kind) {
                out.replaced(text, at, at + 2);
                return at + 2;
            }
            // Not an escape; the value will differ from the parser's, and the string maps as a whole.
            return at + 1 + out.file[at + 1..].chars().next().map_or(1, char::len_utf8);
        }
    };
    let hex = |from: usize| u32::from_str_radix(out.file.get(from..from + digits)?, 16).ok();
    let mut stop = at + 2 + digits;
    let mut code = hex(at + 2).unwrap_or(0);
    if (0xD800..0xDC00).contains(&code) && out.file.get(stop..stop + 2) == Some("\\u") {
        let low = hex(stop + 2).unwrap_or(0);
        code = 0x10000 + ((code - 0xD800) << 10) + (low.wrapping_sub(0xDC00) & 0x3FF);
        stop += 6;
    }
    let text = char::from_u32(code).map(String::from).unwrap_or_default();
    let stop = stop.min(end);
    out.replaced(&text, at, stop);
    stop
}

/// Whether only blanks stand between `at` and the line's end, and the line does end.
fn is_line_end(bytes: &[u8], at: usize, end: usize) -> bool {
    let rest = bytes[at..end].iter().find(|byte| !matches!(byte, b' ' | b'\t'));
    matches!(rest, Some(b'\n' | b'\r'))
}

/// An escaped line break: the break and the next line's indentation go, empty lines after it stay.
fn skip_continuation(bytes: &[u8], at: usize, end: usize, out: &mut Builder<'_>) -> usize {
    let (next, breaks) = skip_breaks(bytes, at, end);
    out.replaced(&"\n".repeat(breaks.saturating_sub(1)), at, next);
    next
}

fn yaml_escape(kind: u8) -> Option<&'static str> {
    Some(match kind {
        b'0' => "\0",
        b'a' => "\u{7}",
        b'b' => "\u{8}",
        b't' | b'\t' => "\t",
        b'n' => "\n",
        b'v' => "\u{b}",
        b'f' => "\u{c}",
        b'r' => "\r",
        b'e' => "\u{1b}",
        b' ' => " ",
        b'"' => "\"",
        b'/' => "/",
        b'\\' => "\\",
        b'N' => "\u{85}",
        b'_' => "\u{a0}",
        b'L' => "\u{2028}",
        b'P' => "\u{2029}",
        _ => return None,
    })
}

/// The place of a block scalar. The parser's span begins at the first content, after the indentation; the result's
/// span begins at the indicator (`|` or `>`) and ends with the last line that is not empty.
pub(super) fn yaml_block(value: &str, file: &str, span: Span, style: Style) -> Text {
    let Some(header) = find_header(file, span.start as usize, style) else {
        return Builder::new(file).finish(value, span, style);
    };
    let end = span.end as usize;
    let lines = block_lines(file, header.body, end);
    let first = lines.iter().find(|line| !file[line.start..line.end].trim_matches(' ').is_empty());
    let indent = first.map_or(0, |line| (span.start as usize).saturating_sub(line.start));
    let stop =
        lines.iter().rfind(|line| !file[line.start..line.end].trim().is_empty()).map_or(header.end, |line| line.end);
    let whole = Span::new(span.file, header.at as u32, stop.max(header.end) as u32);
    let content: Vec<Line> = lines.iter().map(|line| line.without_indent(file, indent)).collect();
    let mut out = Builder::new(file);
    match style {
        Style::Folded => fold_lines(&mut out, &content, value),
        _ => keep_lines(&mut out, &content, value),
    }
    out.finish(value, whole, style)
}

struct Header {
    /// The indicator.
    at: usize,
    /// After the indicator with its modifiers.
    end: usize,
    /// After the header's line.
    body: usize,
}

/// One line: its bytes without the break, and where the next begins.
#[derive(Clone, Copy)]
struct Line {
    start: usize,
    end: usize,
    next: usize,
}

impl Line {
    fn without_indent(self, file: &str, indent: usize) -> Line {
        let blanks = file[self.start..self.end].bytes().take(indent).take_while(|byte| *byte == b' ').count();
        Line { start: self.start + blanks, ..self }
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// Goes back from the content to the line with the indicator; only empty lines and comments can lie between.
fn find_header(file: &str, content: usize, style: Style) -> Option<Header> {
    let indicator = if style == Style::Folded { '>' } else { '|' };
    let mut end = content;
    loop {
        let start = file[..end].rfind('\n').map_or(0, |at| at + 1);
        let line = file[start..end].trim_end_matches(['\r', '\n']);
        for (at, _) in line.match_indices(indicator) {
            if at > 0 && !line[..at].ends_with([' ', '\t']) {
                continue;
            }
            let rest = line[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
            let modifiers = line.len() - at - 1 - rest.len();
            let bare =
                rest.trim_matches([' ', '\t']).is_empty() || rest.trim_start_matches([' ', '\t']).starts_with('#');
            if modifiers <= 2 && bare && end != content {
                let body = file[start + at..].find('\n').map_or(file.len(), |to| start + at + to + 1);
                return Some(Header { at: start + at, end: start + at + 1 + modifiers, body });
            }
        }
        let skippable = line.trim().is_empty() || line.trim_start().starts_with('#') || end == content;
        if start == 0 || !skippable {
            return None;
        }
        end = start - 1;
        if end == content {
            return None;
        }
    }
}

/// The lines of `start..end`.
fn block_lines(file: &str, start: usize, end: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut at = start;
    while at < end {
        let stop = file[at..end].find('\n').map_or(end, |to| at + to);
        let next = (stop + 1).min(end.max(stop));
        let text_end = if file[at..stop].ends_with('\r') { stop - 1 } else { stop };
        lines.push(Line { start: at, end: text_end, next });
        at = stop + 1;
    }
    lines
}

/// `|`: every line with its break.
fn keep_lines(out: &mut Builder<'_>, lines: &[Line], value: &str) {
    for line in lines {
        if out.value.len() >= value.len() {
            break;
        }
        out.verbatim(line.start, line.end);
        if value[..].get(out.value.len()..).is_some_and(|rest| rest.starts_with('\n')) {
            out.replaced("\n", line.end, line.next.max(line.end));
        }
    }
}

/// `>`: what stands between two lines with content is read off the parser's value, the lines themselves are verbatim.
fn fold_lines(out: &mut Builder<'_>, lines: &[Line], value: &str) {
    let mut gap = lines.first().map_or(0, |line| line.start);
    for line in lines.iter().filter(|line| !line.is_empty()) {
        joint(out, value, gap, line.start);
        if out.value.len() >= value.len() {
            return;
        }
        out.verbatim(line.start, line.end);
        gap = line.end;
    }
    let end = lines.last().map_or(gap, |line| line.next);
    joint(out, value, gap, end);
}

/// The breaks of the value that the file's `start..end` stands for: one space, or line breaks.
fn joint(out: &mut Builder<'_>, value: &str, start: usize, end: usize) {
    let Some(rest) = value.get(out.value.len()..) else { return };
    let breaks = rest.bytes().take_while(|byte| *byte == b'\n').count();
    if breaks > 0 {
        out.replaced(&"\n".repeat(breaks), start, end.max(start));
    } else if rest.starts_with(' ') && !out.value.is_empty() && start < end {
        out.replaced(" ", start, end);
    }
}

/// The place of a TOML string with its quotes, and its style.
pub(super) fn toml_string(value: &str, file: &str, span: Span) -> Text {
    let raw = file.get(span.range()).unwrap_or("");
    let (quote, style) = if raw.starts_with('\'') { ('\'', Style::Single) } else { ('"', Style::Double) };
    let triple: String = [quote; 3].iter().collect();
    let width = if raw.len() >= 6 && raw.starts_with(&triple) { 3 } else { 1 };
    if raw.len() < 2 * width || !raw.starts_with(quote) {
        return Text::verbatim(value, span, Style::Plain, span.start);
    }
    let (mut start, end) = (span.start as usize + width, span.end as usize - width);
    if width == 3 {
        let inside = &file[start..end];
        start += if inside.starts_with("\r\n") { 2 } else { usize::from(inside.starts_with('\n')) };
    }
    let mut out = Builder::new(file);
    let (mut at, mut run) = (start, start);
    while style == Style::Double && at < end {
        if file.as_bytes()[at] == b'\\' {
            out.verbatim(run, at);
            at = if is_line_end(file.as_bytes(), at + 1, end) {
                skip_breaks(file.as_bytes(), at + 1, end).0
            } else {
                escape(&mut out, at, end, toml_escape)
            };
            run = at;
        } else {
            at += 1;
        }
    }
    out.verbatim(run, end);
    out.finish(value, span, style)
}

fn toml_escape(kind: u8) -> Option<&'static str> {
    Some(match kind {
        b'b' => "\u{8}",
        b't' => "\t",
        b'n' => "\n",
        b'f' => "\u{c}",
        b'r' => "\r",
        b'e' => "\u{1b}",
        b'"' => "\"",
        b'\\' => "\\",
        _ => return None,
    })
}
