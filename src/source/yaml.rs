//! YAML to the tree, over the events of `granit-parser`.

use granit_parser::{Event, Parser, ScalarStyle};
use indexmap::IndexMap;

use super::{Entry, FileId, Map, Node, NodeKind, Source, Span, Spanned, Style, SyntaxError, scalar};

enum Open {
    List(Vec<Node>, Span, usize),
    Map(Map, Option<Spanned<String>>, Span, usize),
}

/// Reads a YAML file.
pub(super) fn read(id: FileId, source: &Source) -> (Option<Node>, Vec<SyntaxError>) {
    let text = source.text();
    let base = source.content_start() as usize;
    let mut stack: Vec<Open> = Vec::new();
    let mut errors = Vec::new();
    let mut root = None;
    let mut anchors: IndexMap<usize, Node> = IndexMap::new();
    for event in Parser::new_from_str(&text[base..]) {
        let (event, place) = match event {
            Ok(found) => found,
            Err(error) => {
                let at = (base + error.marker().byte_offset().unwrap_or(0)) as u32;
                errors.push(SyntaxError::new("syntax", Span::empty(id, at), "this is not YAML"));
                break;
            }
        };
        let range = place.byte_range().unwrap_or(0..0);
        let span = Span::new(id, (base + range.start) as u32, (base + range.end) as u32);
        let mut node = match event {
            Event::Scalar(value, style, anchor, _) => {
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted => Style::Single,
                    ScalarStyle::DoubleQuoted => Style::Double,
                    ScalarStyle::Literal => Style::Literal,
                    ScalarStyle::Folded => Style::Folded,
                };
                let plain = if style == Style::Plain { scalar::core_schema(&value) } else { None };
                let kind = plain.unwrap_or_else(|| {
                    NodeKind::Text(scalar::placed(value.into_owned(), source.slice(span), span, style))
                });
                let node = Node::new(kind, span);
                if anchor > 0 {
                    anchors.insert(anchor, node.clone());
                }
                Some(node)
            }
            Event::SequenceStart(_, anchor, _) => {
                stack.push(Open::List(Vec::new(), span, anchor));
                None
            }
            Event::MappingStart(_, anchor, _) => {
                stack.push(Open::Map(Map::default(), None, span, anchor));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => stack.pop().map(|open| {
                let (kind, start, anchor) = match open {
                    Open::List(items, start, anchor) => (NodeKind::List(items), start, anchor),
                    Open::Map(map, _, start, anchor) => (NodeKind::Map(map), start, anchor),
                };
                let node = Node::new(kind, start.to(span));
                if anchor > 0 {
                    anchors.insert(anchor, node.clone());
                }
                node
            }),
            Event::Alias(anchor) => anchors.get(&anchor).cloned(),
            _ => None,
        };
        if let Some(done) = node.take() {
            match stack.last_mut() {
                None => root = Some(done),
                Some(Open::List(items, ..)) => items.push(done),
                Some(Open::Map(map, key, ..)) => match key.take() {
                    Some(key) => map.entries.push(Entry { key, value: done }),
                    None => *key = Some(Spanned::new(source.slice(done.span).to_owned(), done.span)),
                },
            }
        }
    }
    (root, errors)
}
