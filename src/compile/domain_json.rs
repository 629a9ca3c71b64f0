//! `domain --format json` (cli.md 3): the compiled domain; with a `start` it is a `solve` problem.

use serde_json::{Map, Value, json};

use crate::planning::{Domain, Effect, FactId, State, Truth};
use crate::program::{Agent, Number};
use crate::value::schema_of_type;

/// The document of an agent's domain.
pub fn document(agent: &Agent) -> Value {
    let domain = agent.domain.domain();
    let types = agent.types.iter();
    let types: Map<String, Value> =
        types.map(|(id, def)| (def.name.clone(), schema_of_type(&agent.types, id))).collect();
    let actions: Vec<Value> =
        domain.actions.iter().enumerate().map(|(at, action)| operator(agent, domain, at, action)).collect();
    let goals: Vec<Value> = domain
        .goals
        .iter()
        .map(|goal| json!({"name": goal.name, "pre": requirements(domain, &goal.pre), "value": goal.value}))
        .collect();
    json!({"types": types, "facts": domain.facts().collect::<Vec<_>>(), "actions": actions, "goals": goals})
}

/// The same document with a start, which makes it a `solve` problem (cli.md 4).
pub fn problem(agent: &Agent, start: &State) -> Value {
    let domain = agent.domain.domain();
    let mut document = document(agent);
    let atoms = domain.facts().enumerate().filter_map(|(at, name)| {
        let value = match start.get(FactId(at as u32)) {
            Truth::True => Value::Bool(true),
            Truth::Open => Value::Null,
            // What is unknown satisfies nothing; `solve` has no such value, and what is false is the nearest to it.
            Truth::False | Truth::Unknown => return None,
        };
        Some((name.to_owned(), value))
    });
    document["start"] = Value::Object(atoms.collect());
    document["closed_world"] = Value::Bool(true);
    document
}

fn operator(agent: &Agent, domain: &Domain, at: usize, action: &crate::planning::Action) -> Value {
    let effects = action.effects.iter().map(|(fact, effect)| {
        let value = match effect {
            Effect::Makes(value) => Value::Bool(*value),
            Effect::Opens => Value::Null,
        };
        (domain.fact_name(*fact).to_owned(), value)
    });
    let effects: Map<String, Value> = effects.collect();
    let written = agent.operators.get(at).and_then(|at| agent.actions.get(*at));
    let mut document = json!({
        "name": action.name,
        "pre": requirements(domain, &action.pre),
        "effects": effects,
        "cost": action.cost,
        "value": action.value,
    });
    // `solve` takes numbers, so an expr, which is evaluated while planning, stands beside what it counts before that.
    for (key, number) in [("cost_expr", written.map(|a| a.cost)), ("value_expr", written.map(|a| a.value))] {
        if let Some(Number::Expr(id)) = number {
            document[key] = json!(agent.templates.expr_source(id));
        }
    }
    document
}

fn requirements(domain: &Domain, pre: &[(FactId, bool)]) -> Map<String, Value> {
    pre.iter().map(|(fact, value)| (domain.fact_name(*fact).to_owned(), Value::Bool(*value))).collect()
}
