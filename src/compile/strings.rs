//! Templates, exprs and data of one agent: each is checked against what it sees, then compiled once.

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use crate::decl::{Data as WrittenData, Expr};
use crate::diag::{Diagnostic, Related, Severity, suggest};
use crate::prompt::{
    self, Checked, Data, ExprId, Files, Finding, Position, Scope, TemplateId, TemplatesBuilder, Ty, assignable,
    check_data, check_expr, check_template,
};
use crate::source::{FileId, Node, NodeKind, Span, Text};
use crate::value::{Member, ObjectDef, Shape, ShapeKind, TypeKind, Types, describe, member};

/// Deepest nesting of data that is walked; deeper trees were refused when they were read.
const DEPTH_MAX: usize = 80;

/// What strings are checked against and compiled into.
pub(crate) struct Strings<'a> {
    pub(crate) types: std::sync::Arc<Types>,
    pub(crate) files: &'a Files,
    /// The file of each template under `prompts/`.
    pub(crate) file_ids: &'a IndexMap<String, FileId>,
    /// Taken when the agent is finished.
    pub(crate) builder: Option<TemplatesBuilder>,
    pub(crate) findings: Vec<Diagnostic>,
    /// Template files that were used.
    pub(crate) used: IndexSet<String>,
    /// Whether something hangs on which template files there are, beyond those that were used.
    pub(crate) looks_around: bool,
    /// How many strings were checked.
    pub(crate) count: usize,
}

