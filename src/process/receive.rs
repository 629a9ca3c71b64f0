//! What a person says, past the guardrails that look at it, before anything else is done with it (language.md 10).

use std::sync::Mutex;

use serde_json::Value;

use crate::action::{Failure, FailureKind};
use crate::program::Agent;
use crate::program::guardrail::GuardrailCheck as Check;

use super::context::CallLog;
use super::document::Status;
use super::guard::{self, Guard, Place, Turn};
use super::journal::Record;
use super::run::{Given, Process};

/// The types that a person's words come as.
const WORDS: [&str; 2] = ["UserInput", "UserMessage"];

/// Takes out of what a process starts from all that has to wait for the guardrails: a person's words, and what was given
/// after them, so that the order stays.
pub(super) fn held_back(agent: &Agent, given: &mut Vec<Given>) -> Vec<Given> {
    if !agent.guardrails.iter().any(|one| !one.named && one.looks_at(Check::UserInput)) {
        return Vec::new();
    }
    let Some(first) = given.iter().position(|given| is_said(agent, given)) else { return Vec::new() };
    let mut held = given.split_off(first);
    // What patterns redact is not kept in the journal either.
    for given in held.iter_mut().filter(|given| is_said(agent, given)) {
        given.value = guard::without_patterns(agent, std::mem::take(&mut given.value));
    }
    held
}

fn is_said(agent: &Agent, given: &Given) -> bool {
    let types = &agent.types;
    WORDS.iter().filter_map(|name| types.id(name)).any(|id| types.is_subtype(given.type_id, id))
}

impl Process {
    /// Lets in what the process starts from.
    pub(super) async fn receive(&mut self) {
        let came = std::mem::take(&mut self.arriving);
        let mut given = came.clone();
        for (at, one) in given.iter_mut().enumerate() {
            if !is_said(&self.core().agent, one) {
                continue;
            }
            match self.looked_at(one.value.clone(), &format!("input#{}", at + 1)).await {
                Ok(value) => one.value = value,
                Err(failure) if failure.is_waiting() => {
                    self.arriving = came;
                    return self.wait();
                }
                Err(failure) => {
                    let status = match failure.kind {
                        FailureKind::Killed => Status::Killed,
                        FailureKind::Limit => Status::Terminated,
                        _ => Status::Failed,
                    };
                    return self.finish(status, Some((None, failure)));
                }
            }
        }
        self.core().steps.clear();
        self.core().put(|| Record::Received { given: given.iter().map(|given| self.object_record(given)).collect() });
        self.place(given);
    }

    /// Lets in what had passed before, when the process is rebuilt. Where no guardrail looks any more, it is there already.
    pub(super) fn received(&mut self, given: Vec<Given>) {
        self.core().steps.clear();
        if !std::mem::take(&mut self.arriving).is_empty() {
            self.place(given);
        }
    }

    /// Lets in everything unseen: no guardrail looked when the process began.
    pub(super) fn let_all_in(&mut self) {
        let given = std::mem::take(&mut self.arriving);
        self.place(given);
    }

    /// A person's words as they may go on.
    pub(super) async fn looked_at(&self, said: Value, step: &str) -> Result<Value, Failure> {
        let (core, scope) = (self.core(), self.scope());
        let holding = guard::of_agent(&core.agent);
        let guard = Guard::new(core, &scope, &holding, "input");
        let log: Mutex<CallLog> = Mutex::default();
        let place = Place { check: Check::UserInput, tool: "", step, log: &log };
        tokio::select! {
            biased;
            () = core.kill.killed() => Err(Failure::new(FailureKind::Killed, "the process was killed")),
            failure = core.ledger.out_of_time() => Err(failure),
            passed = guard.pass_value(said, place, Turn::Both) => passed,
        }
    }
}
