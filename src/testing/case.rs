//! One run: a case of a test file with its fixtures merged in and its parameters filled in.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::decl::test_file::{CaseDecl, Expect, Fixture, Replies};
use crate::diag::Diagnostic;
use crate::engine::Input;
use crate::llm::{Options, Script};
use crate::source::{Map as NodeMap, Node, Span};
use crate::world::FIXED_NOW;

use super::exprs::CompiledCheck;
use super::stubs::{Answers, Stub};

/// One run.
#[derive(Debug)]
pub struct Case {
    /// Its name; one with parameters is `case.row`.
    pub name: String,
    /// The name in the file, which its rows share.
    pub base: String,
    /// Where it stands.
    pub span: Span,
    /// Why it is not run.
    pub skip: Option<String>,
    /// Its parameters.
    pub(super) parameters: Map<String, Value>,
    pub(super) goal: Option<String>,
    pub(super) returns: Option<String>,
    pub(super) expect: Option<Expect>,
    pub(super) checks: Vec<CompiledCheck>,
    pub(super) parts: Parts,
}

/// What goes in, and who answers.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) inputs: Vec<GivenInput>,
    pub(super) now: jiff::Timestamp,
    pub(super) config: IndexMap<String, Value>,
    pub(super) llm: Option<Options>,
    pub(super) sampled: bool,
    pub(super) script: Script,
    /// By rule of the script: the action's name with its place, and whether the case itself gives it.
    pub(super) rules: Vec<(String, Span, bool)>,
    pub(super) tools: IndexMap<String, Stub>,
    pub(super) actions: IndexMap<String, Stub>,
    pub(super) answers: IndexMap<String, Answers>,
    pub(super) live: bool,
}

/// One input, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct GivenInput {
    pub(super) input: Input,
    /// The key that names it, or the value.
    pub(super) key: Span,
    pub(super) node: Node,
}

/// Layers of one mapping, the later over the earlier: name, value, whether the case itself gives it.
pub(super) struct Layered {
    pub(super) entries: IndexMap<String, (Span, Node, bool)>,
}

impl Layered {
    fn of<'a>(layers: impl Iterator<Item = (Option<NodeMap>, bool)> + 'a) -> Layered {
        let mut entries = IndexMap::new();
        for (map, own) in layers {
            for entry in map.unwrap_or_default().entries {
                entries.insert(entry.key.value, (entry.key.span, entry.value, own));
            }
        }
        Layered { entries }
    }
}

impl Parts {
    /// Merges layers, the last of which is the case's own. What is wrong goes to `findings`.
    pub(super) fn of(layers: &[Fixture], findings: &mut Vec<Diagnostic>) -> Parts {
        let last = layers.len().saturating_sub(1);
        let marked = || layers.iter().enumerate().map(move |(at, layer)| (layer, at == last));
        let newest = |of: &dyn Fn(&Fixture) -> bool| layers.iter().rev().find(|layer| of(layer));
        let mut parts = Parts {
            inputs: Vec::new(),
            now: FIXED_NOW,
            config: IndexMap::new(),
            llm: None,
            sampled: layers.iter().any(|layer| layer.replies == Some(Replies::Sampled)),
            script: Script::default(),
            rules: Vec::new(),
            tools: IndexMap::new(),
            actions: IndexMap::new(),
            answers: IndexMap::new(),
            live: layers.iter().rev().find_map(|layer| layer.live).unwrap_or(false),
        };
        parts.add_inputs(layers, findings);
        if let Some(now) = newest(&|layer| layer.now.is_some()).and_then(|layer| layer.now.as_ref()) {
            match now.value.parse() {
                Ok(time) => parts.now = time,
                Err(_) => findings.push(
                    Diagnostic::error("wrong-shape", now.span, format!("`{}` is not a time", now.value))
                        .help("write it as `2025-01-01T00:00:00Z`"),
                ),
            }
        }
        for layer in layers {
            if let Some(record) = &layer.llm {
                let options = parts.llm.get_or_insert_with(Options::default);
                findings.extend(crate::compile::lay_over(record, options));
            }
        }
        let config = Layered::of(marked().map(|(layer, own)| (layer.config.as_ref().map(|of| of.map()), own)));
        parts.config = config.entries.into_iter().map(|(key, (_, node, _))| (key, node.to_json())).collect();
        let replies = |layer: &Fixture| match &layer.replies {
            Some(Replies::By(by)) => Some(by.map()),
            Some(Replies::Sampled) | None => None,
        };
        parts.add_replies(Layered::of(marked().map(|(layer, own)| (replies(layer), own))), findings);
        let tools = Layered::of(marked().map(|(layer, own)| (layer.tools.as_ref().map(|of| of.map()), own)));
        parts.tools = stubs(tools, findings);
        let actions = Layered::of(marked().map(|(layer, own)| (layer.actions.as_ref().map(|of| of.map()), own)));
        parts.actions = stubs(actions, findings);
        let answers = Layered::of(marked().map(|(layer, own)| (layer.answers.as_ref().map(|of| of.map()), own)));
        let answer = |(name, (span, node, own)): (String, (Span, Node, bool))| {
            (name, Answers { given: in_order(node.to_json()), span, own })
        };
        parts.answers = answers.entries.into_iter().map(answer).collect();
        parts
    }

