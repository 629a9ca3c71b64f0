//! Checks of a case against the agent that it runs: what is named must be there.

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::decl::Name;
use crate::decl::test_file::{CaseDecl, Expect, Prompts, Replies, ToolCalls};
use crate::diag::{Diagnostic, suggest};
use crate::engine::Input;
use crate::program::guardrail::{Decider, Guardrail};
use crate::program::{Agent, ConditionKind, Program};
use crate::source::{Node, NodeKind, Span};
use crate::value::{Member, Shape, Tags, TypeId, member};

use super::case::{GivenInput, Parts};

/// The names that a case may use.
pub(super) struct Known {
    pub(super) agent: Arc<Agent>,
    /// Actions of the agent and of all that it may run, with the last parts of states' actions: name, and the kind of body.
    pub(super) actions: IndexMap<String, &'static str>,
    /// Names of calls to models: actions, prompted conditions, guardrails that ask a model, tools with a model of their
    /// own, the supervisor.
    callers: Vec<String>,
    tools: Vec<String>,
    /// Tools of servers are known only to the servers.
    open_tools: bool,
}

/// Kinds of failure (cli.md 2).
const FAILURES: &[&str] = &[
    "llm",
    "validation",
    "tool",
    "http",
    "exec",
    "guardrail",
    "permission",
    "timeout",
    "limit",
    "refusal",
    "stuck",
    "error",
];

/// Kinds of bodies that never ask a model themselves.
const SILENT: &[&str] = &["ask", "call", "exec", "http", "set"];

impl Known {
    pub(super) fn of(program: &Program, agent: &Arc<Agent>) -> Known {
        let mut actions = IndexMap::new();
        let mut callers = vec!["supervisor".to_owned()];
        let mut tools = Vec::new();
        for of in &program.agents {
            for action in &of.actions {
                actions.entry(action.name.clone()).or_insert(action.body.kind());
                if let Some((_, last)) = action.name.rsplit_once('.') {
                    actions.entry(last.to_owned()).or_insert(action.body.kind());
                }
            }
            let prompted = of.conditions.iter().filter(|condition| matches!(condition.kind, ConditionKind::Prompt(..)));
            callers.extend(prompted.map(|condition| condition.name.clone()));
            let is_judge = |guardrail: &&Guardrail| matches!(guardrail.decider, Some(Decider::Judge { .. }));
            callers.extend(of.guardrails.iter().filter(is_judge).map(|guardrail| guardrail.name.clone()));
            callers.extend(of.tools.keys().cloned());
            tools.extend(of.tools.keys().cloned());
            // What is fetched for a reference is stubbed by its name.
            for reference in of.references.iter().flatten() {
                tools.extend(reference.is_remote().then(|| reference.name.clone()));
                tools.extend(reference.tools.iter().map(|tool| tool.name.clone()));
            }
        }
        callers.extend(actions.keys().cloned());
        let open_tools = program.project.as_ref().is_some_and(|project| !project.mcp_servers.is_empty());
        Known { agent: agent.clone(), actions, callers, tools, open_tools }
    }

    /// Whether calls to models have this name.
    pub(super) fn is_caller(&self, name: &str) -> bool {
        self.callers.iter().any(|caller| caller == name)
    }

    fn action(&self, name: &str, span: Span, found: &mut Vec<Diagnostic>) {
        unknown("unknown-action", "action", name, span, self.actions.keys().map(String::as_str), found);
    }

    fn tool(&self, name: &str, span: Span, found: &mut Vec<Diagnostic>) {
        if !self.open_tools {
            unknown("unknown-tool", "tool", name, span, self.tools.iter().map(String::as_str), found);
        }
    }

    pub(super) fn type_named(&self, name: &Name, found: &mut Vec<Diagnostic>) -> Option<TypeId> {
        let element = name.value.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>'));
        let id = self.agent.types.id(element.unwrap_or(&name.value));
        if id.is_none() {
            unknown("unknown-type", "type", &name.value, name.span, self.agent.types.names(), found);
        }
        id.filter(|_| element.is_none())
    }

