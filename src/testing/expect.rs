//! What came of a run against what was expected of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::decl::test_file::{Amount, Expect, Prompts, ToolCalls};
use crate::llm::{Request, request_text, turn_text};
use crate::process::Status;
use crate::source::Span;

use super::exprs::{CheckKind, CheckVars, is_of, tool_calls, why_not};
use super::judge::{self, Question};
use super::model::{CaseModel, suggested};
use super::report::{CaseReport, Problem};
use super::run::{Outcome, SnapshotMode};
use super::snapshot::{self, Pending, SnapshotFile, file_part};
use super::subset::{differences, holds, short};

/// Calls that nothing answered, and replies that nothing asked for.
pub(super) fn answers(outcome: &Outcome<'_>, model: &CaseModel, report: &mut CaseReport) {
    let mut told: Vec<String> = Vec::new();
    for (request, message) in model.unanswered() {
        if told.contains(&request.name) {
            continue;
        }
        told.push(request.name.clone());
        report.problems.push(Problem::new("replies", outcome.case.span, unanswered(outcome, &request, &message)));
    }
    let rules = outcome.case.parts.rules.iter().zip(&outcome.case.parts.script.rules).zip(model.used());
    for (((action, span, own), rule), used) in rules.filter(|(((_, _, own), _), _)| *own) {
        let steps = rule.steps.len() as u64;
        let _ = own;
        if used == 0 {
            report.unused.push((format!("the reply of `{action}`"), *span));
        } else if rule.turns && rule.times.is_none() && used < steps {
            let rest = steps - used;
            let turns = if rest == 1 { "the last turn".to_owned() } else { format!("the last {rest} turns") };
            report.unused.push((format!("{turns} of the {steps} of `{action}`"), *span));
        }
    }
}

/// A call that nothing answers, with a reply to copy.
fn unanswered(outcome: &Outcome<'_>, request: &Request, message: &str) -> String {
    let name = &request.name;
    let has_reply = outcome.case.parts.rules.iter().any(|(action, ..)| is_of(name, action));
    if has_reply {
        return message.replacen("of the script ", "", 1).replace("nearest is rule", "nearest is reply");
    }
    match suggested(request) {
        Ok(value) => format!("the model is asked by `{name}`, and there is no reply: add `{name}: {}`", short(&value)),
        Err(_) => format!("the model is asked by `{name}`, and there is no reply"),
    }
}

/// Status, goal, actions, output and the rest.
pub(super) fn compare(outcome: &Outcome<'_>, runtime: &tokio::runtime::Runtime, report: &mut CaseReport) {
    let case = outcome.case;
    let document = &outcome.document;
    let written = case.expect.as_ref();
    let wanted = written.and_then(|expect| expect.status).map(|status| status.word());
    let wanted = wanted.or_else(|| case.expects_completion().then_some("completed"));
    let place = |span: Option<Span>| span.unwrap_or(case.span);
    let at = written.map(|expect| expect.place.0);
    if wanted.is_some_and(|wanted| wanted != document.status.word())
        || (wanted.is_none() && document.status == Status::Completed)
    {
        let wanted = wanted.unwrap_or("a failure");
        let message = format!("expected {wanted}, found {}{}", document.status.word(), how_far(outcome));
        report.problems.push(Problem::new("status", place(at), message));
    }
    if let Some(expect) = written {
        compare_written(outcome, expect, report);
    }
    if case.checks.is_empty() {
        return;
    }
    let vars = CheckVars::new(outcome.process.scope(), document, &outcome.exchanges, &outcome.events, &case.parameters);
    for check in &case.checks {
        match &check.kind {
            CheckKind::Expr { source, id, sides } => {
                if let Some(why) = why_not(&outcome.file.templates, source, *id, sides, &vars) {
                    report.problems.push(Problem::new("checks", check.span, why));
                }
            }
            CheckKind::Judge { prompt, llm, at_least, samples } => {
                let question =
                    Question { prompt: *prompt, llm: llm.as_deref(), at_least: *at_least, samples: *samples };
                match runtime.block_on(judge::ask(outcome, question, &outcome.file.templates, &vars)) {
                    Ok(None) => report.not_judged += 1,
                    Ok(Some(None)) => {}
                    Ok(Some(Some(why))) | Err(why) => report.problems.push(Problem::new("judge", check.span, why)),
                }
            }
        }
    }
}

