//! YAML to the tree, over the events of `granit-parser`.
//!
//! The parser stops at its first error. To report all independent errors of a file, the reader names the error
//! ([`explain`](super::explain)), replaces the part that is wrong by blanks of the same length ([`mask`](super::mask)),
//! and reads again: offsets stay, the part becomes a hole, and nothing is reported that only follows from it.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};

use super::explain::{self, Stop};
use super::mask::{Mask, leading_tabs};
use super::{
    DEPTH_MAX, ERRORS_MAX, Entry, FileId, Map, NODES_MAX, Node, NodeKind, Source, Span, Spanned, Style, SyntaxError,
    place, scalar, traps,
};

/// The most times that a file is read again after a syntax error.
const READINGS_MAX: usize = 50;

/// The most bytes that are parsed for one file in all readings together.
const PARSED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most bytes of text that aliases may expand to.
const EXPANDED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maps with more entries than this look duplicate keys up in a set.
const SMALL_MAP: usize = 16;

/// Reads a YAML file; see [`read`](super::read).
pub(super) fn read(id: FileId, source: &Source) -> (Option<Node>, Vec<SyntaxError>) {
    let mut mask = Mask::new(source.text());
    let mut errors: Vec<SyntaxError> = Vec::new();
    let mut parsed = 0;
    let mut built = loop {
        let text = mask.text();
        parsed += text.len();
        let mut build = Build::new(id, source, &text, &mask);
        let stop = build.run();
        let built = build.finish();
        let Some(stop) = stop else { break built };
        let (error, mut culprit) = explain::explain(&stop, id, source);
        // The same error again: its value was not the part that is wrong.
        let again = errors.last().is_some_and(|last| last.code == error.code && last.span == error.span);
        culprit.whole_line |= again;
        let tabs = error.code == "tab-indentation";
        // An error on a line that was indented with tabs follows from the tabs.
        if !again && (!mask.tabs_replaced() || leading_tabs(source.text(), culprit.offset).is_empty()) {
            errors.push(error);
        }
        let progress = if tabs { mask.replace_tabs() } else { mask.cover(&culprit) };
        // After the end of the file's mapping every further line would be such an error.
        let over = matches!(stop.kind, granit_parser::ErrorKind::ExpectedDocumentStart);
        if !progress || over || errors.len() >= READINGS_MAX || parsed > PARSED_BYTES_MAX {
            break built;
        }
    };
    errors.append(&mut built.errors);
    errors.sort_by_key(|error| (error.span.start, error.span.end));
    errors.truncate(ERRORS_MAX);
    let root = built.root.or_else(|| {
        let empty = errors.is_empty();
        let span = Span::empty(id, source.content_start());
        empty.then(|| Node::new(NodeKind::Map(Map::default()), span))
    });
    (root, errors)
}

/// What a tree weighs when its aliases are expanded.
#[derive(Clone, Copy, Default)]
struct Weight {
    nodes: usize,
    bytes: usize,
    height: usize,
}

impl Weight {
    fn add(&mut self, child: Weight) {
        self.nodes = self.nodes.saturating_add(child.nodes);
        self.bytes = self.bytes.saturating_add(child.bytes);
        self.height = self.height.max(child.height + 1);
    }
}

/// A key that waits for its value.
enum Key {
    /// The value belongs to this key.
    Kept(Spanned<String>),
    /// The value is left out with its key.
    Dropped,
}

enum Content {
    List(Vec<Node>),
    Map { map: Map, key: Option<Key>, seen: BTreeMap<String, Span> },
}

/// A list or mapping that is not closed yet.
struct Frame {
    content: Content,
    start: usize,
    end: usize,
    flow: bool,
    anchor: usize,
    weight: Weight,
    /// Reported already as a whole; it becomes a hole.
    spoiled: bool,
    /// It looks like an unquoted `{{ x }}`; reported when it closes.
    template: bool,
}

/// The result of one reading.
struct Built {
    root: Option<Node>,
    errors: Vec<SyntaxError>,
}

