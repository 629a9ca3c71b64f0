//! Actions: keys that contradict one another, and keys that do nothing.

use crate::decl::body::BodyNode;
use crate::diag::Diagnostic;
use crate::prompt::Ty;
use crate::source::NodeKind;
use crate::value::{OutputKind, TypeKind};

use super::super::agent::AgentCx;
use super::super::heads::ActionHead;

/// Kinds of body that ask a model.
const ASKING: &[&str] = &["prompt", "scatter_gather", "repeat_until"];

/// Whether a body asks a model.
pub(crate) fn asks_model(body: &BodyNode) -> bool {
    ASKING.contains(&body.kind.value.as_str())
}

/// Whether a value of the static type can be a number.
pub(crate) fn is_number(ty: &Ty) -> bool {
    match ty {
        Ty::Any | Ty::Int | Ty::Number => true,
        Ty::Enum(values) => values.iter().all(serde_json::Value::is_number),
        Ty::Union(members) => members.iter().all(is_number),
        Ty::Optional(inner) => is_number(inner),
        _ => false,
    }
}

/// Checks one action.
pub(crate) fn check(cx: &mut AgentCx<'_>, head: &ActionHead<'_>) {
    let decl = head.decl;
    if decl.head.trigger.is_some() && decl.head.can_rerun == Some(false) {
        let span = decl.head.trigger.as_ref().map_or(head.name.span, |trigger| trigger.span);
        cx.report(
            Diagnostic::error("contradiction", span, "an action with a `trigger` runs once for each new object")
                .help("remove `can_rerun: false`; `trigger` implies `can_rerun`"),
        );
    }
    abstract_output(cx, head);
    effect_only(cx, head);
    for guardrail in decl.settings.guardrails.iter().flat_map(|list| list.iter()) {
        if !cx.heads.visible.guardrails.contains_key(guardrail.value.as_str()) {
            let names: Vec<&str> = cx.heads.visible.guardrails.keys().copied().collect();
            cx.report_unknown("unknown-guardrail", "guardrail", guardrail, &names);
        }
    }
    for reference in decl.settings.references.iter().flat_map(|list| list.iter()) {
        super::references::name(cx, reference);
    }
}

/// An output of an abstract type without concrete subtypes can never come.
fn abstract_output(cx: &mut AgentCx<'_>, head: &ActionHead<'_>) {
    let types = cx.types();
    for (at, id) in head.output.types().iter().enumerate() {
        let def = types.get(*id);
        if types.concrete(*id).is_empty() && (def.is_abstract || matches!(def.kind, TypeKind::Union(_))) {
            let written = head.decl.head.output.as_ref().and_then(|output| output.types.get(at));
            let span = written.map_or(head.name.span, |of| of.place.0);
            cx.report(
                Diagnostic::error("abstract-output", span, format!("`{}` is abstract and has no subtype", def.name))
                    .help(format!("declare one: `types: {{MyType: {{is: {}, fields: {{…}}}}}}`", def.name)),
            );
        }
    }
}

/// A body that only gives data does nothing in an action without output.
fn effect_only(cx: &mut AgentCx<'_>, head: &ActionHead<'_>) {
    let Some(body) = &head.decl.body else { return };
    let only_data = ["set", "choose", "ask"].contains(&body.kind.value.as_str());
    let without_effect = head.decl.head.post.0.is_empty() && head.decl.head.hide.0.is_empty();
    let is_null = matches!(body.node.kind, NodeKind::Null);
    if head.output.kind == OutputKind::None
        && head.output_known
        && only_data
        && without_effect
        && !is_null
        && head.decl.head.achieves.is_none()
        && !head.decl.head.clear_blackboard
    {
        cx.report(
            Diagnostic::warning(
                "unused-result",
                body.kind.span,
                format!(
                    "the action `{}` has no `output`, so what its `{}` gives is lost",
                    head.name.value, body.kind.value
                ),
            )
            .help("add `output: T`, the type of what it gives"),
        );
    }
}
