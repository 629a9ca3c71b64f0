//! `checks` of a case: exprs over the result, the blackboard and the calls that were made, and questions to a judge.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::Value as View;
use serde_json::{Map, Value, json};

use crate::decl::test_file::{CaseDecl, Check, Expect};
use crate::diag::{Diagnostic, Related, suggest};
use crate::llm::{Part, message_text};
use crate::process::{Document, Event, Scope as BoardScope};
use crate::prompt::ast::{Arg, Expr as Tree, ExprKind, parse_expr, parts};
use crate::prompt::{
    ExprId, Files, Finding, Position, Scope, TemplateId, Templates, TemplatesBuilder, Truth, Ty, Var, Vars, check_expr,
    check_template, from_json, object_value,
};
use crate::source::{Span, Text};

use super::check::{Known, output_type};
use super::model::Exchange;
use super::subset::short;

/// A check, compiled.
#[derive(Clone, Debug)]
pub(super) struct CompiledCheck {
    pub(super) span: Span,
    pub(super) kind: CheckKind,
}

#[derive(Clone, Debug)]
pub(super) enum CheckKind {
    /// An expr that must hold, and what is shown when it does not: the sides of a comparison.
    Expr { source: String, id: ExprId, sides: Vec<(String, ExprId)> },
    /// A question to a model.
    Judge { prompt: TemplateId, llm: Option<String>, at_least: f64, samples: u32 },
}

/// Checks and compiles what a case wants to hold.
pub(super) fn compile_checks(
    expect: &Expect,
    known: &Known,
    case: &CaseDecl,
    parameters: &Map<String, Value>,
    builder: &mut TemplatesBuilder,
    found: &mut Vec<Diagnostic>,
) -> Vec<CompiledCheck> {
    if expect.checks.0.is_empty() {
        return Vec::new();
    }
    let scope = scope(expect, known, case, parameters);
    let types = &known.agent.types;
    let mut compiled = Vec::new();
    for check in expect.checks.iter() {
        match check {
            Check::Expr(expr) => {
                let source = expr.0.value.clone();
                let checked = check_expr(types, &scope, &source);
                report(&checked.findings, &expr.0, found);
                if !checked.is_ok() {
                    continue;
                }
                let (Ok(id), Ok(tree)) = (builder.expr(&source), parse_expr(&source)) else { continue };
                check_names(&tree, known, &expr.0, found);
                let sides = sides(&tree, &source);
                let sides =
                    sides.into_iter().filter_map(|side| builder.expr(&side).ok().map(|id| (side, id))).collect();
                compiled.push(CompiledCheck { span: expr.0.span, kind: CheckKind::Expr { source, id, sides } });
            }
            Check::Judge(judge) => {
                let checked = check_template(&Files::new(), types, &scope, &judge.prompt.0.value);
                report(&checked.findings, &judge.prompt.0, found);
                if judge.at_least > 1.0 {
                    found.push(
                        Diagnostic::error("out-of-range", judge.place.0, "scores go from 0 to 1")
                            .help("write `at_least: 0.8`, for example"),
                    );
                }
                let Some(prompt) = checked.is_ok().then(|| builder.template(&judge.prompt.0.value).ok()).flatten()
                else {
                    continue;
                };
                let llm = judge.llm.as_ref().map(|llm| llm.value.clone());
                let kind = CheckKind::Judge { prompt, llm, at_least: judge.at_least, samples: judge.samples.get() };
                compiled.push(CompiledCheck { span: judge.place.0, kind });
            }
        }
    }
    compiled
}

