//! `--watch`: edits are announced by name on stderr, and taken by what runs (runtime.md 6).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::sync::Notify;

use crate::compile::Entry;
use crate::diag::render;
use crate::engine::{Reload, Reloader};
use crate::world::SystemWorld;
use crate::world::watch::{Watch, WatchError};

use super::loaded::{Loaded, render_options};
use super::output::{DIM, GREEN, YELLOW};
use super::{Fault, Out};

/// Follows the files of a program on a thread of its own, until it is dropped.
pub(super) struct Watching {
    stop: Arc<AtomicBool>,
    wake: Box<dyn Fn() + Send + Sync>,
    swapped: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    /// Begins to follow the files of what was loaded; `say` shows what was announced.
    pub(super) fn begin(
        loaded: &Loaded,
        out: Out,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Watching, Fault> {
        let reloader = Reloader::after(loaded.engine.clone(), loaded.world.clone(), loaded.entry.clone());
        Watching::follow(&loaded.root, reloader, out, say)
    }

    /// Begins to follow all files of the project at `root`; what there is at first is not announced.
    pub(super) fn of_project(
        root: &Path,
        out: Out,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Watching, Fault> {
        let mut reloader = Reloader::new(Arc::new(SystemWorld::new(root)), Entry::Project);
        reloader.reload();
        Watching::follow(root, reloader, out, say)
    }

    fn follow(
        root: &Path,
        mut reloader: Reloader,
        out: Out,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Watching, Fault> {
        let mut watch = Watch::new(root)?;
        let (stop, swapped): (Arc<AtomicBool>, Arc<Notify>) = Default::default();
        let wake = Box::new(watch.waker());
        let (stopped, tell) = (stop.clone(), swapped.clone());
        let follow = move || {
            let followed = reloader.follow(&mut watch, &stopped, |reload| {
                say(&announced(reload, &out));
                if reload.swapped {
                    tell.notify_one();
                }
            });
            if let Err(error) = followed {
                say(&format!("{}; edits are not seen any more", error));
            }
        };
        Ok(Watching { stop, wake, swapped, thread: Some(std::thread::spawn(follow)) })
    }

    /// Waits until another program is in force.
    pub(super) async fn swapped(&self) {
        self.swapped.notified().await;
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        (self.wake)();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl From<WatchError> for Fault {
    fn from(error: WatchError) -> Fault {
        Fault::failed(error.to_string()).help(
            "on Linux the limit on watches is `fs.inotify.max_user_watches`; without `--watch` nothing is watched",
        )
    }
}

/// What a reload has to say, for stderr.
fn announced(reload: &Reload, out: &Out) -> String {
    let findings = render::human(&reload.diagnostics, &reload.sources, render_options(out.color_err));
    if reload.is_refused() {
        let note = out.paint_err(YELLOW, "not reloaded: the program that was in force stays in force");
        return format!("{}\n{note}", findings.trim_end());
    }
    let mut lines: Vec<String> =
        Some(findings.trim_end().to_owned()).filter(|text| !text.is_empty()).into_iter().collect();
    if !reload.swapped {
        lines.push(out.paint_err(DIM, "the files say again what is in force"));
        return lines.join("\n");
    }
    let of_many = reload.agents > 1;
    let changes = reload.changes.iter().map(|change| format!("  {}", change.in_agents(of_many)));
    lines.push(out.paint_err(GREEN, "reloaded"));
    lines.extend(changes);
    lines.join("\n")
}
