//! Parameters of `each`: the strings of a case are templates over the values of a row.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::diag::Diagnostic;
use crate::prompt::{Data, Files, MapVars, Scope, Templates, TemplatesBuilder, Ty, check_data, from_json};
use crate::source::{Entry, Map as NodeMap, Node, NodeKind, Span, Spanned, Style, Text};
use crate::value::Types;

/// Keys whose strings are no templates over the parameters: exprs and questions see them as variables.
const LEFT_ALONE: &[&str] = &["checks", "each", "use"];

/// The templates of one case, compiled once for all its rows.
pub(super) struct Filler<'a> {
    node: &'a Node,
    texts: IndexMap<String, Data>,
    templates: Arc<Templates>,
}

impl<'a> Filler<'a> {
    /// Compiles the strings of a case; `parameters` are the names that all rows give. Reports into `findings`.
    pub(super) fn new(node: &'a Node, parameters: &[String], findings: &mut Vec<Diagnostic>) -> Filler<'a> {
        let types = Arc::new(Types::with_built_ins());
        let mut builder = TemplatesBuilder::new(types.clone());
        let mut scope = Scope::new();
        scope.vars.extend(parameters.iter().map(|name| (name.clone(), Ty::Any)));
        let mut texts = IndexMap::new();
        let mut visit = |text: &Text| {
            if !is_template(&text.value) || texts.contains_key(&text.value) {
                return;
            }
            let checked = check_data(&Files::new(), &types, &scope, &text.value);
            for finding in &checked.findings {
                let mut found =
                    Diagnostic::error(finding.code, text.span_of(finding.place.range.clone()), &finding.message);
                found.help.clone_from(&finding.help);
                found.severity = finding.severity;
                findings.push(found);
            }
            if checked.is_ok()
                && let Ok(data) = builder.text_data(&text.value)
            {
                texts.insert(text.value.clone(), data);
            }
        };
        walk(node, &mut visit);
        Filler { node, texts, templates: builder.build() }
    }

    /// The case with the values of a row in it.
    pub(super) fn fill(&self, row: &Map<String, Value>, findings: &mut Vec<Diagnostic>) -> Node {
        let vars = row.iter().fold(MapVars::default(), |vars, (name, value)| vars.with(name, from_json(value)));
        self.filled(self.node, &vars, findings)
    }

    fn filled(&self, node: &Node, vars: &MapVars, findings: &mut Vec<Diagnostic>) -> Node {
        let kind = match &node.kind {
            NodeKind::Text(text) => match self.texts.get(&text.value) {
                None => return node.clone(),
                Some(data) => match self.templates.render_data(data, vars) {
                    Ok(value) => return node_of(&value, node.span),
                    Err(error) => {
                        findings.push(Diagnostic::error("unknown-variable", node.span, error.to_string()));
                        return Node::hole(node.span);
                    }
                },
            },
            NodeKind::List(items) => {
                NodeKind::List(items.iter().map(|item| self.filled(item, vars, findings)).collect())
            }
            NodeKind::Map(map) => {
                let entries = map.iter().map(|entry| Entry {
                    key: entry.key.clone(),
                    value: match LEFT_ALONE.contains(&entry.key.value.as_str()) {
                        true => entry.value.clone(),
                        false => self.filled(&entry.value, vars, findings),
                    },
                });
                NodeKind::Map(NodeMap { entries: entries.collect(), incomplete: map.incomplete })
            }
            _ => return node.clone(),
        };
        Node::new(kind, node.span)
    }
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
}

fn walk(node: &Node, visit: &mut dyn FnMut(&Text)) {
    match &node.kind {
        NodeKind::Text(text) => visit(text),
        NodeKind::List(items) => items.iter().for_each(|item| walk(item, visit)),
        NodeKind::Map(map) => {
            let inside = map.iter().filter(|entry| !LEFT_ALONE.contains(&entry.key.value.as_str()));
            inside.for_each(|entry| walk(&entry.value, visit));
        }
        _ => {}
    }
}

/// A value as if it stood at a place.
fn node_of(value: &Value, span: Span) -> Node {
    let kind = match value {
        Value::Null => NodeKind::Null,
        Value::Bool(flag) => NodeKind::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => NodeKind::Int(whole),
            (None, float) => NodeKind::Float(float.unwrap_or_default()),
        },
        Value::String(text) => NodeKind::Text(Text::verbatim(text.clone(), span, Style::Plain, span.start)),
        Value::Array(items) => NodeKind::List(items.iter().map(|item| node_of(item, span)).collect()),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| Entry {
                key: Spanned::new(key.clone(), span),
                value: node_of(value, span),
            };
            NodeKind::Map(NodeMap { entries: map.iter().map(entry).collect(), incomplete: false })
        }
    };
    Node::new(kind, span)
}
