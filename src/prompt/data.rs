//! Data positions (`set`, `with`, `json`, `query`, …): JSON whose strings are templates.

use super::ast::{self, StmtKind};
use super::error::RenderError;
use super::syntax::SyntaxFault;
use super::templates::{ExprId, TemplateId, Templates, TemplatesBuilder};
use super::vars::Vars;
use indexmap::IndexMap;
use serde_json::{Map, Value as Json};
use std::ops::Range;

/// Data whose strings are templates.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A value without templates.
    Literal(Json),
    /// A text.
    Template(TemplateId),
    /// A string that is, trimmed, exactly one `{{ … }}`: it keeps the value's type.
    Expr(ExprId),
    /// A list.
    List(Vec<Data>),
    /// A map.
    Map(IndexMap<String, Data>),
}

/// A string in data that is not a template.
#[derive(Clone, Debug, PartialEq)]
pub struct DataFault {
    /// The JSON pointer that leads to it.
    pub pointer: String,
    /// What is wrong with it.
    pub fault: SyntaxFault,
}

impl DataFault {
    fn below(mut self: Box<Self>, token: &str) -> Box<Self> {
        self.pointer.insert_str(0, &format!("/{token}"));
        self
    }
}

/// The range of the expression in a text that is, trimmed, exactly one `{{ … }}`.
pub fn single_expr(text: &str) -> Option<Range<usize>> {
    let trimmed = text.trim();
    if !trimmed.starts_with("{{") || !trimmed.ends_with("}}") || trimmed.len() < 5 {
        return None;
    }
    let stmts = ast::parse_template(trimmed).ok()?;
    let [stmt] = stmts.as_slice() else { return None };
    let StmtKind::Emit(_) = &stmt.kind else { return None };
    let inner = &trimmed[2..trimmed.len() - 2];
    let inner = inner.strip_prefix(['-', '+']).filter(|_| is_marker(inner)).unwrap_or(inner);
    let inner = inner.strip_suffix(['-', '+']).unwrap_or(inner).trim();
    let start = inner.as_ptr() as usize - text.as_ptr() as usize;
    Some(start..start + inner.len())
}

/// `{{-` and `{{+` control white space.
fn is_marker(inner: &str) -> bool {
    inner.starts_with(['-', '+'])
}

impl TemplatesBuilder {
    /// Compiles the strings of data.
    ///
    /// # Errors
    /// The first string that is not a template, with the JSON pointer that leads to it.
    pub fn data(&mut self, json: &Json) -> Result<Data, Box<DataFault>> {
        match json {
            Json::String(text) => {
                self.text_data(text).map_err(|fault| Box::new(DataFault { pointer: String::new(), fault }))
            }
            Json::Array(items) => {
                let item =
                    |(index, item): (usize, &Json)| self.data(item).map_err(|fault| fault.below(&index.to_string()));
                let items = items.iter().enumerate().map(item).collect::<Result<Vec<_>, _>>()?;
                let literal = items.iter().map(as_literal).collect::<Option<Vec<_>>>();
                Ok(literal.map_or(Data::List(items), |items| Data::Literal(Json::Array(items))))
            }
            Json::Object(map) => {
                let mut data = IndexMap::with_capacity(map.len());
                for (key, value) in map {
                    let escaped = key.replace('~', "~0").replace('/', "~1");
                    let value = self.data(value).map_err(|fault| fault.below(&escaped))?;
                    data.insert(key.clone(), value);
                }
                let member = |(key, value): (&String, &Data)| as_literal(value).map(|value| (key.clone(), value));
                let literal = data.iter().map(member).collect::<Option<Map<_, _>>>();
                Ok(literal.map_or(Data::Map(data), |map| Data::Literal(Json::Object(map))))
            }
            literal => Ok(Data::Literal(literal.clone())),
        }
    }

    /// Compiles one string of a data position.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn text_data(&mut self, text: &str) -> Result<Data, SyntaxFault> {
        if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
            // One trailing newline is dropped as in any template.
            let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
            return Ok(Data::Literal(Json::from(text)));
        }
        match single_expr(text) {
            Some(range) => Ok(Data::Expr(self.expr_at(text, range)?)),
            None => Ok(Data::Template(self.template(text)?)),
        }
    }
}

fn as_literal(data: &Data) -> Option<Json> {
    match data {
        Data::Literal(json) => Some(json.clone()),
        Data::Template(_) | Data::Expr(_) | Data::List(_) | Data::Map(_) => None,
    }
}

impl Templates {
    /// The data with its templates rendered and its exprs evaluated. Members of a map whose expr is undefined are an
    /// error; those that are null stay null.
    ///
    /// # Errors
    /// The first string that could not be rendered.
    pub fn render_data(&self, data: &Data, vars: &dyn Vars) -> Result<Json, RenderError> {
        match data {
            Data::Literal(json) => Ok(json.clone()),
            Data::Template(id) => self.render(*id, vars).map(Json::String),
            Data::Expr(id) => self.eval(*id, vars),
            Data::List(items) => {
                items.iter().map(|item| self.render_data(item, vars)).collect::<Result<Vec<_>, _>>().map(Json::Array)
            }
            Data::Map(map) => {
                let mut out = Map::with_capacity(map.len());
                for (key, value) in map {
                    out.insert(key.clone(), self.render_data(value, vars)?);
                }
                Ok(Json::Object(out))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vars::MapVars;
    use super::*;
    use crate::value::Types;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn one_expr_keeps_its_type_and_everything_else_is_text() {
        let mut builder = TemplatesBuilder::new(Arc::new(Types::with_built_ins()));
        let written = json!({
            "a": " {{ n }} ", "b": "{{ n }}!", "c": "{{ n }}{{ n }}", "d": [1, "x\n"], "e": "{{- [n, 'a}}'] -}}",
            "f": "{{ {'k': {'l': n}} }}", "g": "{% if n %}yes{% endif %}", "h": "{{ -n }}", "i": null,
        });
        let data = builder.data(&written).unwrap();
        let templates = builder.build();
        let vars = MapVars::default().with("n", 3);
        let expected = json!({
            "a": 3, "b": "3!", "c": "33", "d": [1, "x"], "e": [3, "a}}"], "f": {"k": {"l": 3}}, "g": "yes", "h": -3,
            "i": null,
        });
        assert_eq!(templates.render_data(&data, &vars).unwrap(), expected);
    }

    #[test]
    fn the_place_of_a_bad_string_is_a_pointer() {
        let mut builder = TemplatesBuilder::new(Arc::new(Types::with_built_ins()));
        let found = builder.data(&json!({"a/b": [1, "{{ x }"]})).unwrap_err();
        assert_eq!((found.pointer.as_str(), found.fault.range), ("/a~1b/1", 0..6));
        assert_eq!(single_expr("  {{ a }}\n"), Some(5..6));
    }
}
