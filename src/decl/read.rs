//! Reading a declaration from a located tree: the trait, its context, and what every reader shares.
//!
//! A reader never fails as a whole: it reports what is wrong, leaves that part out, and goes on, so that one pass
//! finds every independent mistake. Nothing is reported that follows only from a part that was left out ([`NodeKind::Hole`]).

use std::borrow::Cow;

use serde_json::{Value, json};

pub use crate::diag::suggest::listed;
use crate::diag::{Diagnostic, suggest};
use crate::source::{Map, Node, NodeKind, Span, Spanned};

/// What a reader reports into.
#[derive(Debug, Default)]
pub struct ReadCx {
    /// Everything found wrong so far, in the order found.
    pub diagnostics: Vec<Diagnostic>,
    /// How many records enclose the one being read; bounds recursion on user input.
    pub depth: usize,
}

impl ReadCx {
    /// Reports one finding.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports that `node` is not what was `expected`, naming the YAML trap it looks like when there is one.
    pub fn wrong_shape(&mut self, node: &Node, expected: &str) {
        self.wrong_shape_with(node, expected, "");
    }

    /// The same with a word of help, which gives way to that of a trap.
    pub fn wrong_shape_with(&mut self, node: &Node, expected: &str, help: &str) {
        if matches!(node.kind, NodeKind::Hole) {
            return;
        }
        // Where a number is wanted, what is wrong with a number is its value.
        let found = match node.kind {
            NodeKind::Int(value) if expected.contains("number") => format!("`{value}`"),
            NodeKind::Float(value) if expected.contains("number") => format!("`{value}`"),
            _ => node.kind_name().to_owned(),
        };
        let mut diagnostic = Diagnostic::error("wrong-shape", node.span, format!("expected {expected}, found {found}"));
        if is_template_read_as_mapping(node) {
            diagnostic.code = "yaml-trap";
            diagnostic = diagnostic.help(
                "a template that starts with `{` is read as a mapping; put it in single quotes or in a `|` block",
            );
        } else if !help.is_empty() {
            diagnostic = diagnostic.help(help);
        }
        self.report(diagnostic);
    }
}

/// Something an author can write: it is read from a node and has a JSON Schema.
pub trait Read: Sized {
    /// What to write here, for messages: "a string", "a duration such as `30s`".
    fn expected() -> String;

    /// Reads it. Reports into `cx` and returns `None` when the node is not of this shape.
    fn read(node: &Node, cx: &mut ReadCx) -> Option<Self>;

    /// Reads it as the declaration of `name`, which findings about the whole point to.
    fn read_named(_name: &Spanned<String>, node: &Node, cx: &mut ReadCx) -> Option<Self> {
        Self::read(node, cx)
    }

    /// The JSON Schema (draft-07 vocabulary, for editors) of what [`Read::read`] accepts; named parts go to `defs`.
    fn schema(defs: &mut Defs) -> Value;
}

/// Named parts of a published schema, in the order of their first use.
#[derive(Debug, Default)]
pub struct Defs {
    /// Definition name to schema.
    pub named: serde_json::Map<String, Value>,
}

impl Defs {
    /// A reference to the definition `name`, which `make` provides on first use. A definition may refer to itself.
    pub fn reference(&mut self, name: &str, make: impl FnOnce(&mut Defs) -> Value) -> Value {
        if !self.named.contains_key(name) {
            self.named.insert(name.to_owned(), Value::Null);
            let schema = make(self);
            self.named.insert(name.to_owned(), schema);
        }
        json!({"$ref": format!("#/definitions/{name}")})
    }
}

/// Reads the value of one key of a record; reports nothing when the key is absent.
pub fn field<T: Read>(map: &Map, key: &str, cx: &mut ReadCx) -> Option<T> {
    let entry = map.get(key)?;
    match entry.value.kind {
        NodeKind::Hole => None,
        // `key:` with nothing after it reads as absent only where null is not itself a value; say so.
        _ => T::read(&entry.value, cx),
    }
}

/// Reports every key of `map` that is not among `known`, with the nearest known one. A key whose right name is sure is
/// read under that name, so that one misspelling is one finding; the mapping that results is returned.
pub fn refuse_unknown_keys<'a>(map: &'a Map, known: &[&str], what: &str, cx: &mut ReadCx) -> Cow<'a, Map> {
    let mut read = Cow::Borrowed(map);
    for (index, entry) in map.entries.iter().enumerate().filter(|(_, entry)| !known.contains(&entry.key.value.as_str()))
    {
        let mut diagnostic = unknown_key(&entry.key, known, what);
        match &diagnostic.fix {
            Some(fix) if map.contains(&fix.replacement) => diagnostic.fix = None,
            Some(fix) => read.to_mut().entries[index].key.value.clone_from(&fix.replacement),
            None => {}
        }
        cx.report(diagnostic);
    }
    read
}

/// The finding for one unknown key of `what`.
pub fn unknown_key(key: &Spanned<String>, known: &[&str], what: &str) -> Diagnostic {
    let near = suggest::nearest(&key.value, known.iter().copied());
    let mut diagnostic = Diagnostic::error("unknown-key", key.span, format!("{what} has no key `{}`", key.value));
    match near.as_slice() {
        [] => diagnostic = diagnostic.help(format!("the keys are {}", listed(known))),
        [only] => diagnostic = diagnostic.help(format!("did you mean `{only}`?")).fix(key.span, only.clone()),
        [first, ..] => diagnostic = diagnostic.help(format!("did you mean `{first}`?")),
    }
    diagnostic
}

/// Reports a required key that is not there.
pub fn missing_key(span: Span, key: &str, what: &str, cx: &mut ReadCx) {
    cx.report(
        Diagnostic::error("missing-key", span, format!("{what} needs the key `{key}`")).help(format!("add `{key}: …`")),
    );
}

/// True for what YAML makes of an unquoted `{{ x }}`: a mapping whose only key was a mapping.
fn is_template_read_as_mapping(node: &Node) -> bool {
    let NodeKind::Map(map) = &node.kind else { return false };
    let [entry] = map.entries.as_slice() else { return false };
    matches!(entry.value.kind, NodeKind::Null | NodeKind::Hole)
        && (entry.key.value.starts_with('{') || entry.key.value.is_empty())
}

/// The properties of a record's schema, which `reference` (a `$ref` or the schema itself) names.
pub fn properties_of(reference: &Value, defs: &Defs) -> serde_json::Map<String, Value> {
    let name = reference["$ref"].as_str().and_then(|path| path.strip_prefix("#/definitions/"));
    let schema = name.and_then(|name| defs.named.get(name)).unwrap_or(reference);
    let object = schema["anyOf"].as_array().and_then(|all| all.last()).unwrap_or(schema);
    object["properties"].as_object().cloned().unwrap_or_default()
}
