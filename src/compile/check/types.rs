//! Types: defaults fit, rules and computed members are exprs over the fields, schemas are schemas.

use crate::decl::types::{FieldExpr, TypeDecl, TypeDeclKind, TypeExpr, TypeExprKind};
use crate::diag::{Diagnostic, Severity};
use crate::prompt::{Scope, Ty};
use crate::source::{Node, NodeKind};
use crate::value::{NoRules, Shape, TypeId, check_schema, schema_of_type};

use super::super::agent::AgentCx;

/// Checks the types that an agent sees.
pub(super) fn check(cx: &mut AgentCx<'_>) {
    let heads = cx.heads;
    for decl in heads.visible.types.values().chain(heads.visible.states.values()) {
        let Some(id) = heads.types.id(&decl.name.value) else { continue };
        if let TypeDeclKind::Object(object) = &decl.decl.kind {
            object.fields.iter().for_each(|field| defaults(cx, field));
        }
        if let TypeDeclKind::Alias(alias) = &decl.decl.kind {
            of(cx, alias);
        }
        members(cx, id, decl.decl);
        if decl.decl.is_abstract && !matches!(decl.decl.kind, TypeDeclKind::Object(_)) {
            cx.report(
                Diagnostic::error(
                    "contradiction",
                    decl.name.span,
                    format!("`{}` has no fields, so it cannot be abstract", decl.name.value),
                )
                .help("remove `abstract: true`"),
            );
        }
    }
    schemas(cx);
}

/// Checks that the types are schemas, once everything else about them is known to be right: a mistake would show up here
/// again, in words that help less, and in every type that mentions the one that has it.
fn schemas(cx: &mut AgentCx<'_>) {
    if cx.strings.findings.iter().any(|finding| finding.severity == Severity::Error) {
        return;
    }
    let heads = cx.heads;
    for decl in heads.visible.types.values().chain(heads.visible.states.values()) {
        if let Some(id) = heads.types.id(&decl.name.value)
            && has_doubtful_keywords(decl.decl)
            && let Err(message) = check_schema(&schema_of_type(&heads.types, id))
        {
            cx.report(Diagnostic::error("bad-schema", decl.name.span, message));
        }
    }
}

/// Whether a type has annotations of JSON Schema that may be wrong; without any its schema is right by construction.
fn has_doubtful_keywords(decl: &TypeDecl) -> bool {
    fn expr(of: &TypeExpr) -> bool {
        let own = of.annotations.iter().any(|(name, value)| !is_surely_right(&name.value, &value.0));
        own || match &of.kind {
            TypeExprKind::List(inner) | TypeExprKind::Map(inner) => expr(inner),
            TypeExprKind::OneOf(members) => members.iter().any(expr),
            TypeExprKind::Fields(object) => object.fields.iter().any(|field| expr(&field.of)),
            TypeExprKind::Name(_) | TypeExprKind::Enum(_) => false,
        }
    }
    match &decl.kind {
        TypeDeclKind::Object(object) => object.fields.iter().any(|field| expr(&field.of)),
        TypeDeclKind::Alias(of) => expr(of),
        TypeDeclKind::Enum(_) | TypeDeclKind::Union(_) | TypeDeclKind::Schema(_) => false,
    }
}

/// Whether an annotation is seen to be right without asking the meta-schema, which costs more than all the rest of
/// checking a type.
fn is_surely_right(keyword: &str, value: &Node) -> bool {
    match keyword {
        "description" | "default" => true,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            matches!(value.kind, NodeKind::Int(_))
                || matches!(value.kind, NodeKind::Float(number) if number.is_finite())
        }
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            matches!(value.kind, NodeKind::Int(count) if count >= 0)
        }
        "title" => value.as_str().is_some(),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => matches!(value.kind, NodeKind::Bool(_)),
        _ => false,
    }
}

/// Checks computed members and rules against the fields.
fn members(cx: &mut AgentCx<'_>, id: TypeId, decl: &TypeDecl) {
    if decl.computed.is_empty() && decl.rules.0.is_empty() {
        return;
    }
    let mut scope = Scope::new();
    for (name, field) in cx.types().get(id).fields().into_iter().flatten() {
        let ty = Ty::of(cx.types(), &field.shape);
        let surely = field.required || field.shape.constraints.default.is_some();
        scope.vars.insert(name.clone(), if surely { ty } else { ty.optional() });
    }
    scope.vars.insert("self".to_owned(), Ty::named(cx.types(), id));
    for (name, expr) in decl.computed.iter() {
        if scope.vars.contains_key(&name.value) {
            cx.report(
                Diagnostic::error("duplicate-name", name.span, format!("`{}` is a field already", name.value))
                    .help("give the computed member a name of its own"),
            );
        }
        cx.strings.checked_expr(expr, &scope);
    }
    let truth = super::super::strings::truth_scope(&scope);
    for rule in decl.rules.iter() {
        cx.strings.checked_expr(&rule.check, &truth);
    }
}

/// Checks that the default of a field fits its type.
fn defaults(cx: &mut AgentCx<'_>, field: &FieldExpr) {
    of(cx, &field.of);
}

/// Checks the annotations of a type expression and of those within it.
pub(crate) fn of(cx: &mut AgentCx<'_>, expr: &TypeExpr) {
    match &expr.kind {
        TypeExprKind::List(inner) | TypeExprKind::Map(inner) => of(cx, inner),
        TypeExprKind::OneOf(members) => members.iter().for_each(|member| of(cx, member)),
        TypeExprKind::Fields(object) => object.fields.iter().for_each(|field| of(cx, &field.of)),
        TypeExprKind::Name(_) | TypeExprKind::Enum(_) => {}
    }
    let mut unheard = Vec::new();
    let mut scope = super::super::types::Scope { types: cx.types(), findings: &mut unheard };
    let mut shape: Shape = super::super::types::shape(&mut scope, expr);
    if !unheard.is_empty() {
        return;
    }
    shape.constraints.default = None;
    for (name, value) in &expr.annotations {
        match name.value.as_str() {
            "default" => {
                let checked = cx.validators.validate(&shape, value.value(), &NoRules);
                for violation in checked.err().into_iter().flatten() {
                    let message = format!("the default does not fit its type: {violation}");
                    cx.report(Diagnostic::error("bad-default", value.0.span, message));
                }
            }
            "pattern" => {
                if let Some(text) = value.0.as_str() {
                    let name = crate::decl::Name::new(text.to_owned(), value.0.span);
                    super::guardrails::regex(cx, &name);
                }
            }
            _ => {}
        }
    }
}