/// One reading of the text.
struct Build<'a> {
    id: FileId,
    source: &'a Source,
    text: &'a str,
    mask: &'a Mask,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, (Node, Weight)>,
    errors: Vec<SyntaxError>,
    root: Option<Node>,
    total: Weight,
    documents: usize,
    /// How many collections are open below the deepest that is read.
    skipping: usize,
    last: (usize, usize),
    gap: usize,
}

impl<'a> Build<'a> {
    fn new(id: FileId, source: &'a Source, text: &'a str, mask: &'a Mask) -> Self {
        Self {
            id,
            source,
            text,
            mask,
            stack: Vec::new(),
            anchors: BTreeMap::new(),
            errors: Vec::new(),
            root: None,
            total: Weight::default(),
            documents: 0,
            skipping: 0,
            last: (0, 0),
            gap: 0,
        }
    }

    /// Reads until the end or until the parser stops.
    fn run(&mut self) -> Option<Stop> {
        let options = granit_parser::options! { emit_unresolved_aliases: true, emit_comments: false };
        for event in Parser::new_from_str_with_options(self.text, options) {
            let (event, place) = match event {
                Ok(found) => found,
                Err(error) => {
                    return Some(Stop {
                        kind: error.kind().clone(),
                        at: self.floor(error.marker().byte_offset().unwrap_or(self.last.1)),
                        last: self.last,
                        last_is_value: self.awaits_key(),
                        flow: self.stack.iter().find(|frame| frame.flow).map(|frame| frame.start),
                        key: self.pending_key(),
                    });
                }
            };
            let range = place.byte_range().unwrap_or(self.last.1..self.last.1);
            let (start, end) = (self.floor(range.start), self.floor(range.end));
            let tag = place.tag_span().and_then(|span| span.byte_range());
            self.mark_gaps(start);
            if !self.event(event, start, end, tag) {
                return None;
            }
            if end > start {
                self.last = (start, end);
            }
        }
        None
    }