    pub(super) fn goal(&self, name: &Name, found: &mut Vec<Diagnostic>) {
        let goals: Vec<&str> = self.agent.goals.iter().map(|goal| goal.name.as_str()).collect();
        // A run for a type makes a goal of its own.
        if !name.value.starts_with("returns ") {
            unknown("unknown-action", "goal", &name.value, name.span, goals.into_iter(), found);
        }
    }
}

/// Reports a name that is none of the candidates.
fn unknown<'a>(
    code: &'static str,
    what: &str,
    name: &str,
    span: Span,
    candidates: impl Iterator<Item = &'a str>,
    found: &mut Vec<Diagnostic>,
) {
    let candidates: Vec<&str> = candidates.collect();
    if candidates.contains(&name) {
        return;
    }
    let near = suggest::nearest(name, candidates.iter().copied());
    let help = suggest::near_or_all(name, candidates.iter().copied(), &format!("the {what}s"));
    let mut diagnostic = Diagnostic::error(code, span, format!("there is no {what} `{name}`")).help(help);
    if let [only] = near.as_slice() {
        diagnostic = diagnostic.fix(span, only.clone());
    }
    found.push(diagnostic);
}

/// Checks everything that a case names.
pub(super) fn check_case(known: &Known, case: &CaseDecl, parts: &Parts, found: &mut Vec<Diagnostic>) {
    check_inputs(known, parts, found);
    if let Some(config) = &case.own.config {
        for entry in config.map().iter() {
            let first = entry.key.value.split('.').next().unwrap_or_default();
            if !known.agent.config.contains_key(first) {
                let names = known.agent.config.keys().map(String::as_str);
                unknown("unknown-key", "entry in `config`:", first, entry.key.span, names, found);
            }
        }
    }
    if let Some(Replies::By(replies)) = &case.own.replies {
        for entry in replies.map().iter() {
            let (name, span) = (entry.key.value.as_str(), entry.key.span);
            match known.actions.get(name) {
                Some(kind) if SILENT.contains(kind) => found.push(
                    Diagnostic::error("unused-result", span, format!("`{name}` asks no model; its body is `{kind}`"))
                        .help(match *kind {
                            "ask" => "give a person's answer: `answers: {…}`",
                            "call" => "stub the tool: `tools: {…}`",
                            _ => "stub the action: `actions: {…}`, or leave the reply out",
                        }),
                ),
                Some(_) => {}
                None => {
                    unknown("unknown-action", "action", name, span, known.callers.iter().map(String::as_str), found)
                }
            }
        }
    }
    for entry in case.own.tools.as_ref().map(|tools| tools.map()).unwrap_or_default().iter() {
        known.tool(&entry.key.value, entry.key.span, found);
    }
    for entry in case.own.actions.as_ref().map(|actions| actions.map()).unwrap_or_default().iter() {
        known.action(&entry.key.value, entry.key.span, found);
    }
    for entry in case.own.answers.as_ref().map(|answers| answers.map()).unwrap_or_default().iter() {
        // The messages of a chat are the answers of `chat`.
        let is_message = known.agent.chat.is_some() && entry.key.value == "chat";
        if !is_message && !known.tools.contains(&entry.key.value) {
            known.action(&entry.key.value, entry.key.span, found);
        }
    }
    if let Some(goal) = &case.head.goal {
        known.goal(goal, found);
    }
    if let Some(returns) = &case.head.returns {
        known.type_named(returns, found);
    }
    if let Some(expect) = &case.head.expect {
        check_expect(known, expect, found);
    }
}

