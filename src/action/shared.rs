//! What several bodies share: rendering with failures in their own words, variables on top, bodies that wait for a later
//! version.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::decl::{Data as WrittenData, Table};
use crate::diag::Diagnostic;
use crate::llm::Secret;
use crate::prompt::{Data, ExprId, MapVars, Over, RenderError, TemplateId, Vars, from_json};
use crate::source::{NodeKind, Span};
use crate::value::{Output, OutputKind, ShapeKind, TypeKind, Types};

use super::context::{Context, Failure, FailureKind};
use super::lower::{Extra, LowerCx};

impl From<RenderError> for Failure {
    fn from(error: RenderError) -> Failure {
        Failure::new(FailureKind::Error, error.to_string())
    }
}

/// A time as messages name it: in milliseconds below a second, else in seconds.
pub fn lasting(time: Duration) -> String {
    let ms = (time.as_secs_f64() * 1_000.0).round();
    if ms < 1_000.0 { format!("{ms} ms") } else { format!("{} s", (ms / 10.0).round() / 100.0) }
}

/// A text from outside without the secrets that were sent there: a server or program may echo them.
pub(crate) fn redacted<'a>(text: String, secrets: impl Iterator<Item = &'a Secret>) -> String {
    secrets.fold(text, |text, secret| secret.redact(&text))
}

/// A failure whose message holds none of the secrets.
pub(crate) fn redacted_failure<'a>(failure: Failure, secrets: impl Iterator<Item = &'a Secret>) -> Failure {
    Failure { message: redacted(failure.message, secrets), ..failure }
}

/// Renders a template of a body.
pub(super) fn render(cx: &dyn Context, id: TemplateId) -> Result<String, Failure> {
    Ok(cx.templates().render(id, cx.vars())?)
}

/// Renders data of a body.
pub(super) fn render_data(cx: &dyn Context, data: &Data) -> Result<Value, Failure> {
    Ok(cx.templates().render_data(data, cx.vars())?)
}

/// Evaluates an expr with one more variable.
pub(super) fn eval_with(cx: &dyn Context, expr: ExprId, name: &str, value: &Value) -> Result<Value, Failure> {
    let vars = MapVars::default().with(name, from_json(value));
    Ok(cx.templates().eval(expr, &Over { vars, below: cx.vars() })?)
}

/// The variables of an action with further ones on top, given as JSON.
pub(super) fn over<'a>(below: &'a dyn Vars, named: &Map<String, Value>) -> Over<'a> {
    let vars = named.iter().fold(MapVars::default(), |vars, (name, value)| vars.with(name, from_json(value)));
    Over { vars, below }
}

/// Lowers each value of a table of data, in order; `None` when one of them is wrong.
pub(super) fn lower_table(
    table: &Table<WrittenData>,
    cx: &mut dyn LowerCx,
    extra: Extra<'_>,
) -> Option<Vec<(String, Data)>> {
    let lowered: Vec<Option<(String, Data)>> =
        table.iter().map(|(name, data)| cx.data(data, None, extra).map(|data| (name.value.clone(), data))).collect();
    lowered.into_iter().collect()
}

/// Renders each value of a lowered table.
pub(super) fn render_table(cx: &dyn Context, table: &[(String, Data)]) -> Result<Map<String, Value>, Failure> {
    table.iter().map(|(name, data)| Ok((name.clone(), render_data(cx, data)?))).collect()
}

/// The keys of written data, when it is a mapping.
pub(super) fn keys(data: &WrittenData) -> Vec<(&str, Span)> {
    match &data.0.kind {
        NodeKind::Map(map) => map.iter().map(|entry| (entry.key.value.as_str(), entry.key.span)).collect(),
        _ => Vec::new(),
    }
}

/// Reports all but the first of several forms of which one may be written.
pub(super) fn refuse_two(what: &str, written: &[(&str, Option<Span>)], cx: &mut dyn LowerCx) -> bool {
    let mut present = written.iter().filter_map(|(name, span)| span.map(|span| (name, span)));
    let Some((first, first_span)) = present.next() else { return false };
    let mut any = false;
    for (second, span) in present {
        any = true;
        cx.report(
            Diagnostic::error("two-forms", span, format!("{what} has `{first}` or `{second}`, not both"))
                .related(first_span, format!("`{first}` is here")),
        );
    }
    any
}

/// True when a model answers this output with plain text: a named text, or no output at all.
pub(super) fn is_text(types: &Types, output: &Output) -> bool {
    match output.kind {
        OutputKind::None => true,
        OutputKind::One(id) => match &types.get(id).kind {
            TypeKind::Alias(shape) => matches!(
                shape.kind,
                ShapeKind::String | ShapeKind::Date | ShapeKind::DateTime | ShapeKind::Uri | ShapeKind::Email
            ),
            TypeKind::Object(_) | TypeKind::Enum(_) | TypeKind::Union(_) | TypeKind::Schema(_) => false,
        },
        OutputKind::Optional(_) | OutputKind::List(_) | OutputKind::SomeOf(_) => false,
    }
}

/// What a body gives under `--dry-run` instead of sending or executing: a made-up value of the output.
pub(super) fn stub(cx: &dyn Context) -> Result<Value, Failure> {
    let output = cx.output();
    if output.kind == OutputKind::None {
        return Ok(Value::Null);
    }
    crate::value::sample(cx.validators(), &output.shape(cx.types()))
        .map_err(|why| Failure::new(FailureKind::Error, format!("`--dry-run`: {why}")))
}

/// The beginning of a text, for messages.
pub(super) fn excerpt(text: &str, chars_max: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
