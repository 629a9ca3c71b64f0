//! TOML to the tree, over the recovering parser of `toml`.
//!
//! The parser goes on after errors and invents values; a value with an error in it becomes a hole, and of several
//! errors within one value only the first is told, since the others follow from it.

use toml::Spanned as Placed;
use toml::de::{DeInteger, DeTable, DeValue};

use super::mask::line_at;
use super::{
    DEPTH_MAX, ERRORS_MAX, Entry, FileId, Map, NODES_MAX, Node, NodeKind, Source, Span, Spanned, Style, SyntaxError,
    Text, place, traps,
};

/// Reads a TOML file; see [`read`](super::read).
pub(super) fn read(id: FileId, source: &Source) -> (Option<Node>, Vec<SyntaxError>) {
    let (table, found) = DeTable::parse_recoverable(source.text());
    let mut wrong: Vec<(usize, usize, String)> = Vec::new();
    for error in &found {
        let range = error.span().unwrap_or(0..0);
        let start = floor(source.text(), range.start);
        wrong.push((start, floor(source.text(), range.end).max(start), error.message().to_owned()));
    }
    wrong.sort();
    let starts = wrong.iter().map(|(start, ..)| *start).collect();
    let mut reader = Reader { id, source, starts, spoiled: Vec::new(), errors: Vec::new(), nodes: 0 };
    let root = Span::new(id, source.content_start(), source.text().len() as u32);
    let map = reader.table(table.get_ref(), 1);
    let mut told = Told::default();
    for (start, end, message) in wrong.into_iter().take(ERRORS_MAX) {
        if told.is_new(start, source.text(), &reader.spoiled) {
            let error = reader.explain(start, end, &message, table.get_ref());
            reader.errors.push(error);
        }
    }
    reader.errors.sort_by_key(|error| (error.span.start, error.span.end));
    reader.errors.truncate(ERRORS_MAX);
    (Some(Node::new(NodeKind::Map(map), root)), reader.errors)
}

/// Which errors were told already.
#[derive(Default)]
struct Told {
    line: Option<usize>,
    value: Option<(usize, usize)>,
}

impl Told {
    /// Whether an error is the first of its line and of its value.
    fn is_new(&mut self, at: usize, text: &str, values: &[(usize, usize)]) -> bool {
        let line = line_at(text, at).start;
        let value = values.iter().copied().find(|(start, end)| *start <= at && at <= *end);
        let known = self.line == Some(line) || self.value.is_some_and(|(_, end)| at <= end);
        self.line = Some(line);
        if value.is_some() {
            self.value = value;
        }
        !known
    }
}

/// The nearest character boundary at or before an offset.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

struct Reader<'a> {
    id: FileId,
    source: &'a Source,
    /// Where the parser found errors, ascending.
    starts: Vec<usize>,
    /// Values that became holes: their bytes.
    spoiled: Vec<(usize, usize)>,
    errors: Vec<SyntaxError>,
    nodes: usize,
}

