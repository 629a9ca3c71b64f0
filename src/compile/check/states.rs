//! States: types that own actions; only the section `states` has them.

use crate::diag::Diagnostic;

use super::super::agent::AgentCx;

/// Checks the states and the agent's `reload` and `on_stuck` sections.
pub(super) fn check(cx: &mut AgentCx<'_>) {
    let heads = cx.heads;
    for decl in heads.visible.types.values() {
        if let Some((name, _)) = decl.decl.actions.iter().next() {
            cx.report(
                Diagnostic::error(
                    "misplaced-section",
                    name.span,
                    format!("`{}` is no state, so it owns no actions", decl.name.value),
                )
                .help("move the type from `types` to `states`"),
            );
        }
    }
}