/// What checks see.
fn scope(expect: &Expect, known: &Known, case: &CaseDecl, parameters: &Map<String, Value>) -> Scope {
    let agent = &known.agent;
    let named = |name: &str| agent.types.id(name).map(|id| Ty::named(&agent.types, id));
    let written = expect.output.as_ref().and_then(|output| output.r#type.as_ref()).or(case.head.returns.as_ref());
    let output = match written {
        Some(name) => match name.value.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>')) {
            Some(element) => Ty::List(Box::new(named(element).unwrap_or(Ty::Any))),
            None => named(&name.value).unwrap_or(Ty::Any),
        },
        None => output_type(known, expect).map_or(Ty::Any, |id| Ty::named(&agent.types, id)),
    };
    let record = |fields: &[(&str, Ty)]| {
        Ty::Record(Arc::new(
            fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect::<IndexMap<_, _>>(),
        ))
    };
    let texts = || Ty::List(Box::new(Ty::Str));
    let call = record(&[
        ("model", Ty::Str),
        ("turn", Ty::Int),
        ("system", Ty::Str),
        ("prompt", Ty::Str),
        ("messages", Ty::List(Box::new(record(&[("role", Ty::Str), ("content", Ty::Str)])))),
        ("tools", texts()),
        ("reply", Ty::Str),
        ("options", Ty::Any),
        ("temperature", Ty::Any),
        ("top_p", Ty::Any),
        ("top_k", Ty::Any),
        ("max_tokens", Ty::Any),
        ("seed", Ty::Any),
        ("stop", Ty::Any),
        ("thinking", Ty::Any),
        ("tool_choice", Ty::Any),
        ("output_schema", Ty::Any),
    ]);
    let tool_call = record(&[("tool", Ty::Str), ("arguments", Ty::Any), ("ok", Ty::Bool), ("result", Ty::Any)]);
    let usage = record(&[
        ("llm_calls", Ty::Int),
        ("tool_calls", Ty::Int),
        ("input_tokens", Ty::Int),
        ("output_tokens", Ty::Int),
        ("cost_usd", Ty::Number),
    ]);
    let mut scope = Scope::new()
        .with("output", output)
        .with("status", Ty::Str)
        .with("goal", Ty::Any)
        .with("failure", Ty::Any)
        .with("plan", texts())
        .with("history", Ty::List(Box::new(Ty::Any)))
        .with("usage", usage)
        .with("events", Ty::List(Box::new(Ty::Any)))
        .with("config", Ty::Any)
        .with("calls", Ty::function("calls", &["action"], Ty::List(Box::new(call))))
        .with("tools_offered", Ty::function("tools_offered", &["action"], texts()))
        .with("tool_calls", Ty::function("tool_calls", &["tool"], Ty::List(Box::new(tool_call))));
    for name in parameters.keys() {
        scope.vars.insert(name.clone(), Ty::Any);
    }
    scope.type_names = Some(Scope::type_names(&agent.types));
    scope.functions = true;
    scope.position = Position::Truth;
    scope
}

fn report(findings: &[Finding], text: &Text, found: &mut Vec<Diagnostic>) {
    for finding in findings {
        let mut diagnostic =
            Diagnostic::error(finding.code, text.span_of(finding.place.range.clone()), &finding.message);
        diagnostic.severity = finding.severity;
        diagnostic.help.clone_from(&finding.help);
        let related = finding.related.iter().filter(|(place, _)| place.file.is_none());
        diagnostic.related = related
            .map(|(place, message)| Related { span: text.span_of(place.range.clone()), message: message.clone() })
            .collect();
        found.push(diagnostic);
    }
}

/// Reports actions that `calls` and `tools_offered` name and that are not there.
fn check_names(tree: &Tree, known: &Known, text: &Text, found: &mut Vec<Diagnostic>) {
    if let ExprKind::Call(callee, args) = &tree.kind
        && let ExprKind::Var(function) = &callee.kind
        && matches!(function.as_str(), "calls" | "tools_offered" | "ran")
        && let Some(Arg::Pos(argument)) = args.first()
        && let ExprKind::Const(value) = &argument.kind
        && let Some(name) = value.as_str()
        && !known.is_caller(name)
    {
        let span = text.span_of(argument.span.clone());
        let help = suggest::near_or_all(name, known.actions.keys().map(String::as_str), "the actions");
        found.push(Diagnostic::error("unknown-action", span, format!("there is no action `{name}`")).help(help));
    }
    parts(tree, &mut |part| check_names(part, known, text, found));
}

/// The sides of a comparison that are no literals.
fn sides(tree: &Tree, source: &str) -> Vec<String> {
    let mut sides = Vec::new();
    let mut add = |side: &Tree| {
        if !matches!(side.kind, ExprKind::Const(_) | ExprKind::List(_) | ExprKind::Map(_)) {
            sides.extend(source.get(side.span.clone()).map(str::to_owned));
        }
    };
    match &tree.kind {
        ExprKind::Compare(first, rest) => {
            add(first);
            rest.iter().for_each(|(_, side)| add(side));
        }
        ExprKind::Test { of, .. } => add(of),
        ExprKind::Not(inner) => return self::sides(inner, source),
        ExprKind::And(a, b) | ExprKind::Or(a, b) => {
            return self::sides(a, source).into_iter().chain(self::sides(b, source)).collect();
        }
        _ => {}
    }
    sides
}

/// What a run left behind, as checks see it.
pub(super) struct CheckVars<'a> {
    board: BoardScope,
    vars: BTreeMap<&'a str, View>,
}

