//! `agentic` tools: an inner conversation with a model, seen outside as one tool; and the order in which its tools may be
//! called (language.md 8).

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::action::context::{CallSettings, Context, Failure, PromptCall};
use crate::action::{Body, Needs};
use crate::diag::suggest::listed;
use crate::llm::{Message, OutputSchema};
use crate::prompt::{ExprId, TemplateId};
use crate::value::{OutputKind, TypeId};

/// How many replies of an inner conversation are tried before the tool fails.
const ATTEMPTS: u32 = 3;

/// In which order tools may be called.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Order {
    /// In any.
    #[default]
    Free,
    /// Tools unlock one another.
    Playbook(Vec<Unlock>),
    /// Tools depend on a state.
    Machine(Machine),
}

/// What unlocks a tool of a playbook.
#[derive(Clone, Debug, PartialEq)]
pub struct Unlock {
    /// The tool.
    pub tool: String,
    /// Tools that must have been called before.
    pub after: Vec<String>,
    /// It is unlocked while this holds: the expr and its text.
    pub when: Option<(ExprId, String)>,
    /// It is unlocked once an object of this type is there.
    pub needs: Option<TypeId>,
}

/// States of an inner conversation: in each, its tools and the state after a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The first state.
    pub start: String,
    /// For each state its tools, each with the state that a call leads to.
    pub states: IndexMap<String, IndexMap<String, Option<String>>>,
    /// Tools of every state.
    pub everywhere: IndexMap<String, Option<String>>,
}

/// How far an inner conversation has come.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    called: BTreeSet<String>,
    state: Option<String>,
}

impl Progress {
    /// Why a tool is locked now, for the model; `None` when it may be called.
    ///
    /// `holds` decides an expr, `has` says whether an object of a type is there and names the type.
    pub fn locked(
        &self,
        order: &Order,
        tool: &str,
        holds: &dyn Fn(ExprId) -> bool,
        has: &dyn Fn(TypeId) -> Result<(), String>,
    ) -> Option<String> {
        match order {
            Order::Free => None,
            Order::Playbook(unlocks) => self.locked_by_playbook(unlocks, tool, holds, has),
            Order::Machine(machine) => self.locked_by_state(machine, tool),
        }
    }

    fn locked_by_playbook(
        &self,
        unlocks: &[Unlock],
        tool: &str,
        holds: &dyn Fn(ExprId) -> bool,
        has: &dyn Fn(TypeId) -> Result<(), String>,
    ) -> Option<String> {
        let unlock = unlocks.iter().find(|unlock| unlock.tool == tool)?;
        let mut first = Vec::new();
        let missing: Vec<&String> = unlock.after.iter().filter(|tool| !self.called.contains(*tool)).collect();
        if !missing.is_empty() {
            first.push(format!("call {}", listed(&missing)));
        }
        if let Some(missing) = unlock.needs.and_then(|needs| has(needs).err()) {
            first.push(format!("there must be an object of type `{missing}`"));
        }
        if let Some((when, text)) = &unlock.when
            && !holds(*when)
        {
            first.push(format!("this must hold: {text}"));
        }
        (!first.is_empty()).then(|| format!("The tool `{tool}` is locked. First, {}.", first.join("; ")))
    }

    fn locked_by_state(&self, machine: &Machine, tool: &str) -> Option<String> {
        let state = self.state.as_ref().unwrap_or(&machine.start);
        let here = machine.states.get(state);
        if machine.everywhere.contains_key(tool) || here.is_some_and(|here| here.contains_key(tool)) {
            return None;
        }
        let offering = machine.states.iter().filter(|(_, tools)| tools.contains_key(tool));
        let offering: Vec<&String> = offering.map(|(name, _)| name).collect();
        if offering.is_empty() {
            // A tool that no state names depends on none.
            return None;
        }
        let leads: Vec<&String> = here
            .into_iter()
            .chain([&machine.everywhere])
            .flatten()
            .filter(|(_, to)| to.as_ref().is_some_and(|to| offering.contains(&to)))
            .map(|(name, _)| name)
            .collect();
        let open: Vec<&String> = here.into_iter().chain([&machine.everywhere]).flat_map(IndexMap::keys).collect();
        let next = if leads.is_empty() { open } else { leads };
        let first = match next.is_empty() {
            true => "No tool leads there.".to_owned(),
            false => format!("First, call {}.", listed(&next)),
        };
        let belongs = listed(&offering);
        Some(format!(
            "The tool `{tool}` is locked: it belongs to the state {belongs}, and the state is `{state}`. {first}"
        ))
    }

