//! The document of a process from the events of its journal alone: for who has not the workflow at hand.

use std::collections::HashMap;

use super::document::{
    BoardEntry, Document, Ending, FailureNote, HistoryEntry, LlmNote, Status, ToolNote, UsageTotals, Waiting,
};
use super::event::{Event, What};
use super::journal::Spent;

impl Document {
    /// What the events of a process say of it; `status` and `spent` are what is known of it now.
    pub fn told(process: &str, agent: &str, status: Status, spent: &Spent, events: &[Event]) -> Document {
        let used = spent.total;
        let document = Document {
            process: process.to_owned(),
            agent: agent.to_owned(),
            status,
            goal: None,
            output: None,
            history: Vec::new(),
            plans: Vec::new(),
            blackboard: Vec::new(),
            usage: UsageTotals {
                llm_calls: used.llm_calls,
                tool_calls: used.tool_calls,
                input_tokens: used.input_tokens,
                output_tokens: used.output_tokens,
                cost_usd: used.cost_usd,
            },
            waiting: None,
            failure: None,
        };
        let mut telling = Telling { document, objects: Vec::new(), under_way: Vec::new(), callers: HashMap::new() };
        for event in events {
            telling.event(event);
        }
        telling.end()
    }
}

struct Telling {
    document: Document,
    /// All objects; a hidden one is `None`.
    objects: Vec<Option<BoardEntry>>,
    /// Actions that have begun and not ended.
    under_way: Vec<HistoryEntry>,
    /// Tools that were called, and the action that did.
    callers: HashMap<String, String>,
}

impl Telling {
    fn under_way(&mut self, action: &str) -> Option<&mut HistoryEntry> {
        self.under_way.iter_mut().rfind(|entry| entry.action == action)
    }

    /// The action that a model's reply was for: models are asked by tools and guardrails inside an action, too.
    fn asker(&mut self, name: &str) -> Option<&mut HistoryEntry> {
        let caller = self.callers.get(name).map_or(name, String::as_str);
        let at = self.under_way.iter().rposition(|entry| entry.action == name);
        let at = at.or_else(|| self.under_way.iter().rposition(|entry| entry.action == caller));
        let at = at.or_else(|| self.under_way.len().checked_sub(1))?;
        self.under_way.get_mut(at)
    }

    fn event(&mut self, event: &Event) {
        match &event.what {
            What::ToolCalled { action, tool, .. } => {
                self.callers.insert(tool.clone(), action.clone());
            }
            What::Planned { steps, .. } => self.document.plans.push(steps.clone()),
            What::ActionStarted { action, .. } => self.under_way.push(HistoryEntry {
                action: action.clone(),
                status: Ending::Waiting,
                attempts: 1,
                started_at: event.at.clone(),
                ms: 0,
                llm: Vec::new(),
                tools: Vec::new(),
            }),
            What::LlmReply { action, model, input_tokens, output_tokens, cost_usd, .. } => {
                let note = LlmNote {
                    model: model.clone(),
                    input_tokens: *input_tokens,
                    output_tokens: *output_tokens,
                    cost_usd: *cost_usd,
                };
                if let Some(entry) = self.asker(action) {
                    entry.llm.push(note);
                }
            }
            What::ToolResult { action, tool, ok, ms, .. } => {
                let status = if *ok { "ok" } else { "error" };
                let note = ToolNote { name: tool.clone(), status: status.to_owned(), ms: *ms };
                if let Some(entry) = self.under_way(action) {
                    entry.tools.push(note);
                }
            }
            What::ObjectAdded { r#type, name, value, .. } => {
                self.objects.push(Some(BoardEntry {
                    r#type: r#type.clone(),
                    name: name.clone(),
                    value: value.clone(),
                }));
            }
            What::ObjectHidden { object } => {
                if let Some(object) = self.objects.get_mut(*object) {
                    *object = None;
                }
            }
            What::ActionFinished { action, status, attempts, ms, .. } => {
                let at = self.under_way.iter().rposition(|entry| entry.action == *action);
                let Some(mut entry) = at.map(|at| self.under_way.remove(at)) else { return };
                let status = serde_json::from_value(serde_json::Value::from(status.as_str()));
                (entry.status, entry.attempts, entry.ms) = (status.unwrap_or(Ending::Failed), *attempts, *ms);
                self.document.history.push(entry);
            }
            What::Waiting { action, prompt, form } => {
                let (form, prompt, action) = (form.clone(), prompt.clone(), action.clone());
                self.document.waiting = Some(Waiting { form, prompt, action });
            }
            What::Resumed { .. } => self.document.waiting = None,
            What::Finished { goal, output, action, kind, message, .. } => {
                self.document.waiting = None;
                self.document.goal.clone_from(goal);
                self.document.output.clone_from(output);
                self.document.failure = match (kind, message) {
                    (Some(kind), Some(message)) if self.document.status != Status::Killed => {
                        Some(FailureNote { action: action.clone(), kind: kind.clone(), message: message.clone() })
                    }
                    _ => None,
                };
            }
            _ => {}
        }
    }

    fn end(mut self) -> Document {
        self.document.blackboard = self.objects.into_iter().flatten().collect();
        if self.document.status == Status::Waiting {
            self.document.history.extend(self.under_way);
        }
        self.document
    }
}