    fn add_inputs(&mut self, layers: &[Fixture], findings: &mut Vec<Diagnostic>) {
        let mut typed: IndexMap<String, (Span, Node)> = IndexMap::new();
        let mut text: Option<&Node> = None;
        for layer in layers {
            if let Some(input) = &layer.input {
                text = Some(&input.0);
            }
            for entry in layer.inputs.as_ref().map(|inputs| inputs.map()).unwrap_or_default().entries {
                typed.insert(entry.key.value, (entry.key.span, entry.value));
            }
        }
        if let Some(node) = text {
            let input = match node.to_json() {
                Value::String(text) => Some(Input::Text(text)),
                Value::Object(object) => Some(Input::Bare(Value::Object(object))),
                other => {
                    findings.push(
                        Diagnostic::error(
                            "wrong-shape",
                            node.span,
                            format!("expected a text or an object, found `{other}`"),
                        )
                        .help("put it in quotes if it is meant as text"),
                    );
                    None
                }
            };
            self.inputs.extend(input.map(|input| GivenInput { input, key: node.span, node: node.clone() }));
        }
        for (name, (key, node)) in typed {
            self.inputs.push(GivenInput { input: Input::Typed(name, node.to_json()), key, node });
        }
    }

    fn add_replies(&mut self, replies: Layered, findings: &mut Vec<Diagnostic>) {
        for (action, (key, node, own)) in replies.entries {
            let json = Value::Object(Map::from_iter([(action.clone(), node.to_json())]));
            match Script::from_replies_by_action(&json) {
                Ok(script) => {
                    self.rules.extend(script.rules.iter().map(|_| (action.clone(), key, own)));
                    self.script.rules.extend(script.rules);
                }
                Err(errors) => findings.extend(errors.into_iter().map(|error| {
                    // The first token of the pointer is the action's name.
                    let below = error.pointer.splitn(3, '/').nth(2).map(|rest| format!("/{rest}")).unwrap_or_default();
                    Diagnostic::error("bad-script", crate::compile::place_of(&node, &below), error.message)
                })),
            }
        }
    }
}

fn in_order(answer: Value) -> Vec<Value> {
    match answer {
        Value::Array(answers) => answers,
        one => vec![one],
    }
}

fn stubs(layered: Layered, findings: &mut Vec<Diagnostic>) -> IndexMap<String, Stub> {
    let mut stubs = IndexMap::new();
    for (name, (key, node, own)) in layered.entries {
        match Stub::read(&node, key, own) {
            Ok(stub) => drop(stubs.insert(name, stub)),
            Err(finding) => findings.push(*finding),
        }
    }
    stubs
}

/// The name of a case's row.
pub(super) fn row_name(case: &str, row: Option<&str>) -> String {
    row.map_or_else(|| case.to_owned(), |row| format!("{case}.{row}"))
}

impl Case {
    /// What is expected of the status: what is written, else completion unless a failure is expected.
    pub(super) fn expects_completion(&self) -> bool {
        self.expect.as_ref().is_none_or(|expect| match expect.status {
            Some(status) => status == crate::decl::test_file::StatusWord::Completed,
            None => expect.failure.is_none(),
        })
    }

    /// The layers of a case: `base` of the file, the fixtures it uses, its own part.
    pub(super) fn layers(base: &[Fixture], used: Vec<Fixture>, own: &CaseDecl) -> Vec<Fixture> {
        base.iter().cloned().chain(used).chain([own.own.clone()]).collect()
    }
}