/// Inputs must be of a type and fit it.
fn check_inputs(known: &Known, parts: &Parts, found: &mut Vec<Diagnostic>) {
    let agent = &known.agent;
    for GivenInput { input, key, node } in &parts.inputs {
        let Input::Typed(name, value) = input else { continue };
        let declared = agent.inputs.iter().find(|input| input.name == *name);
        let Some(id) = declared.map(|input| input.type_id).or_else(|| agent.types.id(name)) else {
            let names = agent.inputs.iter().map(|input| input.name.as_str()).chain(agent.types.names());
            unknown("unknown-type", "type or input", name, *key, names.collect::<BTreeSet<_>>().into_iter(), found);
            continue;
        };
        let is_list = agent.inputs.iter().any(|input| input.list && input.type_id == id);
        let values: Vec<(&Node, Value)> = match (value, node.as_list()) {
            (Value::Array(values), Some(nodes)) if is_list => nodes.iter().zip(values.iter().cloned()).collect(),
            (one, _) => vec![(node, one.clone())],
        };
        for (node, value) in values {
            let valid = agent.validators.validate_with(&Shape::named(id), value, &**agent, Tags::Inferred);
            for violation in valid.err().into_iter().flatten() {
                let message = format!("this is no `{}`: {violation}", agent.types.name(id));
                found.push(Diagnostic::error("wrong-type", crate::compile::place_of(node, &violation.path), message));
            }
        }
    }
}

fn check_expect(known: &Known, expect: &Expect, found: &mut Vec<Diagnostic>) {
    if let Some(goal) = &expect.goal {
        known.goal(goal, found);
    }
    for name in [&expect.ran, &expect.plan].into_iter().flatten().flat_map(|names| &names.names) {
        known.action(&name.value, name.span, found);
    }
    if let Some(output) = &expect.output {
        let id = match &output.r#type {
            Some(name) => known.type_named(name, found),
            None => output_type(known, expect),
        };
        if let (Some(id), Some(value)) = (id, &output.value) {
            check_members(known, &Shape::named(id), &value.0, found);
        }
    }
    if let Some(failure) = &expect.failure {
        if let Some(action) = &failure.action {
            known.action(&action.value, action.span, found);
        }
        if let Some(kind) = failure.kind.as_ref().filter(|kind| !FAILURES.contains(&kind.value.as_str())) {
            found.push(crate::decl::basic::unknown_word(&kind.value, kind.span, "a kind of failure", FAILURES));
        }
    }
    if let Some(Prompts::Of(names)) = &expect.prompts {
        for name in names {
            let callers = known.callers.iter().map(String::as_str);
            unknown("unknown-action", "action", &name.value, name.span, callers, found);
        }
    }
    if let Some(ToolCalls::By(tools)) = &expect.tool_calls {
        for (name, _) in tools.iter() {
            known.tool(&name.value, name.span, found);
        }
    }
}

/// The one type that the output can have: that of the goal that is expected, or of all goals.
pub(super) fn output_type(known: &Known, expect: &Expect) -> Option<TypeId> {
    let goals = known.agent.goals.iter();
    let goals = goals.filter(|goal| expect.goal.as_ref().is_none_or(|name| name.value == goal.name));
    let types: BTreeSet<TypeId> = goals.flat_map(|goal| goal.output.types().to_vec()).collect();
    match types.into_iter().collect::<Vec<_>>().as_slice() {
        [only] => Some(*only),
        _ => None,
    }
}

/// Reports members that the type does not have.
fn check_members(known: &Known, shape: &Shape, node: &Node, found: &mut Vec<Diagnostic>) {
    let NodeKind::Map(map) = &node.kind else { return };
    for entry in map {
        match member(&known.agent.types, shape, &entry.key.value) {
            Member::Known { shape, .. } => check_members(known, &shape, &entry.value, found),
            Member::Unknown { candidates } => {
                let names = candidates.iter().map(String::as_str);
                unknown("unknown-field", "field", &entry.key.value, entry.key.span, names, found);
            }
            Member::NotAnObject | Member::Any => {}
        }
    }
}
