//! Literate cases (`suite/**/*.md`): files in a memory world, with what must come of them written beside.
//!
//! - `# error: [code] "text"` or `# warning: …` at the end of a line (`{# … #}` in templates): a finding of this code
//!   stands on that line, and its message or help contains the text. Every error must be asserted so.
//! - a block `plan`: the steps of the plan from the declared inputs, one a line, or `none: …` what is missing.
//! - a block `prompt ACTION`: the user message that the action would send, inputs made up from their types.
//! - a block `scripted`: the model's replies (a script); with it, or with a block `inputs`, the agent is run.
//! - a block `answers`: what people answer, by action; a list is taken in order. What they were asked heads the `trace`.
//! - a block `inputs`: text, or a mapping from types to objects.
//! - a block `trace`: how a run went: each step, the status, the result.
//! - a block `talk`: what models were offered and told in a run, turn by turn.
//!
//! `UPDATE=1 cargo test suite` rewrites `plan`, `prompt`, `trace` and `talk` blocks.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use agent_run::compile::{Compiled, Entry, compile};
use agent_run::diag::Diagnostic;
use agent_run::engine::{Engine, Input, PlanOptions, RunOptions};
use agent_run::llm::Script;
use agent_run::process::{Event, Observer, What};
use agent_run::world::MemoryWorld;
use serde_json::Value;

use crate::support::literate::{Block, Case, cases};
use crate::support::{files, relative, root, text};

/// The project file of cases that have none.
const PROJECT: &str = "providers: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/model}\n";

/// A finding that a case asserts: file, line, severity, code, text.
struct Assertion {
    file: String,
    line: usize,
    severity: String,
    code: String,
    text: String,
}

/// Takes the assertions out of a file's text.
fn assertions(file: &str, text: &str) -> (String, Vec<Assertion>) {
    let (mut plain, mut found) = (String::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let mark = [" # error: [", " # warning: [", " {# error: [", " {# warning: ["];
        let at = mark.iter().filter_map(|mark| line.find(mark)).min();
        let (code, rest) = line.split_at(at.unwrap_or(line.len()));
        plain.push_str(code.trim_end());
        plain.push('\n');
        let mut rest = rest.trim().trim_start_matches(['{', '#', ' ']).trim_end_matches(['#', '}']).trim();
        while let Some((severity, after)) = rest.split_once(": [") {
            let (code, after) = after.split_once("] \"").unwrap_or_else(|| panic!("{file}: {line}"));
            let (text, after) = after.split_once('"').unwrap_or_else(|| panic!("{file}: {line}"));
            let (severity, code, text) = (severity.trim().to_owned(), code.to_owned(), text.to_owned());
            found.push(Assertion { file: file.to_owned(), line: index + 1, severity, code, text });
            rest = after.trim();
        }
    }
    (plain, found)
}

/// Runs one case; returns what is wrong, and the blocks as they should be.
fn judge(case: &Case) -> (Vec<String>, Vec<(usize, String)>) {
    let (mut world, mut asserted) = (MemoryWorld::new(), Vec::new());
    let mut entry = None;
    for (path, block) in &case.files {
        let (text, found) = assertions(path, &block.text);
        let path = if path.starts_with("workflow.") { format!("workflows/{path}") } else { path.clone() };
        asserted.extend(found.into_iter().map(|found| Assertion { file: path.clone(), ..found }));
        world.write(&path, text);
        entry.get_or_insert(path);
    }
    let has = |name: &str| case.files.iter().any(|(path, _)| path == name);
    let scripted = case.expected.iter().find(|(info, _)| info == "scripted").map(|(_, block)| block.text.clone());
    if !has("agent-run.yaml") {
        world.write("agent-run.yaml", PROJECT);
        world.write("script.yaml", scripted.as_deref().unwrap_or("replies: []\n"));
    }
    let world = Arc::new(world);
    let compiled = compile(world.as_ref(), Entry::Project);
    let mut wrong = findings(&compiled, &asserted);
    let mut blocks = Vec::new();
    if let (Some(program), Some(_)) = (compiled.program, &entry)
        && !program.agents.is_empty()
    {
        let engine = Engine::new(program, world);
        for (info, block) in &case.expected {
            let actual = match info.split_once(' ').unwrap_or((info, "")) {
                ("plan", _) => plan(&engine),
                ("prompt", action) => prompt(&engine, action, "user"),
                ("system", action) => prompt(&engine, action, "system"),
                ("trace", _) => trace(&engine, case, scripted.as_deref()).0,
                ("talk", _) => trace(&engine, case, scripted.as_deref()).1,
                _ => continue,
            };
            if actual != block.text {
                wrong.push(format!("line {}: `{info}` is\n{actual}", block.line));
            }
            blocks.push((block.line, actual));
        }
    } else if case.expected.iter().any(|(info, _)| ["plan", "trace", "talk"].contains(&info.as_str())) {
        wrong.push("there is no program to plan or run".to_owned());
    }
    (wrong, blocks)
}

