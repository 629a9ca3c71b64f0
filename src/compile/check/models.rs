//! Models: every role, default and catalog entry names something that exists, used or not.

use crate::decl::models::LlmChoice;

use super::super::agent::AgentCx;

/// Checks the `models` of what an agent sees.
pub(super) fn check(cx: &mut AgentCx<'_>) {
    let heads = cx.heads;
    let choices: Vec<&LlmChoice> = heads.visible.roles.values().map(|role| role.decl).collect();
    for choice in choices {
        cx.models(choice, 1);
    }
    for id in &heads.visible.modules {
        let models = cx.loaded.modules[id.0].decl.models.as_ref();
        if let Some(default) = models.and_then(|models| models.default.as_ref()) {
            cx.models(default, 0);
        }
        if let Some(embedding) = models.and_then(|models| models.embedding.as_ref()) {
            cx.check_provider(embedding);
        }
    }
    if let Some(llm) = heads.own.planner.as_ref().and_then(|planner| planner.llm.as_ref()) {
        cx.models(llm, 0);
    }
}