impl Reader<'_> {
    fn span(&self, range: std::ops::Range<usize>) -> Span {
        let (start, end) = (floor(self.source.text(), range.start), floor(self.source.text(), range.end));
        Span::new(self.id, start as u32, end.max(start) as u32)
    }

    fn table(&mut self, table: &DeTable<'_>, depth: usize) -> Map {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| (key.span().start, key.span().end));
        let mut map = Map::default();
        for (key, value) in entries {
            let span = self.span(key.span());
            if key.get_ref().is_empty() && span.is_empty() {
                map.incomplete = true;
                continue;
            }
            let key = Spanned::new(key.get_ref().to_string(), span);
            let value = self.value(value, depth);
            map.entries.push(Entry { key, value });
        }
        let held = map.entries.len();
        map.incomplete |= held == 0 && !self.starts.is_empty();
        map
    }

    fn value(&mut self, value: &Placed<DeValue<'_>>, depth: usize) -> Node {
        let span = self.span(value.span());
        self.nodes += 1;
        if depth > DEPTH_MAX && matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_)) {
            let message = format!("lists and mappings are nested deeper than {DEPTH_MAX}");
            return self.refuse(SyntaxError::new("too-deep", span, message).help("name inner parts and refer to them"));
        }
        if self.nodes > NODES_MAX {
            if self.nodes == NODES_MAX + 1 {
                let error =
                    SyntaxError::new("too-many-nodes", span, format!("the file holds more than {NODES_MAX} values"));
                return self.refuse(error.help("split the file and `import` the parts"));
            }
            return Node::hole(span);
        }
        if self.is_spoiled(value, span) {
            self.spoiled.push((span.start as usize, span.end as usize));
            return Node::hole(span);
        }
        let kind = match value.get_ref() {
            DeValue::String(text) => NodeKind::Text(place::toml_string(text, self.source.text(), span)),
            DeValue::Integer(number) => integer(number),
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => NodeKind::Float(number),
                _ => {
                    let message = format!("`{}` is not a number that JSON knows", self.source.slice(span));
                    return self
                        .refuse(SyntaxError::new("non-finite-number", span, message).help("write a finite number"));
                }
            },
            DeValue::Boolean(truth) => NodeKind::Bool(*truth),
            DeValue::Datetime(_) => {
                let spelling = self.source.slice(span);
                NodeKind::Text(Text::verbatim(spelling, span, Style::Plain, span.start))
            }
            DeValue::Array(items) => NodeKind::List(items.iter().map(|item| self.value(item, depth + 1)).collect()),
            DeValue::Table(table) => NodeKind::Map(self.table(table, depth + 1)),
        };
        Node::new(kind, span)
    }

    fn refuse(&mut self, error: SyntaxError) -> Node {
        let span = error.span;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
        Node::hole(span)
    }

    /// Whether an error lies in a value, or after it in its line. A table under its own header is not one value.
    fn is_spoiled(&self, value: &Placed<DeValue<'_>>, span: Span) -> bool {
        let (start, text) = (span.start as usize, self.source.text());
        let headed = match value.get_ref() {
            DeValue::Table(_) => !text[start..].starts_with('{'),
            DeValue::Array(items) => items.iter().next().is_some_and(|item| item.span() == value.span()),
            _ => false,
        };
        if headed {
            return false;
        }
        let next = self.starts.partition_point(|at| *at < start);
        let Some(at) = self.starts.get(next) else { return false };
        *at <= span.end as usize || self.follows(*at, span)
    }

    /// Whether nothing but blanks stands between a value and an error, so that what goes on is part of the value.
    fn follows(&self, at: usize, span: Span) -> bool {
        let between = self.source.text().get(span.end as usize..at).unwrap_or("-");
        between.bytes().all(|byte| matches!(byte, b' ' | b'\t'))
    }

    /// The parser's error in our words.
    fn explain(&self, start: usize, end: usize, message: &str, root: &DeTable<'_>) -> SyntaxError {
        let text = self.source.text();
        let span = self.span(start..end);
        let line = line_at(text, start);
        if message.starts_with("duplicate key") {
            let name = self.source.slice(span);
            let error = SyntaxError::new("duplicate-key", span, format!("the key `{name}` is there already"));
            let error = error.help("delete one of the two, or rename it");
            return match self.first_of(root, name, start) {
                Some(first) => error.related(first, "it was first given here"),
                None => error,
            };
        }
        if text[start..].starts_with('?') {
            let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
            let from = start - (text[..start].len() - text[..start].trim_end_matches(word).len());
            let key = self.span(from..start + 1);
            let cure = format!("\"{}\"", self.source.slice(key));
            let error = SyntaxError::new("toml-key", key, "in TOML a key with `?` needs quotes");
            return error.help(format!("write `{cure}`")).fix(key, cure);
        }
        let value_at = text[line.clone()].find('=').map_or(line.end, |at| line.start + at + 1);
        let value = text.get(value_at..line.end).unwrap_or("").trim();
        if value.starts_with("{{") || value.starts_with("{%") {
            let at = value_at + text[value_at..line.end].find('{').unwrap_or(0);
            let error = SyntaxError::new("unquoted-template", self.span(at..at + 2), "in TOML a template needs quotes");
            let cure = traps::quoted(value);
            return error.help(format!("write {cure}"));
        }
        if start >= value_at && value.starts_with(|c: char| c.is_alphabetic() || c == '/') && !value.contains('#') {
            let at = value_at + text[value_at..line.end].find(value).unwrap_or(0);
            let place = self.span(at..at + value.len());
            let error = SyntaxError::new("toml-syntax", place, "in TOML a text needs quotes");
            let cure = if value.contains('"') { format!("'{value}'") } else { format!("\"{value}\"") };
            return if value.contains(['\'', '"', '\\']) {
                error.help("put the whole text into quotes")
            } else {
                error.help(format!("write {cure}")).fix(place, cure)
            };
        }
        let error = SyntaxError::new("toml-syntax", span, message);
        let before_equals = &text[line.start..line.end.min(value_at)];
        if !before_equals.contains('=') && text[line].contains(':') {
            return error.help("TOML writes `key = value`; `key: value` is for YAML files");
        }
        error
    }

    /// The last place before `at` where a key of this name, or a table's header, stands.
    fn first_of(&self, root: &DeTable<'_>, name: &str, at: usize) -> Option<Span> {
        let text = self.source.text();
        let header = text[line_at(text, at)].trim();
        if header.starts_with('[') {
            let before = &text[..line_at(text, at).start];
            let found = before.lines().position(|line| line.trim() == header)?;
            let start: usize = before.split_inclusive('\n').take(found).map(str::len).sum();
            return Some(self.span(start..start + header.len()));
        }
        let mut found = None;
        let mut open = vec![root];
        while let Some(table) = open.pop() {
            for (key, value) in table {
                let place = key.span();
                if key.get_ref() == name.trim_matches(['"', '\'']) && place.start < at {
                    found = found.max(Some((place.start, place.end)));
                }
                match value.get_ref() {
                    DeValue::Table(inner) => open.push(inner),
                    DeValue::Array(items) => open.extend(items.iter().filter_map(|item| item.get_ref().as_table())),
                    _ => {}
                }
            }
        }
        found.map(|(start, end)| self.span(start..end))
    }
}

