//! What a plan starts from when nothing runs yet: the declared inputs, what is assumed, what may not be used.

use crate::decl::read::listed;
use crate::diag::suggest;
use crate::planning::{FactId, State, Truth};
use crate::program::{Agent, Fact};

use super::super::StartError;

/// The facts when the declared inputs are there. `seen` are the facts of an empty blackboard: what looks at no object
/// (`config`, for example) is known already.
pub(super) fn assumed(agent: &Agent, seen: &State) -> State {
    let inputs: Vec<_> = match agent.inputs_declared {
        true => agent.inputs.iter().filter(|input| !input.optional).cloned().collect(),
        false => agent.inputs.clone(),
    };
    let mut state = agent.assumed_start(if inputs.is_empty() { &agent.inputs } else { &inputs });
    for (at, fact) in agent.facts.iter().enumerate() {
        let mentions = match fact {
            Fact::Condition(at) => agent.conditions.get(*at).map(|condition| &condition.mentions),
            Fact::Expr { mentions, .. } => Some(mentions),
            _ => None,
        };
        if mentions.is_some_and(Vec::is_empty) {
            state.set(FactId(at as u32), seen.get(FactId(at as u32)));
        }
    }
    state
}

/// The facts when these are taken as true, or as false after `not`. An object that is taken to be there is one of each
/// supertype too, and what looks at it may turn out either way.
///
/// # Errors
/// A text that is no fact of the domain, with the nearest.
pub(super) fn assume(agent: &Agent, state: &State, written: &[String]) -> Result<State, StartError> {
    let mut facts: Vec<(FactId, bool)> = Vec::new();
    for text in written {
        facts.push(fact(agent, text)?);
    }
    let mut state = state.clone();
    let objects = facts.iter().filter_map(|(id, value)| match agent.facts.get(id.0 as usize)? {
        Fact::Has { type_id, .. } | Fact::HasNamed { type_id, .. } if *value => Some(*type_id),
        _ => None,
    });
    let objects: Vec<_> = objects.collect();
    if !objects.is_empty() {
        state = agent.state_with(&state, &objects);
    }
    for (id, value) in facts {
        for implied in implied(agent, id, value) {
            state.set(implied, Truth::known(value));
        }
        state.set(id, Truth::known(value));
    }
    Ok(state)
}

/// The fact of a text, and the value that is asked for.
fn fact(agent: &Agent, written: &str) -> Result<(FactId, bool), StartError> {
    let domain = agent.domain.domain();
    let text = written.trim();
    if let Some(id) = domain.fact_id(text) {
        return Ok((id, true));
    }
    let (name, value) = match text.strip_prefix("not ") {
        Some(name) => (name.trim(), false),
        None => (text, true),
    };
    // A type's name is enough for `has(T)`, an action's for `ran(a)`.
    let forms = [name.to_owned(), format!("has({name})"), format!("ran({name})")];
    if let Some(id) = forms.iter().find_map(|form| domain.fact_id(form)) {
        return Ok((id, value));
    }
    let near = suggest::nearest(name, domain.facts());
    let inner: Vec<&str> = domain.facts().filter_map(|fact| fact.strip_prefix("has(")?.strip_suffix(')')).collect();
    let near_type = suggest::nearest(name, inner.iter().copied()).first().map(|near| format!("has({near})"));
    let help = match near.first().map(|near| (*near).to_owned()).or(near_type) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its facts are {}", listed(&domain.facts().collect::<Vec<_>>())),
    };
    Err(StartError::BadOption(format!("the domain of `{}` has no fact `{name}`; {help}", agent.name)))
}

/// The facts that have the same value because this one has it: `has` of supertypes and of fewer objects, or, when it does
/// not hold, of subtypes and of more.
fn implied(agent: &Agent, fact: FactId, value: bool) -> Vec<FactId> {
    let (type_id, count) = match agent.facts.get(fact.0 as usize) {
        Some(Fact::Has { type_id, count }) => (*type_id, *count),
        Some(Fact::HasNamed { type_id, .. }) if value => (*type_id, 1),
        _ => return Vec::new(),
    };
    let follows = |other: &Fact| match (other, value) {
        (Fact::Has { type_id: of, count: many }, true) => agent.types.is_subtype(type_id, *of) && *many <= count,
        (Fact::Has { type_id: of, count: many }, false) => agent.types.is_subtype(*of, type_id) && *many >= count,
        (Fact::HasNamed { type_id: of, .. } | Fact::Newest(of), false) => {
            agent.types.is_subtype(*of, type_id) && count == 1
        }
        _ => false,
    };
    let all = agent.facts.iter().enumerate().filter(|(_, other)| follows(other));
    all.map(|(at, _)| FactId(at as u32)).collect()
}

/// The operators of actions.
///
/// # Errors
/// A name that is no action of the agent, with the nearest.
pub(super) fn excluded(agent: &Agent, names: &[String]) -> Result<Vec<usize>, StartError> {
    let mut operators = Vec::new();
    for name in names {
        let Some(action) = agent.actions.iter().position(|action| action.name == *name) else {
            let all = agent.actions.iter().map(|action| action.name.as_str());
            let help = suggest::near_or_all(name, all, "its actions");
            return Err(StartError::BadOption(format!("the agent `{}` has no action `{name}`; {help}", agent.name)));
        };
        let of = agent.operators.iter().enumerate().filter(|(_, of)| **of == action);
        operators.extend(of.map(|(operator, _)| operator));
    }
    Ok(operators)
}
