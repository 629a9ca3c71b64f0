//! Reachability: goals that the agent's inputs cannot reach, actions that can never run, conditions that nothing changes.

use crate::decl::read::listed;
use crate::diag::{Diagnostic, suggest};
use crate::planning::explain::{Missing, Reach};
use crate::planning::{FactId, Problem};
use crate::program::{Agent, ConditionKind, Fact, PlannerKind};

use super::super::agent::AgentCx;

/// Most sentences of one chain that a finding tells; the leaves come first.
const SENTENCES_MAX: usize = 4;

/// Warns of goals and actions that no run can come to, and of conditions that stay as they are.
pub(crate) fn check(cx: &mut AgentCx<'_>, agent: &Agent) {
    flags(cx, agent);
    let mut inputs = agent.inputs.clone();
    if agent.planner == PlannerKind::Supervisor {
        inputs.extend(agent.asked_for());
    }
    let problem = Problem::new(&agent.domain, agent.assumed_start(&inputs));
    let reach = Reach::new(&problem);
    actions(cx, agent, &problem, &reach);
    goals(cx, agent, &problem, &reach);
    conditions(cx, agent, &reach);
}

fn actions(cx: &mut AgentCx<'_>, agent: &Agent, problem: &Problem<'_>, reach: &Reach<'_, '_>) {
    let mut reported: Vec<usize> = Vec::new();
    for (at, action) in agent.domain.domain().actions.iter().enumerate() {
        let Some(&index) = agent.operators.get(at) else { continue };
        let runs = |other: usize| agent.operators[other] == index && reach.runs(other);
        if reported.contains(&index) || (0..agent.operators.len()).any(runs) {
            continue;
        }
        reported.push(index);
        let missing = agent.words_for_inputs().missing(reach, &action.pre);
        let why = match missing.is_empty() {
            true => "what it would make true is true already".to_owned(),
            false => sentences(&missing),
        };
        let Some(head) = cx.heads.actions.iter().find(|head| head.full_name == agent.actions[index].name) else {
            continue;
        };
        let (span, name) = (head.name.span, &head.full_name);
        let found = Diagnostic::warning("dead-action", span, format!("the action `{name}` can never run: {why}"));
        cx.report(found.help(cure(agent, problem, reach, &action.pre, &missing, "run")));
    }
}

fn goals(cx: &mut AgentCx<'_>, agent: &Agent, problem: &Problem<'_>, reach: &Reach<'_, '_>) {
    for (at, goal) in agent.goals.iter().enumerate() {
        let pre = &agent.domain.domain().goals[at].pre;
        let missing = agent.words_for_inputs().missing(reach, pre);
        if missing.is_empty() {
            continue;
        }
        let written = cx.heads.visible.goals.get(goal.name.as_str()).map(|decl| decl.name.span);
        let action = cx.heads.actions.iter().find(|head| head.full_name == goal.name).map(|head| head.name.span);
        let Some(span) = written.or(action) else { continue };
        let (name, why) = (&goal.name, sentences(&missing));
        let found =
            Diagnostic::warning("unreachable-goal", span, format!("the goal `{name}` cannot be reached: {why}"));
        cx.report(found.help(cure(agent, problem, reach, pre, &missing, "be reached")));
    }
}

/// Conditions that only `post` changes, and that no `post` names. Those of a shared file may be for other agents.
fn flags(cx: &mut AgentCx<'_>, agent: &Agent) {
    let Some(own) = cx.heads.own.agent.as_ref().map(|name| name.span.file) else { return };
    for (at, condition) in agent.conditions.iter().enumerate() {
        let ConditionKind::Flag(value) = condition.kind else { continue };
        let name = &condition.name;
        let span = cx.heads.visible.conditions.get(name.as_str()).map(|decl| decl.name.span);
        let Some(span) = span.filter(|span| span.file == own) else { continue };
        if agent.actions.iter().all(|action| action.post.iter().all(|(of, to)| *of != at || *to == value)) {
            let message = format!("the condition `{name}` is always `{value}`");
            let other = if value { format!("not {name}") } else { name.clone() };
            let help = format!("no action has `post: {other}`; a switch that is set by hand belongs in `config`");
            cx.report(Diagnostic::warning("constant-condition", span, message).help(help));
        }
    }
}

/// Conditions that can never be known, because what they look at never comes.
fn conditions(cx: &mut AgentCx<'_>, agent: &Agent, reach: &Reach<'_, '_>) {
    for (at, fact) in agent.facts.iter().enumerate() {
        let Fact::Condition(index) = fact else { continue };
        let Some(condition) = agent.conditions.get(*index) else { continue };
        let id = FactId(at as u32);
        if matches!(condition.kind, ConditionKind::Flag(_)) || reach.holds(id, true) || reach.holds(id, false) {
            continue;
        }
        let Some(span) = cx.heads.visible.conditions.get(condition.name.as_str()).map(|decl| decl.name.span) else {
            continue;
        };
        let types: Vec<&str> = condition.mentions.iter().map(|id| agent.types.name(*id)).collect();
        let message = format!("the condition `{}` can never be known", condition.name);
        let help = format!("it looks at {}, and not all of that can be there", listed(&types));
        cx.report(Diagnostic::warning("constant-condition", span, message).help(help));
    }
}