    /// Takes note of a call that has succeeded.
    pub fn called(&mut self, order: &Order, tool: &str) {
        self.called.insert(tool.to_owned());
        if let Order::Machine(machine) = order {
            let state = self.state.as_ref().unwrap_or(&machine.start);
            let here = machine.states.get(state).and_then(|tools| tools.get(tool));
            let to = here.or_else(|| machine.everywhere.get(tool)).cloned().flatten();
            if to.is_some() {
                self.state = to;
            }
        }
    }
}

/// The body `agentic` of a tool.
#[derive(Debug)]
pub struct Agentic {
    /// The tool's name; the calls to the model are named so.
    pub name: String,
    /// The author's system text.
    pub system: Option<TemplateId>,
    /// Model, turns, and the tools inside.
    pub settings: Arc<CallSettings>,
    /// The form of the answer, when the tool publishes it.
    pub output: Option<OutputSchema>,
}

/// The user message of an inner conversation: the one text that it was called with, or all arguments as JSON.
fn message(arguments: &Map<String, Value>) -> String {
    let mut values = arguments.values();
    match (values.next(), values.next()) {
        (Some(Value::String(text)), None) => text.clone(),
        _ => Value::Object(arguments.clone()).to_string(),
    }
}

#[async_trait::async_trait]
impl Body for Agentic {
    fn kind(&self) -> &'static str {
        "agentic"
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let system = match self.system {
            Some(system) => Some(cx.templates().render(system, cx.vars())?),
            None => None,
        };
        let call = PromptCall {
            name: self.name.clone(),
            system,
            messages: vec![Message::user(cx.arguments().map(message).unwrap_or_default())],
            output: self.output.clone(),
            settings: Arc::clone(&self.settings),
            attempts: ATTEMPTS,
        };
        let output = cx.output().clone();
        let accept = |value: Value| {
            if output.kind == OutputKind::None {
                return Ok(value);
            }
            let valid = cx.validators().validate_output(&output, value.clone(), cx.rules(), Default::default());
            valid.map(|_| value).map_err(|wrong| wrong.iter().map(ToString::to_string).collect())
        };
        cx.ask_model(call, &accept).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlock(tool: &str, after: &[&str]) -> Unlock {
        let after = after.iter().map(|name| (*name).to_owned()).collect();
        Unlock { tool: tool.to_owned(), after, when: None, needs: None }
    }

    fn locked(progress: &Progress, order: &Order, tool: &str) -> Option<String> {
        progress.locked(order, tool, &|_| false, &|_| Err("Order".to_owned()))
    }

    #[test]
    fn a_locked_tool_of_a_playbook_says_what_comes_first() {
        let mut pay = unlock("pay", &["look", "check"]);
        pay.needs = Some(TypeId(0));
        let order = Order::Playbook(vec![unlock("check", &["look"]), pay]);
        let mut progress = Progress::default();
        assert_eq!(locked(&progress, &order, "look"), None);
        assert_eq!(
            locked(&progress, &order, "check").as_deref(),
            Some("The tool `check` is locked. First, call `look`.")
        );
        progress.called(&order, "look");
        assert_eq!(locked(&progress, &order, "check"), None);
        assert_eq!(
            locked(&progress, &order, "pay").as_deref(),
            Some("The tool `pay` is locked. First, call `check`; there must be an object of type `Order`.")
        );
    }

    #[test]
    fn a_tool_of_another_state_says_what_leads_there() {
        let tools = |list: &[(&str, Option<&str>)]| {
            list.iter().map(|(name, to)| ((*name).to_owned(), to.map(str::to_owned))).collect::<IndexMap<_, _>>()
        };
        let states = [
            ("draft", tools(&[("write", None), ("submit", Some("review"))])),
            ("review", tools(&[("approve", Some("done")), ("reject", Some("draft"))])),
            ("done", tools(&[("publish", None)])),
        ];
        let order = Order::Machine(Machine {
            start: "draft".to_owned(),
            states: states.into_iter().map(|(name, tools)| (name.to_owned(), tools)).collect(),
            everywhere: tools(&[("status", None)]),
        });
        let mut progress = Progress::default();
        assert_eq!(locked(&progress, &order, "write"), None);
        assert_eq!(locked(&progress, &order, "status"), None);
        assert_eq!(
            locked(&progress, &order, "approve").as_deref(),
            Some(
                "The tool `approve` is locked: it belongs to the state `review`, and the state is `draft`. First, call `submit`."
            )
        );
        progress.called(&order, "submit");
        assert_eq!(locked(&progress, &order, "approve"), None);
        assert!(locked(&progress, &order, "write").is_some());
        progress.called(&order, "status");
        progress.called(&order, "reject");
        assert_eq!(locked(&progress, &order, "write"), None);
    }
}