impl<'a> CheckVars<'a> {
    pub(super) fn new(
        board: BoardScope,
        document: &Document,
        exchanges: &[Exchange],
        events: &[Event],
        parameters: &'a Map<String, Value>,
    ) -> CheckVars<'a> {
        let agent = board.agent.clone();
        let output = document.output.as_ref().map(|typed| match agent.types.id(&typed.r#type) {
            Some(id) => object_value(&agent.templates, id, &Arc::new(typed.value.clone())),
            None => from_json(&typed.value),
        });
        let of = |value: Value| from_json(&value);
        let calls: Arc<Vec<(String, Value)>> =
            Arc::new(exchanges.iter().map(|exchange| (exchange.request.name.clone(), call_view(exchange))).collect());
        let offered = calls.clone();
        let used: Vec<Value> = tool_calls(events);
        let mut vars: BTreeMap<&str, View> = BTreeMap::new();
        vars.extend(parameters.iter().map(|(name, value)| (name.as_str(), from_json(value))));
        vars.insert("output", output.unwrap_or(View::UNDEFINED));
        vars.insert("status", View::from(document.status.word()));
        vars.insert("goal", document.goal.clone().map_or(View::UNDEFINED, View::from));
        vars.insert("failure", document.failure.as_ref().map_or(View::UNDEFINED, |failure| of(json!(failure))));
        vars.insert("plan", of(json!(document.plans.first().cloned().unwrap_or_default())));
        vars.insert("history", of(json!(document.history)));
        vars.insert("usage", of(json!(document.usage)));
        vars.insert("events", of(json!(events)));
        vars.insert(
            "calls",
            View::from_function(move |action: String| {
                of(calls.iter().filter(|(name, _)| is_of(name, &action)).map(|(_, call)| call.clone()).collect())
            }),
        );
        vars.insert(
            "tools_offered",
            View::from_function(move |action: String| {
                let of_action = offered.iter().filter(|(name, _)| is_of(name, &action));
                let mut names: Vec<Value> = Vec::new();
                for name in of_action.flat_map(|(_, call)| call["tools"].as_array().cloned().unwrap_or_default()) {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                of(Value::Array(names))
            }),
        );
        vars.insert(
            "tool_calls",
            View::from_function(move |tool: String| {
                of(used.iter().filter(|call| call["tool"] == tool.as_str()).cloned().collect())
            }),
        );
        CheckVars { board, vars }
    }
}

/// Whether a call is of an action, named in full or by its last part.
pub(super) fn is_of(name: &str, action: &str) -> bool {
    name == action || name.rsplit('.').next() == Some(action)
}

fn call_view(exchange: &Exchange) -> Value {
    let request = &exchange.request;
    let options = json!(request.options);
    let message = |message: &crate::llm::Message| {
        let role = match message.role {
            crate::llm::Role::User => "user",
            crate::llm::Role::Assistant => "assistant",
            crate::llm::Role::Tool => "tool",
        };
        json!({"role": role, "content": message_text(message)})
    };
    let mut users = request.messages.iter().filter(|message| message.role == crate::llm::Role::User);
    let reply = exchange.reply.as_ref().map(|reply| {
        let texts = reply.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    });
    let mut call = json!({
        "model": request.full_model(),
        "turn": request.turn,
        "system": request.system.clone().unwrap_or_default(),
        "prompt": users.next_back().map(message_text).unwrap_or_default(),
        "messages": request.messages.iter().map(message).collect::<Vec<_>>(),
        "tools": request.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>(),
        "reply": reply.unwrap_or_default(),
        "options": options.clone(),
        "output_schema": request.output.as_ref().map(|output| output.schema.clone()),
    });
    for (name, value) in options.as_object().into_iter().flatten() {
        call[name.as_str()] = value.clone();
    }
    call
}

/// The calls of tools, each with what came of it.
pub(super) fn tool_calls(events: &[Event]) -> Vec<Value> {
    use crate::process::What;
    let mut calls: Vec<Value> = Vec::new();
    for event in events {
        match &event.what {
            What::ToolCalled { tool, arguments, .. } => {
                calls.push(json!({"tool": tool, "arguments": arguments, "ok": null, "result": null}));
            }
            What::ToolResult { tool, ok, result, .. } => {
                let open = calls.iter_mut().find(|call| call["tool"] == tool.as_str() && call["ok"].is_null());
                if let Some(call) = open {
                    call["ok"] = json!(ok);
                    call["result"] = result.clone();
                }
            }
            _ => {}
        }
    }
    calls
}

impl Vars for CheckVars<'_> {
    fn get(&self, name: &str) -> Var {
        match self.vars.get(name) {
            Some(value) => value.clone().into(),
            None => self.board.get(name),
        }
    }

    fn last(&self, type_name: &str) -> Var {
        self.board.last(type_name)
    }

    fn all(&self, type_name: &str) -> Vec<View> {
        self.board.all(type_name)
    }

    fn count(&self, type_name: &str) -> usize {
        self.board.count(type_name)
    }

    fn ran(&self, action: &str) -> bool {
        self.board.ran(action)
    }

    fn now(&self) -> String {
        self.board.now()
    }
}

/// Why an expr does not hold; `None` when it does.
pub(super) fn why_not(
    templates: &Templates,
    source: &str,
    id: ExprId,
    sides: &[(String, ExprId)],
    vars: &CheckVars<'_>,
) -> Option<String> {
    let (truth, cause) = templates.truth_explained(id, vars);
    if truth == Truth::True {
        return None;
    }
    if let Some(cause) = cause {
        return Some(format!("`{source}` cannot be told: {cause}"));
    }
    let shown = sides.iter().filter_map(|(side, id)| {
        let value = templates.eval(*id, vars).ok()?;
        Some(format!("`{side}` is {}", short(&value)))
    });
    let shown: Vec<String> = shown.collect();
    let shown = if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) };
    Some(format!("`{source}` does not hold{shown}"))
}