impl Strings<'_> {
    /// Checks and compiles a template; `around` is text that stands before and after it.
    pub(crate) fn template(&mut self, text: &Text, scope: &Scope, around: (&str, &str)) -> Option<TemplateId> {
        let checked = check_template(self.files, &self.types, scope, &text.value);
        self.take(&checked, Where::Text(text))?;
        let (before, after) = around;
        let whole = match around {
            ("", "") => text.value.clone(),
            _ => format!("{before}{}{after}", text.value.trim_end()),
        };
        self.builder.as_mut()?.template(&whole).ok()
    }

    /// Checks a template without compiling it.
    pub(crate) fn check(&mut self, text: &Text, scope: &Scope) {
        let checked = check_template(self.files, &self.types, scope, &text.value);
        self.take(&checked, Where::Text(text));
    }

    /// Checks what can be checked of a string whose variables are known only when it is used: that it can be read, and
    /// that its filters, tests and functions exist.
    pub(crate) fn syntax_only(&mut self, text: &Text, is_expr: bool) {
        const CODES: &[&str] =
            &["expr-syntax", "template-syntax", "unknown-filter", "unknown-test", "unknown-function"];
        let scope = Scope::new();
        let mut checked = match is_expr {
            true => check_expr(&self.types, &scope, &text.value),
            false => check_template(self.files, &self.types, &scope, &text.value),
        };
        checked.findings.retain(|finding| CODES.contains(&finding.code));
        self.take(&checked, Where::Text(text));
    }

    /// Checks and compiles a file under `prompts/`, by its whole name.
    pub(crate) fn file(&mut self, name: &str, scope: &Scope) -> Option<TemplateId> {
        let file = *self.file_ids.get(name)?;
        let source = self.files.source(name)?.to_owned();
        self.used.insert(name.to_owned());
        let checked = check_template(self.files, &self.types, scope, &source);
        self.take(&checked, Where::File(file))?;
        self.builder.as_mut()?.template(&source).ok()
    }

    /// Checks an expr and tells what it mentions; `None` when it is wrong.
    pub(crate) fn checked_expr(&mut self, expr: &Expr, scope: &Scope) -> Option<Checked> {
        let checked = check_expr(&self.types, scope, &expr.0.value);
        self.take(&checked, Where::Text(&expr.0))?;
        Some(checked)
    }

    /// Compiles an expr that was checked.
    pub(crate) fn compiled(&mut self, text: &str) -> Option<ExprId> {
        self.builder.as_mut()?.expr(text).ok()
    }

    /// Checks an expr whose value counts, and where a missing object is no mistake: a cost is not asked for before its
    /// action could run.
    pub(crate) fn value_expr(&mut self, expr: &Expr, scope: &Scope) -> Option<Checked> {
        let scope = Scope { position: Position::Value, ..scope.clone() };
        let mut checked = check_expr(&self.types, &scope, &expr.0.value);
        checked.findings.retain(|finding| finding.severity == Severity::Error);
        self.take(&checked, Where::Text(&expr.0))?;
        Some(checked)
    }

    /// Checks and compiles an expr.
    pub(crate) fn expr(&mut self, expr: &Expr, scope: &Scope) -> Option<ExprId> {
        self.checked_expr(expr, scope)?;
        self.compiled(&expr.0.value)
    }

    /// Checks and compiles data in a data position.
    pub(crate) fn data(&mut self, data: &WrittenData, expected: Option<&Shape>, scope: &Scope) -> Option<Data> {
        self.node(&data.0, expected, scope, 0)
    }

    fn node(&mut self, node: &Node, expected: Option<&Shape>, scope: &Scope, depth: usize) -> Option<Data> {
        if depth > DEPTH_MAX {
            return None;
        }
        match &node.kind {
            NodeKind::Hole => None,
            NodeKind::Text(text) => self.text(text, expected, scope),
            NodeKind::List(items) => {
                let element = expected.and_then(|shape| element_of(&self.types, shape));
                if element.is_none() {
                    self.fits(expected, &Ty::List(Box::new(Ty::Any)), node.span);
                }
                let items: Vec<Option<Data>> =
                    items.iter().map(|item| self.node(item, element.as_ref(), scope, depth + 1)).collect();
                items.into_iter().collect::<Option<_>>().map(Data::List)
            }
            NodeKind::Map(map) => {
                let object = expected.map(|shape| concrete_of(&self.types, shape, node));
                let mut members = IndexMap::new();
                let mut whole = true;
                let before = self.findings.len();
                for entry in map {
                    let shape = match object.as_ref() {
                        Some(shape) => self.member(shape, &entry.key, node.span),
                        None => None,
                    };
                    match self.node(&entry.value, shape.as_ref(), scope, depth + 1) {
                        Some(value) => {
                            members.insert(entry.key.value.clone(), value);
                        }
                        None => whole = false,
                    }
                }
                // A misspelt field is told once, not also as one that is missing.
                let known = self.findings[before..].iter().all(|finding| finding.code != "unknown-field");
                if let (Some(shape), true) = (&object, known) {
                    self.missing_fields(shape, node);
                }
                whole.then_some(Data::Map(members))
            }
            NodeKind::Null => Some(Data::Literal(Value::Null)),
            NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) => {
                let value = node.to_json();
                self.fits(expected, &literal(&value), node.span);
                Some(Data::Literal(value))
            }
        }
    }

    fn text(&mut self, text: &Text, expected: Option<&Shape>, scope: &Scope) -> Option<Data> {
        let checked = check_data(self.files, &self.types, scope, &text.value);
        self.take(&checked, Where::Text(text))?;
        let data = self.builder.as_mut()?.text_data(&text.value).ok()?;
        let ty = match &data {
            Data::Literal(value) => literal(value),
            Data::Expr(_) => checked.ty.unwrap_or(Ty::Any),
            _ => Ty::Str,
        };
        let at = match data {
            // The expression inside the braces is what has the wrong type.
            Data::Expr(_) => {
                let inner = text.value.find("{{").map_or(0, |at| at + 2)..text.value.rfind("}}").unwrap_or(0);
                let part = text.value.get(inner.clone()).unwrap_or_default();
                let start = inner.start + (part.len() - part.trim_start().len());
                text.span_of(start..start + part.trim().len())
            }
            _ => text.span,
        };
        let found = self.findings.len();
        self.fits(expected, &ty, at);
        if let (Data::Expr(_), Some(shape)) = (&data, expected)
            && self.findings.len() > found
            && let Some(filter) = converted(&ty, &shape.kind)
            && let Some(last) = self.findings.pop()
        {
            self.findings.push(last.help(format!("convert it: `{{{{ … | {filter} }}}}`")));
        }
        Some(data)
    }

    /// Reports a value that cannot stand where a shape is expected.
    pub(crate) fn fits(&mut self, expected: Option<&Shape>, ty: &Ty, span: Span) {
        let Some(shape) = expected else { return };
        if let Err(message) = assignable(ty, shape, &self.types) {
            self.findings.push(Diagnostic::error("wrong-type", span, message));
        }
    }

    fn member(&mut self, shape: &Shape, key: &crate::decl::Name, _: Span) -> Option<Shape> {
        match member(&self.types, shape, &key.value) {
            Member::Known { shape, .. } => Some(shape),
            Member::Any | Member::NotAnObject => None,
            Member::Unknown { candidates } => {
                let message = format!("{} has no field `{}`", named(&self.types, shape), key.value);
                let near = suggest::nearest(&key.value, candidates.iter().map(String::as_str));
                let mut diagnostic = Diagnostic::error("unknown-field", key.span, message)
                    .help(suggest::did_you_mean(&key.value, candidates.iter().map(String::as_str)));
                if let [only] = near.as_slice() {
                    diagnostic = diagnostic.fix(key.span, only.clone());
                } else if near.is_empty() && !candidates.is_empty() {
                    diagnostic = diagnostic.help(format!("its fields are {}", crate::decl::read::listed(&candidates)));
                }
                self.findings.push(diagnostic);
                None
            }
        }
    }

    fn missing_fields(&mut self, shape: &Shape, node: &Node) {
        let Some(map) = node.as_map() else { return };
        if let Member::NotAnObject = member(&self.types, shape, "") {
            self.fits(Some(shape), &Ty::Map(Box::new(Ty::Any)), node.span);
            return;
        }
        let Some(object) = object_of(&self.types, shape) else { return };
        let missing: Vec<&str> = object
            .fields
            .iter()
            .filter(|(name, field)| field.required && !map.contains(name))
            .map(|(name, _)| name.as_str())
            .collect();
        if !missing.is_empty() {
            let message = format!("{} needs {}", named(&self.types, shape), crate::decl::read::listed(&missing));
            self.findings
                .push(Diagnostic::error("missing-field", node.span, message).help(format!("add `{}: …`", missing[0])));
        }
    }

    /// Takes over what a check found; `None` when something of it is an error.
    fn take(&mut self, checked: &Checked, place: Where<'_>) -> Option<()> {
        self.count += 1;
        self.used.extend(checked.files.iter().cloned());
        self.looks_around |= checked.looks_around;
        for finding in &checked.findings {
            let diagnostic = self.diagnostic(finding, &place);
            self.findings.push(diagnostic);
        }
        checked.is_ok().then_some(())
    }

    fn diagnostic(&self, finding: &Finding, checked: &Where<'_>) -> Diagnostic {
        let span = |place: &prompt::Place| {
            let range = place.range.clone();
            match (&place.file, checked) {
                (Some(name), _) => {
                    let file = self.file_ids.get(name).copied().unwrap_or_default();
                    Span::new(file, range.start as u32, range.end as u32)
                }
                (None, Where::Text(text)) => text.span_of(range),
                (None, Where::File(file)) => Span::new(*file, range.start as u32, range.end as u32),
            }
        };
        let at = span(&finding.place);
        let related = finding.related.iter();
        Diagnostic {
            code: finding.code,
            severity: finding.severity,
            message: finding.message.clone(),
            span: Some(at),
            label: None,
            help: finding.help.clone(),
            related: related.map(|(place, message)| Related { span: span(place), message: message.clone() }).collect(),
            fix: finding.fix.as_ref().map(|fix| crate::diag::Fix { span: at, replacement: fix.clone() }),
        }
    }
}