/// The chain as one text, the leaf first.
fn sentences(missing: &[Missing]) -> String {
    let mut told: Vec<&str> = missing.iter().take(SENTENCES_MAX).map(|missing| missing.because.as_str()).collect();
    let more = "and so on";
    told.extend((missing.len() > SENTENCES_MAX).then_some(more));
    told.join("; ")
}

/// What a run starts from, and which inputs would be enough.
fn cure(
    agent: &Agent,
    problem: &Problem<'_>,
    reach: &Reach<'_, '_>,
    wanted: &[(FactId, bool)],
    missing: &[Missing],
    can: &str,
) -> String {
    let inputs: Vec<&str> = agent.inputs.iter().map(|input| agent.types.name(input.type_id)).collect();
    let starts = match inputs.is_empty() {
        true => "a run starts from nothing".to_owned(),
        false => format!("a run starts from {}", listed(&inputs)),
    };
    if let Some(near) = missing.iter().find_map(|missing| near(agent, reach, missing)) {
        return format!("{starts}; {near}");
    }
    match agent.inputs_wanted(problem, wanted) {
        Some(types) if !types.is_empty() => {
            let names: Vec<&str> = types.iter().map(|id| agent.types.name(*id)).collect();
            format!("{starts}; with {} among `inputs` it could {can}", listed(&names))
        }
        _ => format!("{starts}; let an action output what is missing"),
    }
}

/// A type that is supplied, and named nearly as one that is not.
fn near(agent: &Agent, reach: &Reach<'_, '_>, missing: &Missing) -> Option<String> {
    let type_name = |fact: &Fact| match fact {
        Fact::Has { type_id, .. } => Some(agent.types.name(*type_id)),
        _ => None,
    };
    let wanted = type_name(agent.facts.get(missing.fact.0 as usize)?)?;
    let supplied = agent.facts.iter().enumerate().filter(|(at, _)| reach.holds(FactId(*at as u32), true));
    let names: Vec<&str> = supplied.filter_map(|(_, fact)| type_name(fact)).collect();
    let near = suggest::nearest(wanted, names.iter().copied());
    near.first().map(|near| format!("`{near}` is supplied, `{wanted}` is not"))
}

#[cfg(test)]
mod tests {
    use crate::compile::tests::{compiled, lines};

    fn found(rest: &str) -> Vec<String> {
        let text = format!("agent: a\ninputs: UserInput\ntypes:\n  A: {{x: string}}\n  B: {{x: string}}\n{rest}");
        let compiled = compiled(&[("a.yaml", &text)]);
        let help = compiled.diagnostics.iter().flat_map(|found| found.help.clone());
        lines(&compiled).into_iter().chain(help).collect()
    }

    #[test]
    fn the_fewest_inputs_that_would_do_are_told() {
        let lines = found(
            "  W: {x: string}\n  V: {x: string}\nactions:\n  w: {inputs: W, output: A, prompt: hi}\n  v: {inputs: V, output: A, prompt: hi}\n  end: {inputs: A, output: B, prompt: hi, achieves: Done}\n",
        );
        let wanted = "a run starts from `UserInput`; with `W` among `inputs` it could be reached";
        assert!(lines.iter().any(|line| line == wanted), "{lines:#?}");
        let goal = lines.iter().find(|line| line.starts_with("unreachable-goal")).expect("a finding");
        assert!(
            goal.contains("`A` is output only by `w`, which needs `W`, which nothing supplies, and by `v`"),
            "{goal}"
        );
        assert!(!goal.contains("cannot run"), "{goal}");
    }

    #[test]
    fn a_flag_that_no_post_changes_is_constant() {
        let rest = |post: &str| {
            format!(
                "conditions:\n  ok: false\nactions:\n  check: {{inputs: UserInput, output: A, {post}prompt: hi}}\n  end: {{inputs: A, pre: not ok, output: B, prompt: hi, achieves: Done}}\n"
            )
        };
        let lines = found(&rest(""));
        assert_eq!(lines[0], "constant-condition at \"ok\": the condition `ok` is always `false`");
        assert_eq!(found(&rest("post: ok, ")), Vec::<String>::new());
        assert_eq!(found(&rest("post: not ok, "))[0], lines[0]);
    }

    #[test]
    fn a_condition_on_what_never_comes_is_never_known() {
        let lines = found(
            "conditions:\n  late: b.x == 'late'\nactions:\n  make: {inputs: UserInput, output: A, prompt: hi, achieves: Done}\n  end: {inputs: UserInput, pre: late, output: A, prompt: hi}\n",
        );
        assert!(lines.iter().any(|line| line.contains("the condition `late` can never be known")), "{lines:#?}");
    }
}
