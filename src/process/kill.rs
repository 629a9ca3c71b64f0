//! A switch that ends a process and everything it has under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Ends a process (`Ctrl-C`, `kill`); shared by a process, its sub-processes and whoever may end it.
#[derive(Clone, Debug, Default)]
pub struct Kill {
    switch: Arc<Switch>,
}

#[derive(Debug, Default)]
struct Switch {
    is_on: AtomicBool,
    waiters: Notify,
}

impl Kill {
    /// Ends the process; what it has under way is dropped.
    pub fn kill(&self) {
        self.switch.is_on.store(true, Ordering::SeqCst);
        self.switch.waiters.notify_waiters();
    }

    /// Whether it was ended.
    pub fn is_killed(&self) -> bool {
        self.switch.is_on.load(Ordering::SeqCst)
    }

    /// Waits until it is ended.
    pub async fn killed(&self) {
        loop {
            let waiting = self.switch.waiters.notified();
            if self.is_killed() {
                return;
            }
            waiting.await;
        }
    }
}
