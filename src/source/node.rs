//! The tree that every file is read into: plain data with places.

use serde_json::Value;

use super::{Source, Span, Spanned, Text};

/// A value of a file with its place. Equality ignores places.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Where it was written; quotes and block indicators are part of it. An aliased node has its anchor's place.
    pub span: Span,
}

/// What a [`Node`] is.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// `null`, `~`, or nothing where a value could stand.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A finite number with a fraction, or a whole one beyond 64 bits.
    Float(f64),
    /// A string.
    Text(Text),
    /// A list.
    List(Vec<Node>),
    /// A mapping.
    Map(Map),
    /// Left out after an error that was reported; readers skip it without a word.
    Hole,
}

/// A mapping, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    /// The entries; no two have the same key.
    pub entries: Vec<Entry>,
    /// Whether entries were left out after an error that was reported: then nothing is said to be missing here.
    pub incomplete: bool,
}

/// One `key: value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Spanned<String>,
    /// The value.
    pub value: Node,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Map {
    /// The entry of a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key.value == key)
    }

    /// Whether the key is there.
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The entries in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Entry> {
        self.entries.iter()
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.value.as_str())
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = &'a Entry;
    type IntoIter = std::slice::Iter<'a, Entry>;
    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

impl Node {
    /// A node at a place.
    pub fn new(kind: NodeKind, span: Span) -> Self {
        Self { kind, span }
    }

    /// The hole that is left where something could not be read.
    pub fn hole(span: Span) -> Self {
        Self { kind: NodeKind::Hole, span }
    }

    /// What it is, for messages: `a string`, `a list`, `a mapping`, `a whole number`, `a number`, `true or false`,
    /// `null`, `nothing readable`.
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "true or false",
            NodeKind::Int(_) => "a whole number",
            NodeKind::Float(_) => "a number",
            NodeKind::Text(_) => "a string",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a mapping",
            NodeKind::Hole => "nothing readable",
        }
    }

    /// The string, when it is one.
    pub fn as_text(&self) -> Option<&Text> {
        if let NodeKind::Text(text) = &self.kind { Some(text) } else { None }
    }

    /// The string's value, when it is one.
    pub fn as_str(&self) -> Option<&str> {
        self.as_text().map(|text| text.value.as_str())
    }

    /// The elements, when it is a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        if let NodeKind::List(items) = &self.kind { Some(items) } else { None }
    }

    /// The mapping, when it is one.
    pub fn as_map(&self) -> Option<&Map> {
        if let NodeKind::Map(map) = &self.kind { Some(map) } else { None }
    }

    /// The truth value, when it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let NodeKind::Bool(value) = self.kind { Some(value) } else { None }
    }

    /// The whole number, when it is one.
    pub fn as_int(&self) -> Option<i64> {
        if let NodeKind::Int(value) = self.kind { Some(value) } else { None }
    }

    /// The number, whole or not.
    pub fn as_number(&self) -> Option<f64> {
        match self.kind {
            NodeKind::Int(value) => Some(value as f64),
            NodeKind::Float(value) => Some(value),
            _ => None,
        }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self.kind, NodeKind::Null)
    }

    /// Whether it was left out after an error.
    pub fn is_hole(&self) -> bool {
        matches!(self.kind, NodeKind::Hole)
    }

    /// The node as it is spelled in the file, such as `1.10` where the value is `1.1`; aliases show their anchor's.
    pub fn spelling<'a>(&self, source: &'a Source) -> &'a str {
        source.slice(self.span)
    }

    /// A JSON value with keys in the order of the file; holes become null.
    pub fn to_json(&self) -> Value {
        match &self.kind {
            NodeKind::Null | NodeKind::Hole => Value::Null,
            NodeKind::Bool(value) => Value::Bool(*value),
            NodeKind::Int(value) => Value::from(*value),
            NodeKind::Float(value) => Value::from(*value),
            NodeKind::Text(text) => Value::String(text.value.clone()),
            NodeKind::List(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            NodeKind::Map(map) => {
                Value::Object(map.iter().map(|entry| (entry.key.value.clone(), entry.value.to_json())).collect())
            }
        }
    }
}
