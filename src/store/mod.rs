//! Where the journals of processes are kept. [`MemoryStore`] forgets them with the program; stores on disk come behind
//! the same trait.

use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;

use crate::process::Event;

/// Keeps the events of processes, in order.
pub trait Store: Send + Sync {
    /// Keeps an event; it is durable when this returns.
    ///
    /// # Errors
    /// Says why it could not be kept.
    fn append(&self, event: &Event) -> Result<(), String>;

    /// The events of a process, oldest first; none for a process that is not known.
    ///
    /// # Errors
    /// Says why they could not be read.
    fn events(&self, process: &str) -> Result<Vec<Event>, String>;

    /// The ids of all processes, oldest first.
    ///
    /// # Errors
    /// Says why they could not be read.
    fn processes(&self) -> Result<Vec<String>, String>;
}

/// Journals in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    journals: Mutex<IndexMap<String, Vec<Event>>>,
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, IndexMap<String, Vec<Event>>> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn append(&self, event: &Event) -> Result<(), String> {
        self.lock().entry(event.process.clone()).or_default().push(event.clone());
        Ok(())
    }

    fn events(&self, process: &str) -> Result<Vec<Event>, String> {
        Ok(self.lock().get(process).cloned().unwrap_or_default())
    }

    fn processes(&self) -> Result<Vec<String>, String> {
        Ok(self.lock().keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::What;

    #[test]
    fn events_come_back_in_order_by_process() {
        let store = MemoryStore::default();
        for (process, seq) in [("P1", 1), ("P2", 1), ("P1", 2)] {
            let what = What::ObjectHidden { object: 0 };
            let event = Event { v: 1, seq, at: "2025-01-01T00:00:00Z".into(), process: process.into(), what };
            store.append(&event).unwrap();
        }
        assert_eq!(store.processes().unwrap(), ["P1", "P2"]);
        let seqs: Vec<u64> = store.events("P1").unwrap().iter().map(|event| event.seq).collect();
        assert_eq!(seqs, [1, 2]);
        assert!(store.events("P9").unwrap().is_empty());
    }
}
