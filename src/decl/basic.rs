//! The small things declarations are made of: names, templates, exprs, data, durations, numbers, lists and tables.

use std::hash::{Hash, Hasher};
use std::time::Duration as StdDuration;

use serde_json::{Value, json};

use crate::diag::Diagnostic;
use crate::source::{Map, Node, NodeKind, Span, Spanned, Style, Text};

use super::read::{Defs, Read, ReadCx};

/// Where something was written. All places are equal, so that programs compare by meaning.
#[derive(Clone, Copy, Debug)]
pub struct Place(pub Span);

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// Whether something written in a record could not be read. All are equal, as places are: a program with findings is
/// never compared.
#[derive(Clone, Copy, Debug)]
pub struct Partial(pub bool);

impl PartialEq for Partial {
    fn eq(&self, _: &Partial) -> bool {
        true
    }
}

/// A name or other plain string with its place.
pub type Name = Spanned<String>;

impl Read for Name {
    fn expected() -> String {
        "a string".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Name> {
        let text = read_text(node, "a string", cx)?;
        Some(Spanned { value: text.value, span: node.span })
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": "string"})
    }
}

/// A template: text in which `{{ … }}` and `{% … %}` are filled in (language.md 2).
#[derive(Clone, Debug, PartialEq)]
pub struct Template(pub Text);

impl Read for Template {
    fn expected() -> String {
        "a text".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Template> {
        read_text(node, "a text", cx).map(Template)
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": "string"})
    }
}

/// A bare expression; YAML numbers and booleans are exprs too.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr(pub Text);

impl Read for Expr {
    fn expected() -> String {
        "an expr such as `order.total > 100`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Expr> {
        let literal = |value: String| Some(Expr(Text::verbatim(value, node.span, Style::Plain, node.span.start)));
        match &node.kind {
            NodeKind::Text(text) => Some(Expr(text.clone())),
            NodeKind::Bool(value) => literal(value.to_string()),
            NodeKind::Int(value) => literal(value.to_string()),
            NodeKind::Float(value) => literal(value.to_string()),
            NodeKind::Null | NodeKind::List(_) | NodeKind::Map(_) | NodeKind::Hole => {
                cx.wrong_shape(node, &Self::expected());
                None
            }
        }
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": ["string", "number", "boolean"]})
    }
}

/// Data whose strings are templates in a data position: any YAML value (language.md 2).
#[derive(Clone, Debug, PartialEq)]
pub struct Data(pub Node);

impl Read for Data {
    fn expected() -> String {
        "data".to_owned()
    }

    fn read(node: &Node, _: &mut ReadCx) -> Option<Data> {
        (!matches!(node.kind, NodeKind::Hole)).then(|| Data(node.clone()))
    }

    fn schema(_: &mut Defs) -> Value {
        json!({})
    }
}

/// Plain data: its strings are not templates.
#[derive(Clone, Debug, PartialEq)]
pub struct Json(pub Node);

impl Json {
    /// The value as JSON, keys in the order written.
    pub fn value(&self) -> Value {
        self.0.to_json()
    }
}

impl Read for Json {
    fn expected() -> String {
        "data".to_owned()
    }

    fn read(node: &Node, _: &mut ReadCx) -> Option<Json> {
        (!matches!(node.kind, NodeKind::Hole)).then(|| Json(node.clone()))
    }

    fn schema(_: &mut Defs) -> Value {
        json!({})
    }
}

impl Read for bool {
    fn expected() -> String {
        "`true` or `false`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<bool> {
        if let NodeKind::Bool(value) = node.kind {
            return Some(value);
        }
        cx.wrong_shape(node, &Self::expected());
        None
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": "boolean"})
    }
}

/// A count: a whole number, one or more.
pub type Count = std::num::NonZeroU32;

impl Read for Count {
    fn expected() -> String {
        "a whole number, 1 or more".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Count> {
        let found = match node.kind {
            NodeKind::Int(value) => u32::try_from(value).ok().and_then(Count::new),
            _ => None,
        };
        if found.is_none() {
            cx.wrong_shape(node, &Self::expected());
        }
        found
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": "integer", "minimum": 1})
    }
}

impl Read for u64 {
    fn expected() -> String {
        "a whole number, 0 or more".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<u64> {
        if let NodeKind::Int(value) = node.kind
            && let Ok(value) = u64::try_from(value)
        {
            return Some(value);
        }
        cx.wrong_shape(node, &Self::expected());
        None
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": "integer", "minimum": 0})
    }
}

impl Read for f64 {
    fn expected() -> String {
        "a number, 0 or more".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<f64> {
        let found = match node.kind {
            NodeKind::Int(value) => Some(value as f64),
            NodeKind::Float(value) => Some(value),
            _ => None,
        };
        let found = found.filter(|value| value.is_finite() && *value >= 0.0);
        if found.is_none() {
            cx.wrong_shape(node, &Self::expected());
        }
        found
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": "number", "minimum": 0})
    }
}

/// A span of time, written `500ms`, `30s`, `5m`, `2h` or `3d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration(pub StdDuration);

impl Duration {
    const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

    /// So many milliseconds.
    pub const fn millis(ms: u64) -> Duration {
        Duration(StdDuration::from_millis(ms))
    }

