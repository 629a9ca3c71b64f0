//! A process that waits for a person, and goes on with the answer.

use serde_json::Value;

use crate::action::{Failure, FailureKind};

use super::context::CallLog;
use super::document::{Ending, HistoryEntry, Status};
use super::event::What;
use super::journal::Record;
use super::person::{complaints, no_answer};
use super::run::Process;
use super::steps::{Done, Pending};

/// Why an answer was not taken. The process is as it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AnswerError {
    /// Nothing was asked.
    #[error("the process {process} waits for no answer: it is {status}")]
    NotWaiting {
        /// The process.
        process: String,
        /// Its status.
        status: &'static str,
    },
    /// The answer does not fit the form.
    #[error("the answer does not fit the form of `{action}`: {wrong}")]
    DoesNotFit {
        /// The action that asks.
        action: String,
        /// What is wrong.
        wrong: String,
    },
}

impl Process {
    /// The question that the process waits with.
    pub fn waiting(&self) -> Option<&Pending> {
        self.pending.as_ref()
    }

    /// Gives the answer that the process waits for; [`Process::run`] goes on then: the action that asked is performed
    /// again, and repeats nothing that it had done.
    ///
    /// # Errors
    /// When the process does not wait, or the answer does not fit; it is as before then.
    pub async fn answer(&mut self, answer: Value) -> Result<(), AnswerError> {
        let Some(pending) = &self.pending else {
            let process = self.core().id.clone();
            return Err(AnswerError::NotWaiting { process, status: self.status().word() });
        };
        if let Some(wrong) = complaints(&pending.question.form, &answer) {
            return Err(AnswerError::DoesNotFit { action: pending.question.action.clone(), wrong });
        }
        self.settle(Ok(answer)).await;
        Ok(())
    }

    /// Ends a wait whose time is over: the question has failed. Returns whether it did.
    pub async fn expire(&mut self) -> bool {
        let now = self.core().host.world().now();
        let Some(pending) = self.pending.as_ref().filter(|pending| pending.until.is_some_and(|until| until <= now))
        else {
            return false;
        };
        let failure = no_answer(&pending.question);
        self.settle(Err(failure)).await;
        true
    }

    /// The question has an answer, or has failed.
    pub(super) async fn settle(&mut self, result: Result<Value, Failure>) {
        let Some(pending) = self.pending.take() else { return };
        self.set_status(Status::Running);
        self.core().put(|| Record::Resumed);
        let result = result.map(|answer| super::person::kept(self.core(), &pending.question, answer));
        self.core()
            .emit(|| What::Resumed { action: pending.question.action.clone(), answer: result.as_ref().ok().cloned() });
        let done = Done { result, log: CallLog::default() };
        if let Err(failure) = self.core().complete_step(&pending.path, done).await {
            return self.finish(Status::Failed, Some((None, failure)));
        }
        self.core().steps.perform_again();
    }

    /// Asks again what the process waits for: there may be someone now who can answer.
    pub fn ask_again(&mut self) {
        if self.status() == Status::Waiting {
            self.set_status(Status::Running);
            self.pending = None;
            self.core().steps.perform_again();
        }
    }

    /// Ends a process that waits, or was left: nothing that it was about to do is done.
    pub async fn end(&mut self) -> Status {
        if matches!(self.status(), Status::NotStarted | Status::Running | Status::Waiting | Status::Paused) {
            self.set_status(Status::Running);
            (self.pending, self.in_flight) = (None, Vec::new());
            let failure = Failure::new(FailureKind::Killed, "the process was killed");
            self.finish(Status::Killed, Some((None, failure)));
        }
        self.run().await
    }

    /// Stops until a person has answered.
    pub(super) fn wait(&mut self) {
        for flight in &mut self.in_flight {
            flight.again = true;
        }
        self.pending = self.core().steps.pending();
        let Some(pending) = self.pending.clone() else {
            // A body that says that it waits without having asked: there is nothing to wait for.
            let failure = Failure::new(FailureKind::Error, "an action waits and has asked nothing");
            self.in_flight.clear();
            return self.finish(Status::Failed, Some((None, failure)));
        };
        let question = pending.question.clone();
        self.set_status(Status::Waiting);
        self.core().put(|| Record::Waiting { pending: Box::new(pending) });
        self.core().emit(|| What::Waiting { action: question.action, prompt: question.prompt, form: question.form });
    }

    /// The actions in flight of a process that waits, as the history shows them.
    pub(super) fn waiting_entries(&self) -> Vec<HistoryEntry> {
        if self.status() != Status::Waiting {
            return Vec::new();
        }
        let entry = |flight: &super::act::Flight| HistoryEntry {
            action: self.core().agent.actions[flight.action].name.clone(),
            status: Ending::Waiting,
            attempts: 1,
            started_at: flight.started_at.to_string(),
            ms: 0,
            llm: Vec::new(),
            tools: Vec::new(),
        };
        self.in_flight.iter().map(entry).collect()
    }
}
