//! Goals: an agent that plans needs one, and each is about one type.

use crate::decl::workflow::{Export, OutputDecl, PlannerKind};
use crate::diag::Diagnostic;
use crate::value::{Output, OutputKind};

use super::super::agent::AgentCx;
use super::super::heads::Resolve;

/// Reports an agent that has nothing to reach.
pub(super) fn check(cx: &mut AgentCx<'_>) {
    let heads = cx.heads;
    let Some(agent) = &heads.own.agent else { return };
    let achieved = heads.actions.iter().any(|action| action.decl.head.achieves.is_some());
    let planner = heads.own.planner.as_ref().map_or(PlannerKind::Goap, |planner| planner.r#type);
    let may_lack = planner == PlannerKind::Utility || heads.own.chat.is_some();
    if heads.visible.goals.is_empty()
        && !achieved
        && !may_lack
        && heads.visible.broken.is_empty()
        && !heads.own.partial.0
    {
        cx.report(
            Diagnostic::error("no-goal", agent.span, format!("the agent `{}` has no goal", agent.value))
                .help("add `achieves: …` to the action that ends it, or a section `goals`"),
        );
    }
    check_planner(cx);
    let unknown: Vec<_> = heads.own.keep.iter().filter(|name| heads.types.id(&name.value).is_none()).collect();
    for name in unknown {
        cx.report(super::super::types::unknown_type(&heads.types, name));
    }
}

/// Reports settings of a supervisor where there is none.
fn check_planner(cx: &mut AgentCx<'_>) {
    let Some(planner) = cx.heads.own.planner.as_ref() else { return };
    if planner.r#type != PlannerKind::Supervisor && (planner.llm.is_some() || planner.max_turns.is_some()) {
        let word = planner.r#type.word();
        let message = format!("the planner `{word}` asks no model; `llm` and `max_turns` are a supervisor's");
        let help = "take them out, or write `type: supervisor`";
        cx.report(Diagnostic::error("bad-planner", planner.place.0, message).help(help));
    }
}

/// Reports a goal whose output is not one type.
pub(crate) fn output(cx: &mut AgentCx<'_>, written: &OutputDecl, output: Option<&Output>) {
    if let Some(OutputKind::SomeOf(_) | OutputKind::Optional(_)) = output.map(|output| &output.kind) {
        cx.report(
            Diagnostic::error("bad-goal", written.place.0, "a goal's output is one type, as `T` or `list<T>`")
                .help("declare one goal for each type, or name a supertype or union of them"),
        );
    }
}

/// Checks what a published goal says of itself.
pub(crate) fn export(cx: &mut AgentCx<'_>, export: Option<&Export>) {
    let Some(Export::Record(record)) = export else { return };
    let heads = cx.heads;
    if let Some(inputs) = &record.inputs {
        Resolve { types: &heads.types, findings: &mut cx.strings.findings }.inputs(inputs);
    }
    if let Some(text) = &record.description {
        cx.strings.syntax_only(&text.0, false);
    }
}
