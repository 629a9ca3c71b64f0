//! What makes an agent a chat (language.md 7): the greeting, the end, and the goal that every message has.

use crate::decl::workflow::PlannerKind;
use crate::program::{Chat, Goal, Number};
use crate::value::{Output, OutputKind};

use super::agent::AgentCx;

/// The goal of a chat that plans: the message is answered.
const REPLY: &str = "reply";

/// Lowers `chat`; its strings see what a condition sees.
pub(super) fn lower(cx: &mut AgentCx<'_>, goals: &[Goal]) -> Option<Chat> {
    let written = cx.heads.own.chat.as_ref()?;
    let scope = cx.input_scope(&[], &[]);
    let greeting = written.greeting.as_ref().and_then(|greeting| cx.strings.template(&greeting.0, &scope, ("", "")));
    let end = written.end.as_ref().and_then(|end| {
        let scope = cx.planning_scope(&scope);
        cx.strings.expr(end, &scope)
    });
    let max_messages = written.history.as_ref().and_then(|history| history.max_messages).map(|count| count.get());
    Some(Chat { greeting, max_messages, end, reply: reply_goal_of(cx, goals) })
}

fn reply_goal_of(cx: &AgentCx<'_>, goals: &[Goal]) -> Option<usize> {
    reply_goal(cx)?;
    goals.iter().position(|goal| goal.name == REPLY)
}

/// The goal that a chat plans to for each message; a chat on utility does what is worth most instead. An agent's own goal
/// of that name ends the chat like any other, and there is no further one.
pub(super) fn reply_goal(cx: &AgentCx<'_>) -> Option<Goal> {
    let own = cx.heads.own;
    own.chat.as_ref()?;
    let planner = own.planner.as_ref().map_or(PlannerKind::Goap, |planner| planner.r#type);
    let declared = cx.heads.visible.goals.contains_key(REPLY) || cx.heads.visible.actions.contains_key(REPLY);
    if planner == PlannerKind::Utility || declared {
        return None;
    }
    let output = Output::new(OutputKind::One(cx.heads.types.id("AssistantMessage")?));
    Some(Goal {
        name: REPLY.to_owned(),
        description: Some("The message is answered".to_owned()),
        output,
        action: None,
        value: Number::Fixed(0.0),
        export: false,
    })
}