    /// Parses `500ms`, `1.5s`, `2h`. `None` when it is not a number and a unit.
    pub fn parse(text: &str) -> Option<Duration> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = text.split_at(digits);
        let (_, unit_ms) = Self::UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let ms = number.parse::<f64>().ok()? * unit_ms as f64;
        (ms.is_finite() && ms < u64::MAX as f64).then(|| Duration::millis(ms.round() as u64))
    }
}

impl Read for Duration {
    fn expected() -> String {
        "a duration such as `500ms`, `30s`, `5m`, `2h` or `3d`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Duration> {
        let found = match &node.kind {
            NodeKind::Text(text) => Duration::parse(text.value.trim()),
            _ => None,
        };
        if found.is_none() && !matches!(node.kind, NodeKind::Hole) {
            let mut diagnostic = Diagnostic::error("bad-duration", node.span, format!("expected {}", Self::expected()));
            if let NodeKind::Int(number) = node.kind {
                diagnostic = diagnostic
                    .label("a bare number has no unit")
                    .help(format!("write `{number}s` for seconds or `{number}ms` for milliseconds"));
            }
            cx.report(diagnostic);
        }
        found
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"})
    }
}

/// A list; a list of one may be written without its brackets.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List(Vec::new())
    }
}

impl<T> List<T> {
    /// Its elements in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T: Read> Read for List<T> {
    fn expected() -> String {
        format!("{} or a list of them", T::expected())
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<List<T>> {
        match &node.kind {
            NodeKind::List(items) => Some(List(items.iter().filter_map(|item| T::read(item, cx)).collect())),
            NodeKind::Hole => None,
            _ => T::read(node, cx).map(|only| List(vec![only])),
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        let one = T::schema(defs);
        json!({"anyOf": [one.clone(), {"type": "array", "items": one}]})
    }
}

/// Declarations by name, in the order written (order breaks ties).
#[derive(Clone, Debug, PartialEq)]
pub struct Table<T> {
    /// Name and declaration.
    pub entries: Vec<(Name, T)>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { entries: Vec::new() }
    }
}

impl<T> Table<T> {
    /// The declaration of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.entries.iter().find(|(key, _)| key.value == name).map(|(_, value)| value)
    }

    /// All declarations with their names, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &T)> {
        self.entries.iter().map(|(name, value)| (name, value))
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.value.as_str())
    }

    /// True when nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<T: Read> Read for Table<T> {
    fn expected() -> String {
        format!("a mapping from names to {}", T::expected())
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Table<T>> {
        let map = mapping(node, &Self::expected(), cx)?;
        let entries = map.entries.iter();
        let entries =
            entries.filter_map(|entry| Some((entry.key.clone(), T::read_named(&entry.key, &entry.value, cx)?)));
        Some(Table { entries: entries.collect() })
    }

    fn schema(defs: &mut Defs) -> Value {
        let one = T::schema(defs);
        json!({"type": "object", "additionalProperties": one})
    }
}

/// The mapping of a node, or a finding.
pub fn mapping<'a>(node: &'a Node, expected: &str, cx: &mut ReadCx) -> Option<&'a Map> {
    if let NodeKind::Map(map) = &node.kind {
        return Some(map);
    }
    cx.wrong_shape(node, expected);
    None
}

/// The text of a node, or a finding that names the usual trap: a value that YAML reads as something else.
pub fn read_text(node: &Node, expected: &str, cx: &mut ReadCx) -> Option<Text> {
    match &node.kind {
        NodeKind::Text(text) => Some(text.clone()),
        NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) => {
            let found = node.kind_name();
            cx.report(
                Diagnostic::error("wrong-shape", node.span, format!("expected {expected}, found {found}"))
                    .help("put it in quotes if it is meant as text"),
            );
            None
        }
        NodeKind::Null | NodeKind::List(_) | NodeKind::Map(_) | NodeKind::Hole => {
            cx.wrong_shape(node, expected);
            None
        }
    }
}

/// Declares an enum of words: `words! { /// doc  pub enum Kind = "a kind" { /// doc  Goap = "goap", … } }`.
#[macro_export]
macro_rules! words {
    (
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident = $what:literal { $( $(#[doc = $word_doc:literal])* $variant:ident = $word:literal ),* $(,)? }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $( $(#[doc = $word_doc])* $variant ),* }

        impl $name {
            /// The words that may be written, in order.
            $vis const WORDS: &'static [&'static str] = &[$($word),*];

            /// The word that is written for it.
            #[allow(dead_code, reason = "not every word is shown")]
            $vis fn word(self) -> &'static str {
                match self { $( Self::$variant => $word ),* }
            }
        }

        impl $crate::decl::Read for $name {
            fn expected() -> String {
                format!("{}: {}", $what, $crate::decl::read::listed(Self::WORDS))
            }

            fn read(node: &$crate::source::Node, cx: &mut $crate::decl::ReadCx) -> Option<Self> {
                let text = $crate::decl::basic::read_text(node, &Self::expected(), cx)?;
                match text.value.as_str() {
                    $( $word => Some(Self::$variant), )*
                    other => {
                        cx.report($crate::decl::basic::unknown_word(other, node.span, $what, Self::WORDS));
                        None
                    }
                }
            }

            fn schema(_: &mut $crate::decl::Defs) -> serde_json::Value {
                serde_json::json!({"enum": Self::WORDS})
            }
        }
    };
}

/// The finding for a word that is not one of those that may stand in a place.
pub fn unknown_word(found: &str, span: Span, what: &str, words: &[&str]) -> Diagnostic {
    let near = crate::diag::suggest::nearest(found, words.iter().copied());
    let diagnostic = Diagnostic::error(
        "unknown-word",
        span,
        format!("`{found}` is not {what}; expected {}", super::read::listed(words)),
    );
    match near.first() {
        Some(word) => diagnostic.help(format!("did you mean `{word}`?")),
        None => diagnostic,
    }
}
