//! Reachability: goals that the agent's inputs cannot reach, and actions that can never run.

use crate::diag::{Diagnostic, suggest};
use crate::planning::{Effect, FactId, State};
use crate::program::{Agent, Fact};

use super::super::agent::AgentCx;

/// Warns of goals and actions that no run can come to.
pub(crate) fn check(cx: &mut AgentCx<'_>, agent: &Agent) {
    // Through states more can be reached than the domain shows; `on_stuck` actions supply what nothing else does.
    if !cx.heads.visible.states.is_empty() || !cx.heads.visible.on_stuck.is_empty() {
        return;
    }
    let start = agent.assumed_start(&agent.inputs);
    let reached = Reached::of(agent, &start);
    let inputs: Vec<String> = agent.inputs.iter().map(|input| agent.types.name(input.type_id).to_owned()).collect();
    let mut reported: Vec<usize> = Vec::new();
    for (at, action) in agent.domain.domain().actions.iter().enumerate() {
        let index = agent.operators[at];
        let runs = |other: usize| agent.operators[other] == index && reached.runs(agent, other);
        if reported.contains(&index) || (0..agent.operators.len()).any(runs) {
            continue;
        }
        reported.push(index);
        let missing = reached.missing(agent, &action.pre);
        let Some(head) = cx.heads.actions.iter().find(|head| head.full_name == agent.actions[index].name) else {
            continue;
        };
        let span = head.name.span;
        cx.report(
            Diagnostic::warning(
                "dead-action",
                span,
                format!("the action `{}` can never run: {missing}", head.full_name),
            )
            .help(given(&inputs)),
        );
    }
    for (at, goal) in agent.goals.iter().enumerate() {
        let pre = &agent.domain.domain().goals[at].pre;
        if reached.allows(pre) {
            continue;
        }
        let missing = reached.missing(agent, pre);
        let written = cx.heads.visible.goals.get(goal.name.as_str()).map(|decl| decl.name.span);
        let action = cx.heads.actions.iter().find(|head| head.full_name == goal.name).map(|head| head.name.span);
        let Some(span) = written.or(action) else { continue };
        cx.report(
            Diagnostic::warning(
                "unreachable-goal",
                span,
                format!("the goal `{}` cannot be reached: {missing}", goal.name),
            )
            .help(given(&inputs)),
        );
    }
}

fn given(inputs: &[String]) -> String {
    match inputs {
        [] => "a run starts from nothing; declare `inputs`, or an action that outputs what is missing".to_owned(),
        _ => format!("a run starts from {}", crate::decl::read::listed(inputs)),
    }
}

/// What can become true or false when nothing is ever undone.
struct Reached {
    can_be: [Vec<bool>; 2],
}

impl Reached {
    fn of(agent: &Agent, start: &State) -> Reached {
        let domain = agent.domain.domain();
        let facts = domain.fact_count();
        let of = |value: bool| (0..facts).map(|at| start.allows(FactId(at as u32), value)).collect();
        let mut reached = Reached { can_be: [of(false), of(true)] };
        let mut done = vec![false; domain.actions.len()];
        loop {
            let mut grew = false;
            for (at, action) in domain.actions.iter().enumerate() {
                if done[at] || !reached.allows(&action.pre) {
                    continue;
                }
                done[at] = true;
                grew = true;
                for (fact, effect) in &action.effects {
                    for value in [false, true] {
                        if *effect == Effect::Opens || *effect == Effect::Makes(value) {
                            reached.can_be[usize::from(value)][fact.0 as usize] = true;
                        }
                    }
                }
            }
            if !grew {
                return reached;
            }
        }
    }

    fn can(&self, fact: FactId, value: bool) -> bool {
        self.can_be[usize::from(value)].get(fact.0 as usize).copied().unwrap_or(false)
    }

    fn allows(&self, pre: &[(FactId, bool)]) -> bool {
        pre.iter().all(|(fact, value)| self.can(*fact, *value))
    }

    fn runs(&self, agent: &Agent, operator: usize) -> bool {
        self.allows(&agent.domain.domain().actions[operator].pre)
    }

    /// What is missing, in words.
    fn missing(&self, agent: &Agent, pre: &[(FactId, bool)]) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (fact, value) in pre.iter().filter(|(fact, value)| !self.can(*fact, *value)) {
            let text = self.because(agent, *fact, *value, 0);
            if !parts.contains(&text) {
                parts.push(text);
            }
        }
        parts.join("; ")
    }

    fn because(&self, agent: &Agent, fact: FactId, value: bool, depth: usize) -> String {
        let domain = agent.domain.domain();
        let name = domain.fact_name(fact);
        let what = match agent.facts.get(fact.0 as usize) {
            Some(Fact::Has { type_id, count: 1 }) => format!("`{}`", agent.types.name(*type_id)),
            _ => format!("`{}{name}`", if value { "" } else { "not " }),
        };
        let suppliers: Vec<usize> = domain
            .actions
            .iter()
            .enumerate()
            .filter(|(_, action)| {
                let gives = |(of, effect): &(FactId, Effect)| {
                    *of == fact && (*effect == Effect::Opens || *effect == Effect::Makes(value))
                };
                action.effects.iter().any(gives)
            })
            .map(|(at, _)| at)
            .collect();
        let Some(first) = suppliers.first() else {
            let near = self.near(agent, fact);
            return format!("nothing supplies {what}{near}");
        };
        let action = &domain.actions[*first];
        let needed = action.pre.iter().find(|(fact, value)| !self.can(*fact, *value));
        match needed {
            Some((needed, value)) if depth < 8 && *needed != fact => format!(
                "{what} comes only from `{}`, and {}",
                agent.actions[agent.operators[*first]].name,
                self.because(agent, *needed, *value, depth + 1)
            ),
            _ => format!("nothing supplies {what}"),
        }
    }

    /// A type that is supplied and named nearly as one that is not.
    fn near(&self, agent: &Agent, fact: FactId) -> String {
        let Some(Fact::Has { type_id, .. }) = agent.facts.get(fact.0 as usize) else { return String::new() };
        let supplied = agent.facts.iter().enumerate().filter_map(|(at, other)| match other {
            Fact::Has { type_id, .. } if self.can(FactId(at as u32), true) => Some(agent.types.name(*type_id)),
            _ => None,
        });
        let near = suggest::nearest(agent.types.name(*type_id), supplied);
        near.first().map(|near| format!(" (`{near}` is supplied)")).unwrap_or_default()
    }
}
