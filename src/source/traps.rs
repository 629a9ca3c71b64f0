//! Traps of YAML that show only in the shape of what was read (language.md 12).
//!
//! The reader itself reports those that are never meant (a comma that split a call in brackets, a comment that cut a
//! quoted text). The public functions are for the layers that know what was expected; they say whether a node looks
//! like the trap, and the caller words the message.

use super::{Map, Node, NodeKind, Source, Span, Style, SyntaxError, Text};

/// Keys whose values are expressions; only there is `!x` certainly meant as `not x`.
const EXPRESSION_KEYS: &[&str] =
    &["when", "pre", "post", "until", "expr", "check", "end", "cost", "value", "conditions"];

/// Whether a node is what YAML made of an unquoted `{{ x }}`. The reader reports these and leaves a hole, so this is
/// true only of holes.
pub fn looks_like_template_mapping(node: &Node, source: &Source) -> bool {
    matches!(node.kind, NodeKind::Map(_) | NodeKind::Hole) && node.spelling(source).starts_with("{{")
}

/// The element's type of `Person[]`, which other languages write for `list<Person>`.
pub fn list_brackets(text: &str) -> Option<&str> {
    let name = text.trim().strip_suffix("[]")?.trim_end();
    let plain =
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '<' | '>' | '?'));
    plain.then_some(name)
}

/// The spelling of a value that is not a string but whose spelling would have been another text: `1.10` (read as
/// `1.1`), `0x1F`, `1e3`, `True`, `~`. For places where a string is expected: the cure is quotes.
pub fn lost_spelling<'a>(node: &Node, source: &'a Source) -> Option<&'a str> {
    let plain = match &node.kind {
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) => node.to_json().to_string(),
        _ => return None,
    };
    let spelling = node.spelling(source);
    (!spelling.is_empty() && spelling != plain).then_some(spelling)
}

/// Where a double-quoted text holds a backspace, as of `"\bword\b"`: a pattern that belongs into single quotes.
pub fn backspace(text: &Text) -> Option<Span> {
    if text.style != Style::Double {
        return None;
    }
    text.value.find('\u{8}').map(|at| text.span_of(at..at + 1))
}

/// A text in quotes as YAML: single ones where that needs no doubling, else double ones where that needs no escape.
pub fn quoted(text: &str) -> String {
    if !text.contains('\'') {
        format!("'{text}'")
    } else if !text.contains(['"', '\\']) {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// The error for a tag; `key` is whose value it stands in.
pub(super) fn tag(source: &Source, span: Span, key: Option<&str>) -> SyntaxError {
    let spelling = source.slice(span);
    let name = spelling.trim_start_matches('!');
    let error =
        SyntaxError::new("yaml-tag", span, format!("`{spelling}` is a YAML tag, which is not part of the language"));
    if spelling.starts_with('!') && !spelling.starts_with("!!") {
        let next = source.text()[span.start as usize + 1..].chars().next();
        let cure = if next.is_none_or(char::is_whitespace) { "not" } else { "not " };
        let example = format!("not {name}");
        let error = error.help(format!("in an expression write `{}`; a text needs quotes", example.trim_end()));
        let mark = Span::new(span.file, span.start, span.start + 1);
        return if key.is_some_and(|key| EXPRESSION_KEYS.contains(&key)) { error.fix(mark, cure) } else { error };
    }
    error.help("delete the tag; a text needs quotes")
}

/// The error for `{{ x }}` that was read as a mapping in a mapping.
pub(super) fn unquoted_template(source: &Source, span: Span) -> SyntaxError {
    let spelling = source.slice(span);
    let message = "to YAML this is a mapping in a mapping, not a template";
    let error = SyntaxError::new("unquoted-template", span, message);
    if spelling.contains('\n') || spelling.len() > 200 {
        return error.help("put the template into quotes, or write it as a `|` block");
    }
    let cure = quoted(spelling);
    error.help(format!("put the template into quotes: {cure}")).fix(span, cure)
}

/// The error for a plain text that a comment cut in two: it has an open quote or brace, and the comment closes it.
pub(super) fn comment_in_text(value: &str, source: &Source, span: Span) -> Option<SyntaxError> {
    let text = source.text();
    let rest = &text[span.end as usize..];
    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    // Looked at first, so that a long line with many texts is not searched again for each of them.
    if blanks == 0 || !rest[blanks..].starts_with('#') {
        return None;
    }
    let line_end = rest.find('\n').map_or(text.len(), |at| span.end as usize + at);
    let comment = &text[span.end as usize + blanks..line_end];
    let open_double = value.matches('"').count() % 2 == 1 && comment.contains('"');
    let open_single = single_quotes(value) % 2 == 1 && single_quotes(comment) % 2 == 1;
    let open_brace = value.matches("{{").count() > value.matches("}}").count() && comment.contains("}}");
    if !(open_double || open_single || open_brace) {
        return None;
    }
    let at = (line_end - comment.len()) as u32;
    let place = Span::new(span.file, at, line_end as u32);
    let whole = text[span.start as usize..line_end].trim_end();
    let error = SyntaxError::new("comment-in-text", place, "` #` begins a comment; the text ends before it");
    let fix = Span::new(span.file, span.start, span.start + whole.len() as u32);
    let cure = quoted(whole);
    Some(error.help(format!("put the whole text into quotes: {cure}")).fix(fix, cure))
}

/// Single quotes that are not apostrophes within a word.
fn single_quotes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let letter = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    text.match_indices('\'').filter(|(at, _)| !(letter(at.checked_sub(1)) && letter(Some(at + 1)))).count()
}

/// The error for `[max(a, b) > 1]`: a comma within parentheses or quotes made two elements of one text.
pub(super) fn comma_in_list(items: &[Node], source: &Source) -> Option<SyntaxError> {
    split(items.iter(), source)
}

/// The same for `{when: max(a, b) > 1}`, where the part after the comma became a key without a value.
pub(super) fn comma_in_map(map: &Map, source: &Source) -> Option<SyntaxError> {
    let open = map.entries.iter().position(|entry| opens(&entry.value))?;
    let closed = map.entries[open + 1..].iter().position(|entry| entry.value.is_null() && closes(&entry.key.value))?;
    let (first, last) = (map.entries.get(open)?, map.entries.get(open + 1 + closed)?);
    Some(comma_error(first.value.span.to(last.key.span), source))
}

fn split<'a>(items: impl Iterator<Item = &'a Node>, source: &Source) -> Option<SyntaxError> {
    let items: Vec<&Node> = items.collect();
    let open = items.iter().position(|item| opens(item))?;
    let closed = items[open + 1..].iter().position(|item| plain(item).is_some_and(closes))?;
    Some(comma_error(items.get(open)?.span.to(items.get(open + 1 + closed)?.span), source))
}

