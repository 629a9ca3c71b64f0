//! What a process shares with the actions it has under way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Value as View;
use serde_json::Value;

use crate::action::Failure;
use crate::program::Agent;
use crate::prompt::map_value;

use super::context::CallLog;
use super::event::{EVENT_VERSION, Event, What};
use super::host::{Host, RunSettings};
use super::index::AgentIndex;
use super::kill::Kill;
use super::ledger::Ledger;
use super::steps::{Done, Steps, is_passing};

/// The unchanging part of a process.
pub struct Core {
    /// Its id.
    pub id: String,
    /// The process it belongs to.
    pub parent: Option<String>,
    /// How many processes it stands in.
    pub depth: u64,
    /// The program around it.
    pub host: Arc<dyn Host>,
    /// Its agent.
    pub agent: Arc<Agent>,
    /// The agent's tables.
    pub index: Arc<AgentIndex>,
    /// What the run has set.
    pub run: Arc<RunSettings>,
    /// Its account.
    pub ledger: Arc<Ledger>,
    /// Its switch.
    pub kill: Kill,
    /// `process`, as templates see it.
    pub view: View,
    /// What the actions in flight have done.
    pub steps: Steps,
    /// Events so far.
    events: AtomicU64,
}

impl Core {
    /// The core of a new process.
    pub fn new(
        host: Arc<dyn Host>,
        agent: Arc<Agent>,
        index: Arc<AgentIndex>,
        run: Arc<RunSettings>,
        ledger: Arc<Ledger>,
        kill: Kill,
    ) -> Core {
        let id = host.world().new_id();
        let named = [("id", id.as_str()), ("agent", agent.name.as_str())];
        let view = map_value(named.map(|(name, value)| (name.to_owned(), View::from(value))));
        let (steps, events) = (Steps::default(), AtomicU64::new(0));
        Core { id, parent: None, depth: 0, host, agent, index, run, ledger, kill, view, steps, events }
    }

    /// The same core as that of a sub-process, `depth` levels deep.
    pub fn inside(mut self, parent: &str, depth: u64) -> Core {
        self.parent = Some(parent.to_owned());
        self.depth = depth;
        self
    }

    /// Performs an effect as a step: one that was completed before gives what came of it then, any other is performed
    /// and taken down. The effect puts what it leaves behind into the log that it is given.
    ///
    /// # Errors
    /// What the effect ends with, now or then.
    pub(super) async fn step<F, Fut>(&self, path: &str, log: &Mutex<CallLog>, effect: F) -> Result<Value, Failure>
    where
        F: FnOnce(Arc<Mutex<CallLog>>) -> Fut,
        Fut: Future<Output = Result<Value, Failure>>,
    {
        let done = match self.steps.done(path) {
            Some(done) => done,
            None => {
                let own: Arc<Mutex<CallLog>> = Arc::default();
                let result = effect(own.clone()).await;
                let log = std::mem::take(&mut *own.lock().unwrap_or_else(PoisonError::into_inner));
                let done = Done { result, log };
                if !done.result.as_ref().is_err_and(is_passing) {
                    self.complete_step(path, done.clone()).await?;
                }
                done
            }
        };
        log.lock().unwrap_or_else(PoisonError::into_inner).append(done.log);
        done.result
    }

    /// Takes down what came of a step; it is kept when this returns.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub(super) async fn complete_step(&self, path: &str, done: Done) -> Result<(), Failure> {
        self.steps.complete(path, done);
        Ok(())
    }

    /// Takes down that a step begins that must not be repeated without a person's word.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub(super) async fn begin_step(&self, path: &str) -> Result<(), Failure> {
        self.steps.begin(path);
        Ok(())
    }

    /// Takes down that a step that was begun has done nothing yet: it waits for a person.
    pub(super) fn withdraw_step(&self, path: &str) {
        self.steps.withdraw(path);
    }

    /// Whether someone hears of what happens.
    pub fn is_heard(&self) -> bool {
        self.run.observer.is_some()
    }

    /// Tells the observer, if there is one; `what` is made only then.
    pub fn emit(&self, what: impl FnOnce() -> What) {
        let Some(observer) = &self.run.observer else { return };
        let event = Event {
            v: EVENT_VERSION,
            seq: self.events.fetch_add(1, Ordering::Relaxed) + 1,
            at: self.host.world().now().to_string(),
            process: self.id.clone(),
            what: what(),
        };
        observer(&event);
    }
}