/// Compares findings with assertions: every assertion holds, and every error is asserted.
fn findings(compiled: &Compiled, asserted: &[Assertion]) -> Vec<String> {
    let place = |finding: &Diagnostic| match finding.span {
        Some(span) => {
            let source = compiled.sources.get(span.file);
            (source.path().to_owned(), source.line_column(span.start).0)
        }
        None => (String::new(), 0),
    };
    let found = compiled.diagnostics.clone().sorted(&compiled.sources);
    let holds = |assertion: &Assertion, finding: &Diagnostic| {
        place(finding) == (assertion.file.clone(), assertion.line)
            && finding.code == assertion.code
            && finding.severity.as_str() == assertion.severity
            && (finding.message.contains(&assertion.text)
                || finding.help.iter().any(|help| help.contains(&assertion.text)))
    };
    let mut wrong = Vec::new();
    for assertion in asserted.iter().filter(|assertion| !found.iter().any(|finding| holds(assertion, finding))) {
        let Assertion { file, line, severity, code, text } = assertion;
        wrong.push(format!("{file}:{line}: no {severity} [{code}] \"{text}\""));
    }
    for finding in found.iter().filter(|finding| !asserted.iter().any(|assertion| holds(assertion, finding))) {
        let (file, line) = place(finding);
        let Diagnostic { code, message, help, .. } = finding;
        let severity = finding.severity.as_str();
        wrong.push(format!("{file}:{line}: not asserted: {severity}: [{code}] \"{message}\" {help:?}"));
    }
    wrong
}

fn first_agent(engine: &Engine) -> String {
    engine.program().agents[0].name.clone()
}

fn plan(engine: &Engine) -> String {
    let document = engine.plan(&first_agent(engine), Vec::new(), RunOptions::default(), &PlanOptions::default());
    match document {
        Err(error) => format!("error: {error}\n"),
        Ok(document) if document.reachable => {
            let mut out = String::new();
            for step in document.steps {
                let assumes = match step.assumes.is_empty() {
                    true => String::new(),
                    false => format!("   assumes {}", step.assumes.join(", ")),
                };
                let _ = writeln!(out, "{}{assumes}", step.action);
            }
            out
        }
        Ok(document) => {
            let missing = document.goals.iter().flat_map(|goal| &goal.missing);
            let missing: Vec<String> =
                missing.map(|missing| format!("{}: {}", missing.fact, missing.because)).collect();
            format!("none: {}\n", missing.join("\nnone: "))
        }
    }
}