/// Where a checked text stands.
enum Where<'t> {
    /// In a module.
    Text(&'t Text),
    /// It is a whole file under `prompts/`.
    File(FileId),
}

/// The same scope where a missing object makes a condition unknown.
pub(crate) fn truth_scope(scope: &Scope) -> Scope {
    Scope { position: Position::Truth, ..scope.clone() }
}

/// The static type of a literal.
pub(crate) fn literal(value: &Value) -> Ty {
    match value {
        Value::Null => Ty::Null,
        other => Ty::Enum(std::sync::Arc::new(vec![other.clone()])),
    }
}

/// The static type of a value of `config`, which `--set` may replace by another of its kind.
pub(crate) fn config_ty(value: &Value) -> Ty {
    match value {
        Value::Null => Ty::Any,
        Value::Bool(_) => Ty::Bool,
        Value::Number(number) if number.is_f64() => Ty::Number,
        Value::Number(_) => Ty::Int,
        Value::String(_) => Ty::Str,
        Value::Array(items) => {
            let element = if items.is_empty() { Ty::Any } else { Ty::union(items.iter().map(config_ty)) };
            Ty::List(Box::new(element))
        }
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| (key.clone(), config_ty(value)));
            Ty::Record(std::sync::Arc::new(members.collect()))
        }
    }
}

