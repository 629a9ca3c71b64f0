//! From events to what a person sees while a run goes on, and to the lines of `--events`.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::llm::{self, Message};
use crate::process::event::{Event, What};
use crate::process::host::Observer;

use super::Out;
use super::output::{BOLD, DIM};
use super::terminal::{Checklist, Mark, StepFacts};

/// What is shown beside the checklist.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Show {
    /// The prompts that are sent (`-p`).
    pub(super) prompts: bool,
    /// The replies that come back (`-r`).
    pub(super) responses: bool,
}

/// Hears of everything that happens and shows it.
pub(super) struct Watcher {
    out: Out,
    show: Show,
    list: Arc<Checklist>,
    lines: Option<Mutex<Box<dyn Write + Send>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The process whose steps are the checklist; others are its sub-processes.
    top: Option<String>,
    /// Its agent.
    agent: Option<String>,
    /// What each open step has used so far.
    facts: BTreeMap<String, StepFacts>,
    /// The step that ended last, and how.
    ended: Option<(String, Mark)>,
    /// The state that was entered since the last plan.
    entered: Option<String>,
    /// The step of the top process that sub-processes work for.
    current: Option<String>,
}

impl Watcher {
    /// A watcher that shows on `list` and writes events as JSON lines to `lines`.
    pub(super) fn new(out: Out, show: Show, list: Arc<Checklist>, lines: Option<Box<dyn Write + Send>>) -> Watcher {
        Watcher { out, show, list, lines: lines.map(Mutex::new), state: Mutex::default() }
    }

    /// The observer that a run calls.
    pub(super) fn observer(self) -> Observer {
        Arc::new(move |event| self.hear(event))
    }

