//! What a process shares with the actions it has under way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Value as View;
use serde_json::Value;

use crate::action::Failure;
use crate::program::Agent;
use crate::prompt::map_value;
use crate::value::TypeId;

use super::context::CallLog;
use super::document::Status;
use super::event::{EVENT_VERSION, Event, What};
use super::host::{Host, RunSettings};
use super::index::AgentIndex;
use super::journal::{DoneRecord, Head, Line, Pen, Record, not_kept};
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
    /// When it was created, RFC 3339.
    pub started_at: String,
    /// Its journal.
    pub(super) pen: Pen,
    /// Its status and goal, as the journal shows them.
    pub(super) state: Mutex<(Status, Option<String>)>,
    /// True while the process is rebuilt: nothing is told or put down.
    pub(super) is_silent: AtomicBool,
    /// Events so far.
    events: AtomicU64,
}

impl Core {
    /// The core of a new process.
    pub fn new(
        id: String,
        host: Arc<dyn Host>,
        agent: Arc<Agent>,
        index: Arc<AgentIndex>,
        run: Arc<RunSettings>,
        ledger: Arc<Ledger>,
        kill: Kill,
    ) -> Core {
        let named = [("id", id.as_str()), ("agent", agent.name.as_str())];
        let view = map_value(named.map(|(name, value)| (name.to_owned(), View::from(value))));
        let started_at = host.world().now().to_string();
        Core {
            id,
            parent: None,
            depth: 0,
            host,
            agent,
            index,
            run,
            ledger,
            kill,
            view,
            started_at,
            steps: Steps::default(),
            pen: Pen::default(),
            state: Mutex::new((Status::NotStarted, None)),
            is_silent: AtomicBool::new(false),
            events: AtomicU64::new(0),
        }
    }

    /// The same core as that of a process that was left, which goes on after so many lines and events.
    pub(super) fn after(mut self, head: &Head) -> Core {
        self.started_at.clone_from(&head.started_at);
        self.pen = Pen::after(head.lines);
        // Each line is at most one event.
        self.events = AtomicU64::new(head.lines);
        self
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
                // What led here is in the journal before anything is done.
                self.hand_on().await?;
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
        self.put(|| Record::Step { path: path.to_owned(), done: DoneRecord::new(&done, |id| self.type_name(id)) });
        self.steps.complete(path, done);
        self.hand_on().await
    }

    /// Takes down that a step begins that must not be repeated without a person's word.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub(super) async fn begin_step(&self, path: &str) -> Result<(), Failure> {
        self.steps.begin(path);
        self.put(|| Record::Begun { path: path.to_owned() });
        self.hand_on().await
    }

    /// Takes down which sub-process a step starts; it is kept when this returns.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub(super) async fn start_child(&self, path: &str, process: &str) -> Result<(), Failure> {
        self.steps.start_child(path, process);
        self.put(|| Record::Child { path: path.to_owned(), process: process.to_owned() });
        self.hand_on().await
    }

    /// Puts a record into the journal, if there is one; `record` is made only then.
    pub(super) fn put(&self, record: impl FnOnce() -> Record) {
        if self.run.journal.is_some() && !self.is_silent.load(Ordering::Relaxed) {
            self.pen.put(Line::Record(Box::new(record())));
        }
    }

    /// Hands on what was put into the journal since; the future says when it is durable.
    pub(super) fn hand_on(&self) -> impl Future<Output = Result<(), Failure>> + use<> {
        let kept = self.run.journal.as_ref().and_then(|journal| self.pen.hand_on(journal, |lines| self.head(lines)));
        async move {
            match kept {
                Some(kept) => kept.await.map_err(not_kept),
                None => Ok(()),
            }
        }
    }

    /// What is known of the process without its journal.
    fn head(&self, lines: u64) -> Head {
        let (status, goal) = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Head {
            process: self.id.clone(),
            parent: self.parent.clone(),
            agent: self.agent.name.clone(),
            status,
            goal,
            started_at: self.started_at.clone(),
            updated_at: self.host.world().now().to_string(),
            spent: self.ledger.spent(),
            lines,
        }
    }

    /// The name of a type of the agent.
    pub(super) fn type_name(&self, id: TypeId) -> String {
        self.agent.types.name(id).to_owned()
    }

    /// Takes down that a step that was begun has done nothing yet: it waits for a person.
    pub(super) fn withdraw_step(&self, path: &str) {
        self.steps.withdraw(path);
        self.put(|| Record::Withdrawn { path: path.to_owned() });
    }

    /// Whether someone hears of what happens.
    pub fn is_heard(&self) -> bool {
        self.run.observer.is_some()
    }

    /// Tells the observer and the journal, if there are such; `what` is made only then.
    pub fn emit(&self, what: impl FnOnce() -> What) {
        let keeps = self.run.journal.is_some();
        if (!keeps && self.run.observer.is_none()) || self.is_silent.load(Ordering::Relaxed) {
            return;
        }
        let event = self.event(what());
        if let Some(observer) = &self.run.observer {
            observer(&event);
        }
        if keeps {
            self.pen.put(Line::Event(Box::new(event)));
        }
    }

    /// Tells the observer alone, if there is one, of something that the journal leaves out.
    pub fn tell(&self, what: impl FnOnce() -> What) {
        if let Some(observer) = &self.run.observer {
            observer(&self.event(what()));
        }
    }

    fn event(&self, what: What) -> Event {
        Event {
            v: EVENT_VERSION,
            seq: self.events.fetch_add(1, Ordering::Relaxed) + 1,
            at: self.host.world().now().to_string(),
            process: self.id.clone(),
            what,
        }
    }
}