/// The shape of a list's elements, when a list is expected.
fn element_of(types: &Types, shape: &Shape) -> Option<Shape> {
    match &shape.kind {
        ShapeKind::List(element) => Some((**element).clone()),
        ShapeKind::Named(id) => match &types.get(*id).kind {
            TypeKind::Alias(inner) => element_of(types, inner),
            _ => None,
        },
        ShapeKind::OneOf(shapes) => shapes.iter().find_map(|shape| element_of(types, shape)),
        _ => None,
    }
}

/// The shape that a written map stands for: the type that its discriminator names, where the choice is open; without the
/// null of an optional output.
fn concrete_of(types: &Types, shape: &Shape, node: &Node) -> Shape {
    match &shape.kind {
        ShapeKind::Named(id) if types.is_polymorphic(*id) => {
            let discriminator = &types.get(*id).discriminator;
            let name = node.as_map().and_then(|map| map.get(discriminator)).and_then(|entry| entry.value.as_str());
            let named = name.and_then(|name| types.id(name)).filter(|sub| types.is_subtype(*sub, *id));
            // The members of the type that is named are checked at run time, with its discriminator.
            if named.is_some() { Shape::new(ShapeKind::Any) } else { shape.clone() }
        }
        ShapeKind::OneOf(shapes) => {
            let mut objects = shapes.iter().filter(|shape| shape.kind != ShapeKind::Null);
            match (objects.next(), objects.next()) {
                (Some(only), None) => concrete_of(types, only, node),
                _ => shape.clone(),
            }
        }
        _ => shape.clone(),
    }
}

/// The fields that a map has to have, where that is one object type.
fn object_of<'t>(types: &'t Types, shape: &'t Shape) -> Option<&'t ObjectDef> {
    match &shape.kind {
        ShapeKind::Object(object) => Some(object),
        ShapeKind::Named(id) if !types.is_polymorphic(*id) => match &types.get(*id).kind {
            TypeKind::Object(object) => Some(object),
            _ => None,
        },
        _ => None,
    }
}

fn named(types: &Types, shape: &Shape) -> String {
    match &shape.kind {
        ShapeKind::Named(id) => format!("`{}`", types.name(*id)),
        _ => describe(types, shape),
    }
}

/// The filter that makes a value of one type fit where another is expected.
fn converted(from: &Ty, to: &ShapeKind) -> Option<&'static str> {
    match (from, to) {
        (Ty::Int | Ty::Number | Ty::Bool, ShapeKind::String) => Some("string"),
        (Ty::Str, ShapeKind::Integer) => Some("int"),
        (Ty::Str, ShapeKind::Number) => Some("float"),
        _ => None,
    }
}
