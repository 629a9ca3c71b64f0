//! What a run starts from: given as text, as typed objects or as bare JSON; validated, and asked for when missing.

use serde_json::{Value, json};

use crate::process::run::Given;
use crate::program::Agent;
use crate::value::{Shape, Tags, TypeId, Valid, Violation};
use crate::world::World;

use super::StartError;

/// One input as given.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Text: becomes a `UserInput` with the time of the world's clock.
    Text(String),
    /// An object of a type, named by the type or by one of the agent's inputs; a list input takes a list.
    Typed(String, Value),
    /// An object for the one declared input that it validates as.
    Bare(Value),
}

/// A required input that was not given.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingInput {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_name: String,
    /// A line to copy.
    pub example: String,
}

/// The message of [`StartError::MissingInputs`].
pub(super) fn missing_message(missing: &[MissingInput]) -> String {
    let named: Vec<String> = missing.iter().map(|input| format!("`{}` (`{}`)", input.name, input.type_name)).collect();
    let lines: Vec<String> = missing.iter().map(|input| format!("\n  {}", input.example)).collect();
    let what = if missing.len() == 1 { "the input is missing" } else { "inputs are missing" };
    format!("{what}: {}; give, for example{}", named.join(", "), lines.concat())
}

fn is_user_input(agent: &Agent, input: &crate::program::Input) -> bool {
    agent.types.name(input.type_id) == "UserInput"
}

/// Validates inputs, in the order given.
pub(super) fn given(agent: &Agent, inputs: Vec<Input>, world: &dyn World) -> Result<Vec<Given>, StartError> {
    let mut given: Vec<Given> = Vec::new();
    for input in inputs {
        let objects = match input {
            // What is said to a chat is its first message.
            Input::Text(text)
                if agent.chat.is_some() && !agent.inputs.iter().any(|input| is_user_input(agent, input)) =>
            {
                typed(agent, "UserMessage", json!({"content": text}))?
            }
            Input::Text(text) => {
                let value = json!({"content": text, "timestamp": world.now().to_string()});
                typed(agent, "UserInput", value)?
            }
            Input::Typed(name, value) => typed(agent, &name, value)?,
            Input::Bare(value) => vec![bare(agent, value)?],
        };
        for mut object in objects {
            object.name = object.name.or_else(|| free_name(agent, object.type_id, &given));
            given.push(object);
        }
    }
    Ok(given)
}

/// The name of the first declared input of the type that no object has taken yet; a list input is never full.
fn free_name(agent: &Agent, id: TypeId, given: &[Given]) -> Option<String> {
    let is_taken = |name: &str| given.iter().any(|object| object.name.as_deref() == Some(name));
    let fitting = agent.inputs.iter().filter(|input| agent.types.is_subtype(id, input.type_id));
    fitting.filter(|input| input.list || !is_taken(&input.name)).map(|input| input.name.clone()).next()
}

fn typed(agent: &Agent, name: &str, value: Value) -> Result<Vec<Given>, StartError> {
    let input = agent.inputs.iter().find(|input| input.name == name);
    let Some(id) = input.map(|input| input.type_id).or_else(|| agent.types.id(name)) else {
        let names: Vec<&str> = agent.types.names().collect();
        let near = crate::diag::suggest::nearest(name, names.iter().copied());
        let help = near.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Err(StartError::BadInput(format!("the agent `{}` has no type `{name}`{help}", agent.name)));
    };
    let is_list = agent.inputs.iter().any(|input| input.list && input.type_id == id);
    let values = match value {
        Value::Array(items) if is_list => items,
        value => vec![value],
    };
    let own_name = input.map(|input| input.name.clone());
    let one = |value: Value| {
        let valid = validate(agent, id, value).map_err(|violations| {
            let listed: Vec<String> = violations.iter().map(ToString::to_string).collect();
            StartError::BadInput(format!("the input `{name}` is no `{}`: {}", agent.types.name(id), listed.join("; ")))
        })?;
        Ok(Given { type_id: valid.type_id.unwrap_or(id), name: own_name.clone(), value: valid.value })
    };
    values.into_iter().map(one).collect()
}

pub(super) fn validate(agent: &Agent, id: TypeId, value: Value) -> Result<Valid, Vec<Violation>> {
    agent.validators.validate_with(&Shape::named(id), value, agent, Tags::Inferred)
}

/// The object for the one declared input that a value validates as.
fn bare(agent: &Agent, value: Value) -> Result<Given, StartError> {
    let candidates: Vec<TypeId> = agent.inputs.iter().map(|input| input.type_id).collect();
    let names = |ids: &[TypeId]| ids.iter().map(|id| agent.types.name(*id).to_owned()).collect::<Vec<_>>();
    let mut fitting = agent.validators.matching(&candidates, &value, agent);
    fitting.dedup();
    match fitting.as_slice() {
        [only] => {
            let valid =
                validate(agent, *only, value).map_err(|_| StartError::BadInput("the input does not fit".into()))?;
            Ok(Given { type_id: valid.type_id.unwrap_or(*only), name: None, value: valid.value })
        }
        [] => {
            let listed = crate::decl::read::listed(&names(&candidates));
            let mut message =
                format!("the input fits none of the agent's inputs ({listed}); name its type: `TYPE=JSON`");
            if let [only] = candidates.as_slice()
                && let Err(violations) = validate(agent, *only, value)
            {
                let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
                message = format!("the input is no {listed}: {}", violations.join("; "));
            }
            Err(StartError::BadInput(message))
        }
        several => {
            let listed = crate::decl::read::listed(&names(several));
            Err(StartError::BadInput(format!("the input may be any of {listed}; name its type: `TYPE=JSON`")))
        }
    }
}

/// Refuses a run that lacks required inputs, or that was given none of those an agent without `inputs` could use.
pub(super) fn refuse_missing(agent: &Agent, given: &[Given]) -> Result<(), StartError> {
    let mut free: Vec<TypeId> = given.iter().map(|object| object.type_id).collect();
    let mut missing = Vec::new();
    for input in agent.inputs.iter().filter(|input| !input.optional) {
        match free.iter().position(|id| agent.types.is_subtype(*id, input.type_id)) {
            Some(_) if input.list => {}
            Some(at) => drop(free.remove(at)),
            None => missing.push(describe(agent, &input.name, input.type_id)),
        }
    }
    let fits = |object: &Given| agent.inputs.iter().any(|input| agent.types.is_subtype(object.type_id, input.type_id));
    if agent.chat.is_none() && !agent.inputs_declared && !agent.inputs.is_empty() && !given.iter().any(fits) {
        missing = agent.inputs.iter().map(|input| describe(agent, &input.name, input.type_id)).collect();
    }
    if missing.is_empty() { Ok(()) } else { Err(StartError::MissingInputs(missing)) }
}

pub(super) fn describe(agent: &Agent, name: &str, id: TypeId) -> MissingInput {
    let type_name = agent.types.name(id).to_owned();
    let example = match type_name.as_str() {
        "UserInput" => "\"the text\"".to_owned(),
        _ => {
            let sample = crate::value::sample(&agent.validators, &Shape::named(id)).unwrap_or(json!({}));
            format!("--input '{type_name}={sample}'")
        }
    };
    MissingInput { name: name.to_owned(), type_name, example }
}