/// A whole number; beyond 64 bits a float.
fn integer(number: &DeInteger<'_>) -> NodeKind {
    let digits = number.as_str();
    match i64::from_str_radix(digits, number.radix()) {
        Ok(number) => NodeKind::Int(number),
        Err(_) => {
            let base = f64::from(number.radix());
            let digit =
                |sum: f64, c: char| c.to_digit(number.radix()).map_or(sum, |digit| sum * base + f64::from(digit));
            let size = digits.chars().fold(0.0, digit);
            NodeKind::Float(if digits.starts_with('-') { -size } else { size })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> (Option<serde_json::Value>, Vec<(&'static str, String)>) {
        let source = Source::new("a.toml", text);
        let (root, errors) = super::super::read(FileId(0), &source);
        let shown = errors.iter().map(|error| (error.code, source.slice(error.span).to_owned())).collect();
        (root.map(|root| root.to_json()), shown)
    }

    #[test]
    fn tables_keep_the_order_of_the_file() {
        let (root, errors) = codes("z = 1\na.b = 2\n[m]\nx = 0x1F\nd = 1979-05-27\n[[l]]\nk = 1.5\n[[l]]\n");
        assert_eq!(errors, []);
        let expected = r#"{"z":1,"a":{"b":2},"m":{"x":31,"d":"1979-05-27"},"l":[{"k":1.5},{}]}"#;
        assert_eq!(root.unwrap().to_string(), expected);
    }

    #[test]
    fn independent_errors_are_told_once_each() {
        let text = "age? = 'x'\na = 1\na = 2\nb = no\nc = \"x\\q\"\nd = [1 2, 3 = 4]\ne = {{ x }}\nf = inf\n";
        let (root, errors) = codes(text);
        let expected = ["toml-key", "duplicate-key", "toml-syntax", "toml-syntax", "toml-syntax", "unquoted-template"];
        assert_eq!(errors.iter().map(|(code, _)| *code).take(6).collect::<Vec<_>>(), expected);
        assert_eq!(errors[0].1, "age?");
        assert_eq!(errors[6].0, "non-finite-number");
        assert_eq!(root.unwrap()["a"], 1);
    }
}
