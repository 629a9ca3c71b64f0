//! Personas: one of the two forms, not a mixture, and not empty.

use crate::diag::Diagnostic;

use super::super::agent::AgentCx;

/// Checks the personas that an agent sees.
pub(super) fn check(cx: &mut AgentCx<'_>) {
    let mut found = Vec::new();
    for decl in cx.heads.visible.personas.values() {
        let persona = decl.decl;
        let first = [&persona.role, &persona.goal, &persona.backstory];
        let second = [&persona.name, &persona.persona, &persona.voice, &persona.objective];
        let (has_first, has_second) =
            (first.iter().find_map(|text| text.as_ref()), second.iter().find_map(|text| text.as_ref()));
        match (has_first, has_second) {
            (None, None) => found.push(
                Diagnostic::error("missing-key", decl.name.span, format!("the persona `{}` says nothing", decl.name.value))
                    .help("give it `role`, `goal` and `backstory`, or `name`, `persona`, `voice` and `objective`"),
            ),
            (Some(one), Some(other)) => found.push(
                Diagnostic::error(
                    "two-forms",
                    other.0.span,
                    "a persona has `role`, `goal` and `backstory`, or `name`, `persona`, `voice` and `objective`, not both",
                )
                .related(one.0.span, "the other form is used here"),
            ),
            _ => {}
        }
    }
    found.into_iter().for_each(|finding| cx.report(finding));
}