fn prompt(engine: &Engine, action: &str, role: &str) -> String {
    let options = RunOptions { no_date_line: true, ..RunOptions::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match runtime.block_on(engine.render(&first_agent(engine), action, Vec::new(), true, options)) {
        Err(error) => format!("error: {error}\n"),
        Ok(document) => {
            let user = document.messages.iter().rfind(|message| message.role == role);
            format!("{}\n", user.map_or("", |message| message.content.trim_end()))
        }
    }
}

/// How a run of the case's inputs went, and what its models were offered and told.
fn trace(engine: &Engine, case: &Case, scripted: Option<&str>) -> (String, String) {
    let inputs = case.expected.iter().find(|(info, _)| info == "inputs").map(|(_, block)| inputs(block));
    let script = scripted.map(|text| {
        let value: Value = serde_yaml::from_str(text).expect("a script is YAML");
        Script::from_value(&value).expect("a script is sound")
    });
    let heard: Arc<Mutex<Vec<What>>> = Arc::default();
    let ear = heard.clone();
    let observer: Observer = Arc::new(move |event: &Event| ear.lock().expect("no panic").push(event.what.clone()));
    let options = RunOptions { script, no_date_line: true, observer: Some(observer), ..RunOptions::default() };
    let mut process = match engine.start(&first_agent(engine), inputs.unwrap_or_default(), options) {
        Ok(process) => process,
        Err(error) => return (format!("error: {error}\n"), String::new()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut answers = answers(case);
    let mut asked = String::new();
    runtime.block_on(async {
        process.run().await;
        while let Some(pending) = process.waiting() {
            let question = &pending.question;
            let _ = writeln!(
                asked,
                "{} asks: {}",
                question.action,
                question.prompt.trim_end().replace('\n', "\n  ").replace("\n  \n", "\n\n")
            );
            let Some(answer) = answers.get_mut(&question.action).and_then(|left| left.pop_front()) else { break };
            if let Err(error) = process.answer(answer).await {
                let _ = writeln!(asked, "error: {error}");
                continue;
            }
            process.run().await;
        }
    });
    let document = serde_json::to_value(process.document()).expect("a document is JSON");
    let mut out = asked;
    for step in document["history"].as_array().into_iter().flatten() {
        let word = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
        let times = match step["attempts"].as_u64() {
            Some(attempts) if attempts > 1 => format!(" ({attempts} attempts)"),
            _ => String::new(),
        };
        let _ = writeln!(out, "{}: {}{times}", word("action"), word("status"));
    }
    let _ = writeln!(out, "{}", document["status"].as_str().unwrap_or_default());
    if let Some(message) = document["failure"]["message"].as_str() {
        let _ = writeln!(out, "failure: {} {}", document["failure"]["kind"].as_str().unwrap_or_default(), message);
    }
    if !document["output"].is_null() {
        let _ = writeln!(
            out,
            "{} {}",
            document["output"]["type"].as_str().unwrap_or_default(),
            document["output"]["value"]
        );
    }
    let heard = heard.lock().expect("no panic");
    (out, talk(&heard))
}

/// What models were offered and told: each request with its tools, then what was said since the one before.
fn talk(heard: &[What]) -> String {
    let mut out = String::new();
    let mut told: BTreeMap<&str, usize> = BTreeMap::new();
    for what in heard {
        let What::LlmRequest { action, call, tools, messages, .. } = what else { continue };
        let told = told.entry(action).or_insert(0);
        if *call == 1 {
            *told = messages.len();
        }
        for part in messages.iter().skip(*told).flat_map(|message| message["parts"].as_array().into_iter().flatten()) {
            let word = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
            let line = match part["type"].as_str().unwrap_or_default() {
                "tool_call" => format!("calls {} {}", word("name"), part["arguments"]),
                "tool_result" if part["is_error"] == true => format!("{} fails: {}", word("name"), word("content")),
                "tool_result" => format!("{} gives: {}", word("name"), word("content")),
                _ => format!("says: {}", word("text")),
            };
            let _ = writeln!(out, "  {}", line.replace('\n', "\n    ").replace("    \n", "\n"));
        }
        *told = messages.len();
        let _ = writeln!(
            out,
            "{action} {call} is offered: {}",
            if tools.is_empty() { "nothing".to_owned() } else { tools.join(", ") }
        );
    }
    out
}

/// What people answer, by action, in order.
fn answers(case: &Case) -> BTreeMap<String, VecDeque<Value>> {
    let block = case.expected.iter().find(|(info, _)| info == "answers").map(|(_, block)| block.text.as_str());
    let written: BTreeMap<String, Value> = serde_yaml::from_str(block.unwrap_or("{}")).expect("answers are YAML");
    let in_order = |answer| match answer {
        Value::Array(answers) => VecDeque::from(answers),
        one => VecDeque::from([one]),
    };
    written.into_iter().map(|(action, answer)| (action, in_order(answer))).collect()
}

fn inputs(block: &Block) -> Vec<Input> {
    match serde_yaml::from_str::<Value>(&block.text) {
        Ok(Value::Object(typed)) => typed.into_iter().map(|(name, value)| Input::Typed(name, value)).collect(),
        _ => vec![Input::Text(block.text.trim_end().to_owned())],
    }
}

/// Writes blocks back: each is given by the line of its first line.
fn update(file: &Path, blocks: &[(usize, String)]) {
    let text = text(file);
    let lines: Vec<&str> = text.lines().collect();
    let (mut out, mut index) = (String::new(), 0);
    while index < lines.len() {
        match blocks.iter().find(|(line, _)| *line == index + 1) {
            Some((_, block)) => {
                out.push_str(block);
                while lines.get(index).is_some_and(|line| *line != "```") {
                    index += 1;
                }
                out.push_str("```\n");
            }
            None => {
                out.push_str(lines[index]);
                out.push('\n');
            }
        }
        index += 1;
    }
    std::fs::write(file, out).expect("the file is written");
}

#[test]
fn every_case_of_the_suite_holds() {
    let mut report = Vec::new();
    let only = std::env::var("CASE").unwrap_or_default();
    for file in files(&root().join("tests/suite"), &[".md"]) {
        let mut blocks = Vec::new();
        for case in cases(&file).iter().filter(|case| case.name.contains(&only)) {
            let (wrong, actual) = judge(case);
            blocks.extend(actual);
            let place = format!("{}:{}: {}", relative(&file), case.line, case.name);
            report.extend(wrong.iter().map(|wrong| format!("{place}: {wrong}")));
        }
        if std::env::var("UPDATE").is_ok_and(|update| update == "1") {
            update(&file, &blocks);
        }
    }
    assert!(report.is_empty(), "{}\n`UPDATE=1 cargo test suite` accepts plans, prompts and traces", report.join("\n"));
}