    /// Handles one event; `false` ends the reading.
    fn event(&mut self, event: Event<'_>, start: usize, end: usize, tag: Option<std::ops::Range<usize>>) -> bool {
        if self.skipping > 0 {
            match event {
                Event::SequenceStart(..) | Event::MappingStart(..) => self.skipping += 1,
                Event::SequenceEnd | Event::MappingEnd => self.skipping -= 1,
                _ => {}
            }
            return true;
        }
        let tagged = tag.is_some_and(|tag| self.refuse_tag(tag));
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let span = self.span(start, end.max(self.floor(start + 3)));
                    let message = "a second document begins here; a file holds one";
                    let error = SyntaxError::new("several-documents", span, message);
                    self.error(error.help("put it into a file of its own, or delete the line `---`"));
                    return false;
                }
            }
            Event::Scalar(value, style, anchor, _) => {
                self.count_node(start);
                self.scalar(&value, style, anchor, (start, end), tagged);
            }
            Event::SequenceStart(style, anchor, _) => {
                self.open(Content::List(Vec::new()), style, anchor, (start, end), tagged);
            }
            Event::MappingStart(style, anchor, _) => {
                let content = Content::Map { map: Map::default(), key: None, seen: BTreeMap::new() };
                self.open(content, style, anchor, (start, end), tagged);
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(end),
            Event::Alias(anchor) => self.alias(anchor, start, end),
            Event::UnresolvedAlias(name) => self.unknown_alias(&name, start, end),
            _ => {}
        }
        self.total.nodes <= NODES_MAX
    }

    fn scalar(&mut self, value: &str, style: ScalarStyle, anchor: usize, at: (usize, usize), tagged: bool) {
        let span = self.span(at.0, at.1);
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::Single,
            ScalarStyle::DoubleQuoted => Style::Double,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
        };
        let core = if style == Style::Plain { scalar::core_schema(value) } else { None };
        let file = self.source.text();
        let node = match core {
            _ if tagged && !self.awaits_key() => Node::hole(span),
            Some(NodeKind::Null) if self.mask.is_hole(at.0, at.1) => Node::hole(span),
            Some(NodeKind::Float(number)) if !number.is_finite() && !self.awaits_key() => {
                let message = format!("`{value}` is not a number that JSON knows");
                self.error(SyntaxError::new("non-finite-number", span, message).help("write a finite number"));
                Node::hole(span)
            }
            Some(kind) => Node::new(kind, span),
            None => {
                let text = match style {
                    Style::Literal | Style::Folded => place::yaml_block(value, file, span, style),
                    _ => place::yaml_flow(value, file, span, style),
                };
                let span = text.span;
                Node::new(NodeKind::Text(text), span)
            }
        };
        let cut = if style == Style::Plain { traps::comment_in_text(value, self.source, span) } else { None };
        if let Some(error) = cut.filter(|_| !tagged) {
            self.error(error);
            return self.add(Node::hole(span), Weight { nodes: 1, bytes: 0, height: 0 });
        }
        let weight = Weight { nodes: 1, bytes: value.len(), height: 0 };
        self.keep_anchor(anchor, &node, weight);
        self.add(node, weight);
    }

    fn open(&mut self, content: Content, style: StructureStyle, anchor: usize, at: (usize, usize), tagged: bool) {
        if self.stack.len() >= DEPTH_MAX {
            let span = self.span(at.0, at.1);
            self.too_deep(span);
            self.skipping = 1;
            return self.add(Node::hole(span), Weight::default());
        }
        self.count_node(at.0);
        let flow = style == StructureStyle::Flow;
        let weight = Weight { nodes: 1, bytes: 0, height: 1 };
        let (start, end) = at;
        self.stack.push(Frame { content, start, end, flow, anchor, weight, spoiled: tagged, template: false });
    }

    fn close(&mut self, end: usize) {
        let Some(frame) = self.stack.pop() else { return };
        let end = if frame.flow { end } else { frame.end };
        let span = self.span(frame.start, end.max(frame.start));
        let trap = if frame.template {
            Some(traps::unquoted_template(self.source, span))
        } else if frame.flow && !frame.spoiled {
            match &frame.content {
                Content::List(items) => traps::comma_in_list(items, self.source),
                Content::Map { map, .. } => traps::comma_in_map(map, self.source),
            }
        } else {
            None
        };
        let spoiled = frame.spoiled || trap.is_some();
        if let Some(error) = trap {
            self.error(error);
        }
        let kind = match frame.content {
            _ if spoiled => NodeKind::Hole,
            Content::List(items) => NodeKind::List(items),
            Content::Map { map, .. } => NodeKind::Map(map),
        };
        let node = Node::new(kind, span);
        self.keep_anchor(frame.anchor, &node, frame.weight);
        self.add(node, frame.weight);
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, node: Node, weight: Weight) {
        let end = node.span.end as usize;
        let Some(frame) = self.stack.last_mut() else {
            self.root.get_or_insert(node);
            return;
        };
        frame.weight.add(weight);
        frame.end = frame.end.max(end);
        match &mut frame.content {
            Content::List(items) => items.push(node),
            Content::Map { map, key: waiting, .. } => match waiting.take() {
                Some(Key::Kept(key)) => map.entries.push(Entry { key, value: node }),
                Some(Key::Dropped) => map.incomplete = true,
                None => {
                    let key = self.key(node);
                    if let Some(Frame { content: Content::Map { key: waiting, .. }, .. }) = self.stack.last_mut() {
                        *waiting = Some(key);
                    }
                }
            },
        }
    }

    /// A node in the place of a key: a string that is not there yet, or an error.
    fn key(&mut self, node: Node) -> Key {
        let span = node.span;
        let spelling = self.source.slice(span).to_owned();
        let quoted = traps::quoted(&spelling);
        let key = match node.kind {
            NodeKind::Text(text) if text.style == Style::Plain && text.value == "<<" => {
                let message = "merge keys (`<<`) are not part of the language";
                let error =
                    SyntaxError::new("merge-key", span, message).help("write the keys out, or alias whole values");
                self.error(error);
                return Key::Dropped;
            }
            NodeKind::Text(text) => Spanned::new(text.value, span),
            NodeKind::Hole => return Key::Dropped,
            NodeKind::Null if span.is_empty() => {
                let error = SyntaxError::new("syntax", span, "there is no key before the `:`");
                self.error(error.help("write `key: value`, or put the text into quotes"));
                return Key::Dropped;
            }
            NodeKind::List(_) | NodeKind::Map(_) => {
                if self.is_template(span.start as usize) {
                    return Key::Dropped;
                }
                let kind = if matches!(node.kind, NodeKind::List(_)) { "a list" } else { "a mapping" };
                let error = SyntaxError::new("non-string-key", span, format!("{kind} cannot be a key"));
                self.error(error.help("if it is text, put it into quotes"));
                return Key::Dropped;
            }
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) => {
                let message = format!("the key `{spelling}` is {}, not a string", node.kind_name());
                let error = SyntaxError::new("non-string-key", span, message);
                self.error(error.help(format!("write {quoted}")).fix(span, quoted));
                Spanned::new(spelling, span)
            }
        };
        self.unless_duplicate(key)
    }

    /// Marks the open mapping when its key is a mapping because it was meant as `{{ … }}`.
    fn is_template(&mut self, inner: usize) -> bool {
        let Some(frame) = self.stack.last_mut() else { return false };
        let braces = frame.flow && inner == frame.start + 1 && self.text[frame.start..].starts_with("{{");
        frame.template |= braces;
        braces
    }

    fn unless_duplicate(&mut self, key: Spanned<String>) -> Key {
        let Some(Frame { content: Content::Map { map, seen, .. }, .. }) = self.stack.last_mut() else {
            return Key::Dropped;
        };
        let first = if map.len() < SMALL_MAP {
            map.get(&key.value).map(|entry| entry.key.span)
        } else {
            if seen.is_empty() {
                seen.extend(map.iter().map(|entry| (entry.key.value.clone(), entry.key.span)));
            }
            let first = seen.get(&key.value).copied();
            seen.entry(key.value.clone()).or_insert(key.span);
            first
        };
        let Some(first) = first else { return Key::Kept(key) };
        let message = format!("the key `{}` is there already", key.value);
        let error = SyntaxError::new("duplicate-key", key.span, message);
        self.error(error.related(first, "it was first given here").help("delete one of the two, or rename it"));
        Key::Dropped
    }

    fn alias(&mut self, anchor: usize, start: usize, end: usize) {
        let Some((node, weight)) = self.anchors.get(&anchor) else {
            let name = self.text.get(start + 1..end).unwrap_or_default().to_owned();
            return self.unknown_alias(&name, start, end);
        };
        let weight = *weight;
        let span = self.span(start, end);
        if self.stack.len() + weight.height > DEPTH_MAX {
            self.too_deep(span);
            return self.add(Node::hole(span), Weight::default());
        }
        let nodes = self.total.nodes.saturating_add(weight.nodes);
        let bytes = self.total.bytes.saturating_add(weight.bytes);
        if nodes > NODES_MAX || bytes > EXPANDED_BYTES_MAX {
            let message =
                format!("this alias makes the file expand past {NODES_MAX} values or {EXPANDED_BYTES_MAX} bytes");
            let error = SyntaxError::new("alias-bomb", span, message);
            self.error(error.help("write the values out, or use fewer aliases of aliases"));
            self.total.nodes = NODES_MAX + 1;
            return self.add(Node::hole(span), Weight::default());
        }
        (self.total.nodes, self.total.bytes) = (nodes, bytes);
        let node = node.clone();
        self.add(node, weight);
        self.stretch(end);
    }

    fn unknown_alias(&mut self, name: &str, start: usize, end: usize) {
        let span = self.span(start, end);
        if !self.mask.hides(&format!("&{name}")) {
            let message = format!("there is no anchor `&{name}` before this alias");
            let mut error = SyntaxError::new("unknown-alias", span, message);
            error.help.push(format!("if `*{name}` is text, put it into quotes"));
            self.error(error);
        }
        self.add(Node::hole(span), Weight { nodes: 1, bytes: 0, height: 0 });
        self.stretch(end);
    }

    /// Keeps what an anchor stands for. The copy counts, so that anchors around anchors stay cheap.
    fn keep_anchor(&mut self, anchor: usize, node: &Node, weight: Weight) {
        if anchor == 0 {
            return;
        }
        self.total.nodes = self.total.nodes.saturating_add(weight.nodes);
        if self.total.nodes <= NODES_MAX {
            self.anchors.insert(anchor, (node.clone(), weight));
        } else {
            self.too_many(node.span);
        }
    }

    fn count_node(&mut self, at: usize) {
        self.total.nodes += 1;
        if self.total.nodes > NODES_MAX {
            let span = self.span(at, at);
            self.too_many(span);
        }
    }

    fn too_many(&mut self, span: Span) {
        let error = SyntaxError::new("too-many-nodes", span, format!("the file holds more than {NODES_MAX} values"));
        if self.errors.iter().any(|error| matches!(error.code, "too-many-nodes" | "alias-bomb")) {
            return;
        }
        self.error(error.help("split the file and `import` the parts"));
    }

    fn too_deep(&mut self, span: Span) {
        let message = format!("lists and mappings are nested deeper than {DEPTH_MAX}");
        let error = SyntaxError::new("too-deep", span, message);
        self.error(error.help("name inner parts and refer to them"));
    }

    /// An alias is not where its node was written; the collection around it ends after the alias.
    fn stretch(&mut self, end: usize) {
        if let Some(frame) = self.stack.last_mut() {
            frame.end = end;
        }
    }

    fn refuse_tag(&mut self, tag: std::ops::Range<usize>) -> bool {
        let (start, end) = (self.floor(tag.start), self.floor(tag.end));
        let key = self.pending_key();
        let error = traps::tag(self.source, self.span(start, end), key.as_deref());
        self.error(error);
        true
    }

    /// The key whose value is being read, also through a list.
    fn pending_key(&self) -> Option<String> {
        let named = |frame: &Frame| match &frame.content {
            Content::Map { key: Some(Key::Kept(key)), .. } => Some(key.value.clone()),
            _ => None,
        };
        self.stack.iter().rev().take(2).find_map(named)
    }

    /// Whether the next node is a key.
    fn awaits_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { content: Content::Map { key: None, .. }, .. }))
    }

    /// Notes in all open mappings that lines were left out before `at`.
    fn mark_gaps(&mut self, at: usize) {
        let passed = self.mask.gaps().iter().skip(self.gap).take_while(|gap| **gap <= at).count();
        if passed > 0 {
            self.gap += passed;
            self.mark_incomplete();
        }
    }

    fn mark_incomplete(&mut self) {
        for frame in &mut self.stack {
            if let Content::Map { map, .. } = &mut frame.content {
                map.incomplete = true;
            }
        }
    }

    fn error(&mut self, error: SyntaxError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.id, start as u32, end.max(start) as u32)
    }

    /// The nearest character boundary at or before an offset.
    fn floor(&self, at: usize) -> usize {
        let at = at.min(self.source.text().len());
        (0..=at).rev().find(|at| self.source.text().is_char_boundary(*at)).unwrap_or(0)
    }

    /// Closes what is still open and hands over the tree.
    fn finish(mut self) -> Built {
        if !self.stack.is_empty() {
            self.mark_incomplete();
        }
        self.skipping = 0;
        while !self.stack.is_empty() {
            let end = self.last.1;
            if let Some(Frame { content: Content::Map { key, .. }, .. }) = self.stack.last_mut() {
                key.take();
            }
            self.close_open(end);
        }
        Built { root: self.root, errors: self.errors }
    }

    /// Closes a collection whose end was not reached.
    fn close_open(&mut self, end: usize) {
        let Some(frame) = self.stack.pop() else { return };
        let span = self.span(frame.start, end.max(frame.start));
        let kind = match frame.content {
            Content::List(items) => NodeKind::List(items),
            Content::Map { map, .. } => NodeKind::Map(map),
        };
        self.add(Node::new(kind, span), Weight::default());
        if let Some(Frame { content: Content::Map { key, .. }, .. }) = self.stack.last_mut() {
            key.take();
        }
    }
}