    fn hear(&self, event: &Event) {
        if let Some(lines) = &self.lines
            && let Ok(json) = serde_json::to_string(event)
        {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            // A reader that went away must not end the run.
            let _ = writeln!(lines, "{json}").and_then(|()| lines.flush());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(event.what, What::ProcessCreated { parent: None, .. }) {
            // Under `--watch` one run follows another.
            *state = State::default();
        }
        let top = state.top.get_or_insert_with(|| event.process.clone());
        if *top == event.process { self.own(&mut state, &event.what) } else { self.of_child(&mut state, &event.what) }
    }

    /// Something in the process that the person started.
    fn own(&self, state: &mut State, what: &What) {
        match what {
            What::ProcessCreated { agent, .. } => {
                state.agent = Some(agent.clone());
                self.list.title(agent);
            }
            What::Planned { steps, goal, cost, replanned } => {
                let entered = state.entered.take().map(|entered| format!("the process is in state `{entered}` now"));
                let reason = replanned.then(|| match &state.ended {
                    _ if entered.is_some() => entered.unwrap_or_default(),
                    Some((action, Mark::Failed)) => format!("`{action}` failed"),
                    Some((action, Mark::Empty)) => format!("`{action}` brought nothing"),
                    Some((action, _)) => format!("`{action}` did not bring what was expected"),
                    None => "things have changed".to_owned(),
                });
                self.list.plan(steps, reason.as_deref());
                if self.out.verbose {
                    self.list.line(self.dim(format!("  plan to {goal}, cost {cost}: {}", steps.join(" → "))));
                }
            }
            What::ActionStarted { action, .. } => {
                state.facts.insert(action.clone(), StepFacts::default());
                state.current = Some(action.clone());
                self.list.started(action);
            }
            What::LlmRequest { action, model, system, messages, call, .. } => {
                self.prompt(action, model, *call, system.as_deref(), messages);
                // A supervisor, a condition, a tool with a model of its own: it is no step, and shows while it thinks.
                if !state.facts.contains_key(action) {
                    self.list.started(action);
                }
                self.list.doing(action, model);
            }
            What::LlmDelta { action, text, thinking } => {
                if *thinking {
                    self.list.doing(action, "thinking");
                } else {
                    self.list.streamed(action, text);
                }
            }
            What::LlmToolDelta { action, tool, .. } => {
                if !tool.is_empty() {
                    self.list.doing(action, &format!("asks for {tool}"));
                }
            }
            What::LlmElement { action, index, .. } => self.list.doing(action, &format!("element {}", index + 1)),
            What::LlmReply { action, model, text, .. } => {
                self.response(action, model, text);
                match state.facts.get_mut(action) {
                    Some(facts) => add_reply(facts, what),
                    None => self.list.passed(action),
                }
            }
            What::ToolCalled { action, tool, .. } => self.list.doing(action, &format!("calls {tool}")),
            What::ToolProgress { action, tool, progress, total, message } => {
                self.list.doing(action, &far(tool, *progress, *total, message.as_deref()));
            }
            What::ToolResult { action, .. } => {
                if let Some(facts) = state.facts.get_mut(action) {
                    facts.tool_calls += 1;
                }
            }
            What::PartFinished { action, part, done, total, ok, message } => {
                let word = if *ok { "ended" } else { "failed" };
                let how = message.as_deref().map_or(word.to_owned(), |message| message.to_owned());
                self.list.doing(action, &format!("{done} of {total} ({part}: {how})"));
            }
            What::Retrying { action, message, wait_ms, .. } => {
                self.list.doing(action, &format!("again in {}: {message}", super::terminal::time(*wait_ms)));
            }
            What::ActionFinished { action, status, attempts, ms, message } => {
                let mut facts = state.facts.remove(action).unwrap_or_default();
                facts.ms = *ms;
                facts.attempts = *attempts;
                facts.error = message.clone();
                state.ended = Some((action.clone(), mark(status)));
                self.list.finished(action, mark(status), &facts);
            }
            What::Notice { message, .. } => self.notice(message),
            What::Waiting { action, .. } => {
                if let Some(step) = state.current.clone().filter(|step| step == action) {
                    self.list.finished(&step, Mark::Waiting, &StepFacts::default());
                }
                self.list.end();
            }
            What::ProgramReloaded { changes, hidden } => {
                self.list.line(self.dim(format!("  goes on with the new program: {}", changes.join(", "))));
                for gone in hidden {
                    self.notice(&format!("a `{}` on the blackboard is hidden: {}", gone.r#type, gone.why));
                }
            }
            What::ReloadRefused { reasons } => {
                let more = if reasons.len() > 1 { format!(" (and {} more)", reasons.len() - 1) } else { String::new() };
                let first = reasons.first().map(String::as_str).unwrap_or_default();
                self.list.line(self.dim(format!("  goes on with the program that it has: {first}{more}")));
            }
            What::Finished { status, .. } => {
                self.list.end();
                let turn = if status == "completed" { "completed" } else { "ended" };
                self.list.aside(turn, state.agent.as_deref().unwrap_or_default());
            }
            What::StateEntered { state: entered, .. } => {
                state.entered = Some(entered.clone());
                if self.out.verbose {
                    self.list.line(self.dim(format!("  in state {entered}")));
                }
            }
            What::MessageSent { content } if !self.out.json => self.list.suspended(|| self.out.line(content)),
            What::NotAnswered { message } => self.list.line(format!("no answer: {message}")),
            What::Resumed { .. }
            | What::MessageReceived { .. }
            | What::MessageSent { .. }
            | What::ObjectAdded { .. }
            | What::ObjectHidden { .. }
            | What::ConditionAnswered { .. } => {}
        }
    }

    /// Something in a sub-process: it counts for the step that started it.
    fn of_child(&self, state: &mut State, what: &What) {
        let Some(step) = state.current.clone() else { return };
        match what {
            What::ActionStarted { action, .. } => self.list.doing(&step, &format!("› {action}")),
            What::LlmRequest { action, model, system, messages, call, .. } => {
                self.prompt(&format!("{step} › {action}"), model, *call, system.as_deref(), messages);
            }
            What::LlmDelta { text, thinking: false, .. } => self.list.streamed(&step, text),
            What::LlmReply { action, model, text, .. } => {
                self.response(&format!("{step} › {action}"), model, text);
                add_reply(state.facts.entry(step).or_default(), what);
            }
            What::ToolCalled { tool, .. } => self.list.doing(&step, &format!("› calls {tool}")),
            What::ToolResult { .. } => state.facts.entry(step).or_default().tool_calls += 1,
            What::Notice { message, .. } => self.notice(message),
            _ => {}
        }
    }

    fn prompt(&self, action: &str, model: &str, call: u32, system: Option<&str>, messages: &[serde_json::Value]) {
        if !self.show.prompts {
            return;
        }
        let mut text = self.heading(&format!("prompt of {action}, call {call}, to {model}"));
        if let Some(system) = system {
            text.push_str(&block("system", system));
        }
        for message in messages {
            let role = message["role"].as_str().unwrap_or("user");
            text.push_str(&block(role, &content(message)));
        }
        self.list.line(text);
    }

    fn response(&self, action: &str, model: &str, reply: &str) {
        if self.show.responses {
            let reply = if reply.is_empty() { "(no text)" } else { reply };
            self.list.line(self.heading(&format!("reply to {action} from {model}")) + &block("assistant", reply));
        }
    }

    fn notice(&self, message: &str) {
        self.list.line(format!("warning: {message}"));
    }

    fn heading(&self, text: &str) -> String {
        format!("{}\n", self.out.paint_err(BOLD, format!("── {text}")))
    }

    fn dim(&self, text: String) -> String {
        self.out.paint_err(DIM, text)
    }
}

fn add_reply(facts: &mut StepFacts, what: &What) {
    let What::LlmReply { model, input_tokens, output_tokens, cost_usd, .. } = what else { return };
    if !facts.models.contains(model) {
        facts.models.push(model.clone());
    }
    facts.input_tokens += input_tokens;
    facts.output_tokens += output_tokens;
    facts.cost_usd += cost_usd;
}

fn mark(status: &str) -> Mark {
    match status {
        "succeeded" => Mark::Succeeded,
        "recovered" => Mark::Recovered,
        "empty" => Mark::Empty,
        "waiting" => Mark::Waiting,
        _ => Mark::Failed,
    }
}

/// A role and its text, indented.
fn block(role: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}").trim_end().to_owned()).collect();
    format!("  {role}:\n{}\n", lines.join("\n"))
}

/// The text of a message for people.
pub(super) fn content(message: &serde_json::Value) -> String {
    match serde_json::from_value::<Message>(message.clone()) {
        Ok(message) => llm::message_shown(&message),
        // An event of another version.
        Err(_) => message.to_string(),
    }
}

/// How far a call of a tool has come, on one line.
fn far(tool: &str, progress: f64, total: Option<f64>, message: Option<&str>) -> String {
    let at = match total {
        Some(total) => format!("{progress} of {total}"),
        None => progress.to_string(),
    };
    let message = message.and_then(|text| text.lines().next()).filter(|line| !line.is_empty());
    let message = message.map(|line| format!(", {}", line.chars().take(80).collect::<String>()));
    format!("calls {tool}: {at}{}", message.unwrap_or_default())
}
