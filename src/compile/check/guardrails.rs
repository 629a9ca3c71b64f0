//! Guardrails: each looks at something, decides by one thing, and its pattern is one.

use crate::decl::module::{GuardrailCheck, GuardrailScope};
use crate::diag::Diagnostic;
use crate::source::Span;

use super::super::agent::AgentCx;

/// Largest compiled pattern, in bytes (runtime.md 7).
pub(crate) const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Checks the guardrails that an agent sees.
pub(super) fn check(cx: &mut AgentCx<'_>) {
    let heads = cx.heads;
    for decl in heads.visible.guardrails.values() {
        let guardrail = decl.decl;
        let deciders: Vec<(&str, Span)> = [
            guardrail.pattern.as_ref().map(|pattern| ("pattern", pattern.span)),
            guardrail.expr.as_ref().map(|expr| ("expr", expr.0.span)),
            guardrail.prompt.as_ref().map(|prompt| ("prompt", prompt.0.span)),
            guardrail.schema.as_ref().map(|schema| ("schema", schema.0.span)),
        ]
        .into_iter()
        .flatten()
        .collect();
        match deciders.as_slice() {
            [] if guardrail.instruct.is_none() => cx.report(
                Diagnostic::error(
                    "missing-key",
                    decl.name.span,
                    format!("the guardrail `{}` decides nothing", decl.name.value),
                )
                .help("give it one of `pattern`, `expr`, `prompt` and `schema`, or `instruct`"),
            ),
            [(first, at), (second, span), ..] => cx.report(
                Diagnostic::error(
                    "two-forms",
                    *span,
                    format!("a guardrail decides by `{first}` or by `{second}`, not by both"),
                )
                .related(*at, "the first is here"),
            ),
            _ => {}
        }
        let place = guardrail.place.0;
        let unread = |at: &Span| at.file == place.file && place.start <= at.start && at.end <= place.end;
        let is_whole = !cx.loaded.read_errors.iter().any(unread);
        if !deciders.is_empty() && guardrail.check.0.is_empty() && is_whole {
            cx.report(
                Diagnostic::error(
                    "missing-key",
                    decl.name.span,
                    format!("the guardrail `{}` needs the key `check`", decl.name.value),
                )
                .help("add `check: [user_input, prompt, reply, tool_arguments, tool_result]` or some of them"),
            );
        }
        if let Some(pattern) = &guardrail.pattern {
            regex(cx, pattern);
        }
        if guardrail.scope == Some(GuardrailScope::Named)
            && !guardrail.check.0.is_empty()
            && guardrail.check.iter().all(|check| *check == GuardrailCheck::UserInput)
        {
            cx.report(
                Diagnostic::error(
                    "guardrail-never",
                    decl.name.span,
                    format!("the guardrail `{}` never looks at anything", decl.name.value),
                )
                .help("what a person says comes to the agent, not to an action: take `scope: named` away"),
            );
        }
        if let Some(schema) = guardrail.schema.as_ref().filter(|schema| schema.0.as_str().is_none())
            && let Err(message) = crate::value::check_schema(&schema.value())
        {
            cx.report(Diagnostic::error("bad-schema", schema.0.span, message));
        }
    }
}

/// Reports a pattern that is no regular expression, or one too large.
pub(crate) fn regex(cx: &mut AgentCx<'_>, pattern: &crate::decl::Name) {
    // `"\b"` is a backspace to YAML and TOML: a pattern that is sound, and never matches.
    if pattern.value.contains('\u{8}') {
        cx.report(
            Diagnostic::error(
                "escape-in-quotes",
                pattern.span,
                "in double quotes `\\b` is a backspace, not a word boundary",
            )
            .help("in single quotes a backslash is itself"),
        );
        return;
    }
    if let Err(error) = regex::RegexBuilder::new(&pattern.value).size_limit(PATTERN_BYTES_MAX).build() {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or("it cannot be read").trim().trim_start_matches("error: ").to_owned();
        cx.report(
            Diagnostic::error("bad-pattern", pattern.span, format!("this is no regular expression: {reason}"))
                .help("write it in single quotes, so that YAML leaves its backslashes alone"),
        );
    }
}
