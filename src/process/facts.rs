//! From the blackboard to the planner's facts (runtime.md 1).

use crate::planning::{FactId, State, Truth as Known};
use crate::program::{Action, Fact, Number};
use crate::prompt::Truth;

use super::scope::Scope;

/// The facts at one moment.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Their truth.
    pub state: State,
    /// Facts that are open because a condition has yet to be asked of a model, with that condition.
    pub to_ask: Vec<(FactId, usize)>,
}

/// Reads all facts of the agent's domain.
pub fn read(scope: &Scope) -> Facts {
    let mut state = State::all(scope.agent.facts.len(), Known::False);
    let mut to_ask = Vec::new();
    for (at, fact) in scope.agent.facts.iter().enumerate() {
        let id = FactId(at as u32);
        let mut known = one(scope, fact);
        if let Some(condition) = scope.take_hangs_on()
            && known == Known::Unknown
        {
            known = Known::Open;
            to_ask.push((id, condition));
        }
        if known != Known::False {
            state.set(id, known);
        }
    }
    Facts { state, to_ask }
}

fn one(scope: &Scope, fact: &Fact) -> Known {
    let board = &scope.board;
    match fact {
        Fact::Has { type_id, count } => Known::known(board.count(*type_id) >= *count as usize),
        Fact::HasNamed { name, type_id } => Known::known(board.named(name, *type_id).is_some()),
        Fact::Ran(action) => Known::known(scope.marks.ran.get(*action).copied().unwrap_or(false)),
        Fact::Newest(type_id) => {
            Known::known(board.last().is_some_and(|(_, object)| board.is_a(object.type_id, *type_id)))
        }
        Fact::In(type_id) => Known::known(scope.state_type().is_some_and(|state| board.is_a(state, *type_id))),
        Fact::Condition(condition) => known(scope.condition(*condition)),
        Fact::Expr { state: Some(state), .. } if !scope.state_type().is_some_and(|of| board.is_a(of, *state)) => {
            Known::Unknown
        }
        Fact::Expr { state: Some(_), id, inputs, mentions } => {
            let fact = Fact::Expr { state: None, id: *id, inputs: inputs.clone(), mentions: mentions.clone() };
            one(&scope.with_fields(), &fact)
        }
        Fact::Expr { id, inputs, .. } if inputs.is_empty() => known(scope.agent.templates.truth(*id, scope)),
        Fact::Expr { id, inputs, .. } => {
            // The expr names inputs of its action, so they are bound as they would be for it.
            let Some(bound) = scope.board.bind(inputs) else { return Known::Unknown };
            let mut inside = scope.with_inputs(inputs, &bound);
            inside.sees_types = true;
            known(scope.agent.templates.truth(*id, &inside))
        }
    }
}

fn known(truth: Truth) -> Known {
    match truth {
        Truth::True => Known::True,
        Truth::False => Known::False,
        Truth::Unknown => Known::Unknown,
    }
}

/// A cost or value of this round; what mentions an object that is not there yet counts 0.
///
/// # Errors
/// Says what is wrong: no number, a cost below zero, a failing expr.
pub fn number(scope: &Scope, number: Number, what: &str, of: &str) -> Result<f64, String> {
    known_number(scope, number, what, of).map(|value| value.unwrap_or(0.0))
}

/// A cost or value of an action of this round; `None` while it mentions an object that is not there yet, or the fields of
/// a state that the process is not in.
///
/// # Errors
/// As [`known_number`].
pub fn known_number_of(scope: &Scope, action: &Action, number: Number, what: &str) -> Result<Option<f64>, String> {
    let is_in = |state| scope.state_type().is_some_and(|now| scope.board.is_a(now, state));
    match (number, action.state) {
        (Number::Expr(_), Some(state)) if !is_in(state) => Ok(None),
        _ => known_number(&scope.for_action(action), number, what, &action.name),
    }
}

/// A cost or value of this round; `None` while it mentions an object that is not there yet.
///
/// # Errors
/// Says what is wrong: no number, a cost below zero, a failing expr.
pub fn known_number(scope: &Scope, number: Number, what: &str, of: &str) -> Result<Option<f64>, String> {
    let expr = match number {
        Number::Fixed(value) => return Ok(Some(value)),
        Number::Expr(expr) => expr,
    };
    let value = match scope.agent.templates.eval(expr, scope) {
        Ok(value) => value,
        Err(error) if error.is_undefined => return Ok(None),
        Err(error) => return Err(format!("the {what} of `{of}`: {error}")),
    };
    let Some(value) = value.as_f64().map(as_meant) else {
        return Err(format!("the {what} of `{of}` is `{value}`, expected a number"));
    };
    if what == "cost" && value < 0.0 {
        return Err(format!("the cost of `{of}` is {value}; a cost is not below zero"));
    }
    Ok(Some(value))
}

/// A computed number without the noise of binary arithmetic: `6 * 0.1` is 0.6, and ties with a 0.6 that was written. Kept
/// are the 15 digits that every decimal survives with.
fn as_meant(value: f64) -> f64 {
    let rounded = format!("{value:.14e}").parse().unwrap_or(value);
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::as_meant;

    #[test]
    fn computed_numbers_are_what_an_author_means() {
        for (computed, meant) in [(0.1 + 0.2, 0.3), (6.0 * 0.1, 0.6), (1.1 - 1.0, 0.1), (1e-300, 1e-300), (-2.5, -2.5)]
        {
            assert_eq!(as_meant(computed), meant);
        }
        assert_eq!(as_meant(1.0 / 3.0), 0.333_333_333_333_333);
        assert_eq!(as_meant(f64::MAX), f64::MAX);
        assert!(as_meant(f64::INFINITY).is_infinite() && as_meant(f64::NAN).is_nan());
    }
}
