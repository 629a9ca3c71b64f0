//! `test --init`: a first test file, whose model answers what is made up from the types.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::engine::Input;
use crate::program::{Action, Agent};
use crate::value::{OutputKind, Shape, sample};

/// What is said where anything may be.
const SAID: &str = "What a person would write";

/// A first test file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// Where it belongs, relative to the root.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Writes a first test for an agent; `workflow` is its file, relative to the root. `plan` gives the actions that are planned
/// from inputs; the people whom they ask answer what is made up.
///
/// # Errors
/// When no input or answer can be made up.
pub fn first_test(agent: &Agent, workflow: &str, plan: &dyn Fn(Vec<Input>) -> Vec<String>) -> Result<First, String> {
    let stem = Path::new(workflow).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut case = Map::new();
    let mut inputs = Map::new();
    let mut given = Vec::new();
    let wanted = agent.inputs.iter().filter(|input| !input.optional || !agent.inputs_declared);
    for input in wanted {
        let type_name = agent.types.name(input.type_id).to_owned();
        if type_name == "UserInput" {
            case.insert("input".to_owned(), json!(SAID));
            given.push(Input::Text(SAID.to_owned()));
            continue;
        }
        let concrete = agent.types.concrete(input.type_id).first().copied().unwrap_or(input.type_id);
        let value = sample(&agent.validators, &Shape::named(concrete))?;
        let value = if input.list { json!([value]) } else { value };
        let key = if input.named || input.list { input.name.clone() } else { agent.types.name(concrete).to_owned() };
        given.push(Input::Typed(key.clone(), value.clone()));
        inputs.insert(key, value);
    }
    if !inputs.is_empty() {
        case.insert("inputs".to_owned(), Value::Object(inputs));
    }
    case.insert("replies".to_owned(), json!("sampled"));
    let mut answers = Map::new();
    for name in plan(given) {
        let asks = agent.actions.iter().find(|action| action.name == name && action.body.kind() == "ask");
        if let Some(answer) = asks.map(|action| answer(agent, action)).transpose()?.flatten() {
            answers.insert(name, answer);
        }
    }
    if !answers.is_empty() {
        case.insert("answers".to_owned(), Value::Object(answers));
    }
    case.insert("expect".to_owned(), json!({"status": "completed", "prompts": "snapshot"}));
    let cases = json!({"cases": {"first": case}});
    let body = serde_yaml::to_string(&cases).map_err(|error| error.to_string())?;
    let text = format!(
        "# agent-run test tests/{stem}.yaml\n#\n# `replies: sampled` makes the model's answers up from the types. Put real ones in their place:\n\
         #   replies: {{an_action: {{field: value}}}}\nworkflow: ../{workflow}\n{body}"
    );
    Ok(First { path: format!("tests/{stem}.yaml"), text })
}

/// What a person says to an action, made up from its type; yes where only that is asked.
fn answer(agent: &Agent, action: &Action) -> Result<Option<Value>, String> {
    if action.body.only_confirms() {
        return Ok(Some(json!(true)));
    }
    let Some(of) = action.output.types().first().copied() else { return Ok(None) };
    let concrete = agent.types.concrete(of).first().copied().unwrap_or(of);
    let value = sample(&agent.validators, &Shape::named(concrete))?;
    Ok(Some(match action.output.kind {
        OutputKind::List(_) => json!([[value]]),
        // A list is several answers, one after the other.
        _ if value.is_array() => json!([value]),
        _ => value,
    }))
}