fn compare_written(outcome: &Outcome<'_>, expect: &Expect, report: &mut CaseReport) {
    let document = &outcome.document;
    if let Some(goal) = expect.goal.as_ref().filter(|goal| document.goal.as_deref() != Some(goal.value.as_str())) {
        let found = document.goal.as_deref().map_or("no goal".to_owned(), |goal| format!("`{goal}`"));
        let message = format!("expected `{}` to be reached, found {found}", goal.value);
        report.problems.push(Problem::new("goal", goal.span, message));
    }
    let ran: Vec<&str> = document.history.iter().map(|entry| entry.action.as_str()).collect();
    let plan: Vec<&str> = document.plans.first().into_iter().flatten().map(String::as_str).collect();
    for (what, wanted, found) in [("ran", &expect.ran, ran), ("plan", &expect.plan, plan)] {
        let Some(wanted) = wanted else { continue };
        let names: Vec<&str> = wanted.names.iter().map(|name| name.value.as_str()).collect();
        if names.len() != found.len() || !names.iter().zip(&found).all(|(wanted, found)| is_of(found, wanted)) {
            let message = format!("expected [{}], found [{}]", names.join(", "), found.join(", "));
            report.problems.push(Problem::new(what, wanted.span, message));
        }
    }
    if let Some(output) = &expect.output {
        let place = output.place.0;
        match &document.output {
            None => report.problems.push(Problem::new("output", place, "there is no output")),
            Some(found) => {
                if let Some(of) = output.r#type.as_ref().filter(|of| of.value != found.r#type) {
                    let message = format!("expected a `{}`, found a `{}`", of.value, found.r#type);
                    report.problems.push(Problem::new("output", of.span, message));
                }
                if let Some(value) = &output.value {
                    for difference in differences(&value.value(), &found.value) {
                        report.problems.push(Problem::new("output", value.0.span, difference));
                    }
                }
            }
        }
    }
    if let Some(wanted) = &expect.failure {
        let place = wanted.place.0;
        match &document.failure {
            None => report.problems.push(Problem::new("failure", place, "nothing failed")),
            Some(found) => {
                let pairs =
                    [(&wanted.action, found.action.clone().unwrap_or_default()), (&wanted.kind, found.kind.clone())];
                for (wanted, found) in pairs {
                    if let Some(wanted) = wanted.as_ref().filter(|wanted| wanted.value != found) {
                        let message = format!("expected `{}`, found `{found}`", wanted.value);
                        report.problems.push(Problem::new("failure", wanted.span, message));
                    }
                }
                if let Some(text) = wanted.message.as_ref().filter(|text| !found.message.contains(text.value.as_str()))
                {
                    let message = format!("expected a message with {:?}, found {:?}", text.value, found.message);
                    report.problems.push(Problem::new("failure", text.span, message));
                }
            }
        }
    }
    let calls = document.usage.llm_calls as f64;
    amount("llm_calls", expect.llm_calls.as_ref(), calls, false, report);
    amount("cost", expect.cost.as_ref(), document.usage.cost_usd, true, report);
    match &expect.tool_calls {
        None => {}
        Some(ToolCalls::All(wanted)) => {
            amount("tool_calls", Some(wanted), document.usage.tool_calls as f64, false, report);
        }
        Some(ToolCalls::By(tools)) => {
            let calls = tool_calls(&outcome.events);
            for (tool, wanted) in tools.iter() {
                let made = calls.iter().filter(|call| call["tool"] == tool.value.as_str()).count();
                amount("tool_calls", Some(wanted), made as f64, false, report);
            }
        }
    }
    events(outcome, expect, report);
}

/// A figure against a number or bounds; a bare number is the most where `is_most`.
fn amount(what: &'static str, wanted: Option<&Amount>, found: f64, is_most: bool, report: &mut CaseReport) {
    let Some(wanted) = wanted else { return };
    let mut wrong = |words: &str, bound: f64| {
        report.problems.push(Problem::new(what, wanted.place.0, format!("expected {words}{bound}, found {found}")));
    };
    match wanted.exactly {
        Some(most) if is_most && found > most => wrong("at most ", most),
        Some(exactly) if !is_most && found != exactly => wrong("", exactly),
        _ => {}
    }
    match wanted.at_least {
        Some(least) if found < least => wrong("at least ", least),
        _ => {}
    }
    match wanted.at_most {
        Some(most) if found > most => wrong("at most ", most),
        _ => {}
    }
}

/// Expected events come in their order, others between them.
fn events(outcome: &Outcome<'_>, expect: &Expect, report: &mut CaseReport) {
    if expect.events.0.is_empty() {
        return;
    }
    let came: Vec<Value> = outcome.events.iter().map(|event| json!(event)).collect();
    let mut from = 0;
    for wanted in expect.events.iter() {
        let value = wanted.value();
        match came[from..].iter().position(|event| holds(&value, event)) {
            Some(at) => from += at + 1,
            None => {
                let earlier = came[..from].iter().any(|event| holds(&value, event));
                let names: Vec<&str> = came[from..].iter().filter_map(|event| event["event"].as_str()).collect();
                let why = match (earlier, names.is_empty()) {
                    (true, _) => "; it came earlier than this".to_owned(),
                    (false, true) => "; no event came after the one before".to_owned(),
                    (false, false) => format!("; after the one before came {}", names.join(", ")),
                };
                let message = format!("no event {} came{why}", short(&value));
                report.problems.push(Problem::new("events", wanted.0.span, message));
                return;
            }
        }
    }
}