fn comma_error(span: Span, source: &Source) -> SyntaxError {
    let error = SyntaxError::new("comma-in-text", span, "the comma splits this text in two");
    let spelling = source.slice(span);
    if spelling.contains('\n') {
        return error.help("within `[…]` and `{…}`, put a text with a comma into quotes");
    }
    let cure = quoted(spelling);
    error.help(format!("put the whole text into quotes: {cure}")).fix(span, cure)
}

fn plain(node: &Node) -> Option<&str> {
    node.as_text().filter(|text| text.style == Style::Plain).map(|text| text.value.as_str())
}

/// Whether a plain text has a parenthesis or a double quote that it does not close.
fn opens(node: &Node) -> bool {
    let balance = |text: &str| text.matches('(').count() > text.matches(')').count();
    plain(node).is_some_and(|text| balance(text) || text.matches('"').count() % 2 == 1)
}

/// Whether a text closes more than it opens.
fn closes(text: &str) -> bool {
    text.matches(')').count() > text.matches('(').count() || text.matches('"').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{FileId, read};

    #[test]
    fn shapes_are_recognised() {
        let source = Source::new("a.yaml", "version: 1.10\nn: 1.1\nx: 0x1F\npattern: \"\\bword\"\nt: {{ x }}\n");
        let (root, errors) = read(FileId(0), &source);
        assert_eq!(errors.iter().map(|error| error.code).collect::<Vec<_>>(), ["unquoted-template"]);
        let root = root.unwrap();
        let node = |key| &root.as_map().unwrap().get(key).unwrap().value;
        assert_eq!(lost_spelling(node("version"), &source), Some("1.10"));
        assert_eq!(lost_spelling(node("n"), &source), None);
        assert_eq!(lost_spelling(node("x"), &source), Some("0x1F"));
        assert_eq!(backspace(node("pattern").as_text().unwrap()).map(|span| source.slice(span)), Some("\\b"));
        assert!(looks_like_template_mapping(node("t"), &source));
        assert_eq!(list_brackets("Person[]"), Some("Person"));
        assert_eq!(list_brackets("x y[]"), None);
    }

    #[test]
    fn quoting_needs_the_fewest_marks() {
        assert_eq!(quoted("a: b"), "'a: b'");
        assert_eq!(quoted("'web' in tools"), "\"'web' in tools\"");
        assert_eq!(quoted("'a' \"b\""), "'''a'' \"b\"'");
    }
}
