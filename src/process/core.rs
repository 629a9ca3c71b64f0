//! What a process shares with the actions it has under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::Value as View;

use crate::program::Agent;
use crate::prompt::map_value;

use super::event::{EVENT_VERSION, Event, What};
use super::host::{Host, RunSettings};
use super::index::AgentIndex;
use super::kill::Kill;
use super::ledger::Ledger;

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
        Core { id, parent: None, depth: 0, host, agent, index, run, ledger, kill, view, events: AtomicU64::new(0) }
    }

    /// The same core as that of a sub-process, `depth` levels deep.
    pub fn inside(mut self, parent: &str, depth: u64) -> Core {
        self.parent = Some(parent.to_owned());
        self.depth = depth;
        self
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