/// How far a run came that did not reach its goal: what ran, what failed, what was left of the plan.
fn how_far(outcome: &Outcome<'_>) -> String {
    let document = &outcome.document;
    if document.status == Status::Completed {
        return String::new();
    }
    let mut out = String::new();
    if let Some(failure) = &document.failure {
        let action = failure.action.as_ref().map(|action| format!("`{action}`: ")).unwrap_or_default();
        out += &format!("\nwhy: {action}{}", failure.message);
    }
    outcome.unanswered.iter().for_each(|line| out += &format!("\nwhy: {line}"));
    if let Some(waiting) = document.waiting.as_ref().filter(|_| outcome.unanswered.is_empty()) {
        out += &format!("\nit waits in `{}`: {}", waiting.action, waiting.prompt);
    }
    let came: Vec<String> = document
        .history
        .iter()
        .map(|entry| match entry.status.word() {
            "succeeded" => entry.action.clone(),
            other => format!("{} ({other})", entry.action),
        })
        .collect();
    out += &match came.is_empty() {
        true => "\nit came nowhere: no action ran".to_owned(),
        false => format!("\nit came so far: {}", came.join(", ")),
    };
    let done: Vec<&str> = document
        .history
        .iter()
        .filter(|entry| entry.status.word() == "succeeded")
        .map(|entry| entry.action.as_str())
        .collect();
    let last = document.plans.last().into_iter().flatten();
    let left: Vec<&str> = last.map(String::as_str).filter(|step| !done.contains(step)).collect();
    if !left.is_empty() {
        out += &format!("\nleft of the plan: {}", left.join(", "));
    }
    out
}

/// The prompts against their snapshots.
pub(super) fn prompts(outcome: &Outcome<'_>, report: &mut CaseReport) {
    let Some(expect) = &outcome.case.expect else { return };
    let (Some(prompts), case) = (&expect.prompts, outcome.case) else { return };
    let (dir, prefix) = snapshot::place(&outcome.file.path);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut before: BTreeMap<String, &Request> = BTreeMap::new();
    for exchange in &outcome.exchanges {
        let request = &exchange.request;
        let earlier = before.insert(request.name.clone(), request);
        if let Prompts::Of(names) = prompts
            && !names.iter().any(|name| is_of(&request.name, &name.value))
        {
            continue;
        }
        // What is sent again after a failure of the provider is no new prompt.
        if earlier == Some(request) {
            continue;
        }
        let text = match earlier.filter(|earlier| request.turn > earlier.turn) {
            Some(earlier) => turn_text(earlier, request),
            None => request_text(request),
        };
        let count = counts.entry(request.name.clone()).and_modify(|n| *n += 1).or_insert(1);
        let suffix = if *count > 1 { format!("-{count}") } else { String::new() };
        let stem = format!("{prefix}__{}__{}{suffix}", file_part(&case.name), file_part(&request.name));
        let path = outcome.suite.root.join(&dir).join(format!("{stem}.snap"));
        report.snapshots.push(stem);
        let new = SnapshotFile {
            source: outcome.file.path.clone(),
            description: format!("{}: what {} sends{}", case.name, request.name, nth_call(*count)),
            expression: request.name.clone(),
            text,
        };
        one_prompt(outcome, expect.place.0, path, new, report);
    }
}

fn nth_call(count: usize) -> String {
    if count > 1 { format!(", call {count}") } else { String::new() }
}

fn one_prompt(outcome: &Outcome<'_>, span: Span, path: std::path::PathBuf, new: SnapshotFile, report: &mut CaseReport) {
    let mode = outcome.options.snapshots;
    let shown = path.strip_prefix(&outcome.suite.root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
    let mut fail = |message: String, texts| {
        report.problems.push(Problem { what: "prompts", message, span: Some(span), texts });
    };
    let old = match SnapshotFile::read(&path) {
        Ok(old) => old,
        Err(error) => {
            // What cannot be read is never overwritten: a person may have more in it than we know.
            fail(format!("`{shown}` cannot be read: {error}; restore it, or remove it and run with `--update`"), None);
            return;
        }
    };
    if old.as_ref().is_some_and(|old| snapshot::same(&old.text, &new.text)) {
        if mode != SnapshotMode::Compare {
            let _ = snapshot::remove(&snapshot::pending_path(&path));
        }
        return;
    }
    let pending = Pending { path, old, new };
    if mode == SnapshotMode::Update {
        match pending.accept() {
            Ok(()) => report.updated += 1,
            Err(error) => fail(format!("`{shown}` cannot be written: {error}"), None),
        }
        return;
    }
    let action = &pending.new.expression;
    match &pending.old {
        None => fail(format!("the prompt of `{action}` has no snapshot yet: `{shown}`"), None),
        Some(old) => {
            let texts = Some((old.text.clone(), pending.new.text.clone()));
            fail(format!("the prompt of `{action}` has changed: `{shown}`"), texts);
        }
    }
    if mode == SnapshotMode::Pend {
        if let Err(error) = pending.new.write(&pending.new_path()) {
            report.problems.push(Problem::new("prompts", span, format!("`{shown}.new` cannot be written: {error}")));
        }
        report.pending.push(pending);
    }
}
