//! Journals in memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use indexmap::IndexMap;

use super::{Batch, Kept, Line, ReplyLimits, Row, Store, StoreError};

/// A store that forgets with the program, for tests and for programs that keep nothing.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
    numbers: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    processes: IndexMap<String, (Row, Vec<Line>)>,
    contexts: HashMap<String, Vec<Kept>>,
    /// Replies by key, the oldest first: when, and what.
    replies: IndexMap<String, (String, String)>,
    /// Everything that came, for tests that play it again up to some point.
    #[cfg(test)]
    batches: Vec<Batch>,
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that came, in order.
    #[cfg(test)]
    pub(crate) fn batches(&self) -> Vec<Batch> {
        self.lock().batches.clone()
    }

    fn append_now(&self, batch: Batch) -> Result<(), StoreError> {
        let mut inner = self.lock();
        #[cfg(test)]
        inner.batches.push(batch.clone());
        let count = batch.lines.len() as u64;
        let (row, lines) = inner.processes.entry(batch.row.process.clone()).or_default();
        if row.lines != batch.row.lines {
            return Err(StoreError::Failed(format!("the journal of {} has a gap", batch.row.process)));
        }
        let ended = batch.row.has_ended().then(|| (batch.row.process.clone(), batch.row.updated_at.clone()));
        *row = Row { lines: batch.row.lines + count, ..batch.row };
        lines.extend(batch.lines);
        if let Some((process, at)) = ended {
            let mut ending = vec![process];
            while let Some(parent) = ending.pop() {
                for (row, _) in inner.processes.values_mut().filter(|(row, _)| row.parent.as_ref() == Some(&parent)) {
                    ending.push(row.process.clone());
                    if !row.has_ended() {
                        (row.status, row.updated_at) = ("killed".to_owned(), at.clone());
                    }
                }
            }
        }
        if let Some((context, objects)) = batch.context {
            inner.contexts.insert(context, objects);
        }
        Ok(())
    }

    fn of(&self, wanted: impl Fn(&Row) -> bool) -> Vec<Row> {
        self.lock().processes.values().map(|(row, _)| row).filter(|row| wanted(row)).cloned().collect()
    }
}

impl Store for MemoryStore {
    fn append(&self, batch: Batch) -> BoxFuture<'static, Result<(), StoreError>> {
        ready(self.append_now(batch)).boxed()
    }

    fn lines<'a>(&'a self, process: &'a str, kind: &'static str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let inner = self.lock();
        let lines = inner.processes.get(process).into_iter().flat_map(|(_, lines)| lines);
        ready(Ok(lines.filter(|line| line.kind == kind).map(|line| line.body.clone()).collect())).boxed()
    }

    fn row<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Option<Row>, StoreError>> {
        ready(Ok(self.lock().processes.get(process).map(|(row, _)| row.clone()))).boxed()
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, StoreError>> {
        ready(Ok(self.of(|row| row.parent.is_none()))).boxed()
    }

    fn children<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        ready(Ok(self.of(|row| row.parent.as_deref() == Some(process)))).boxed()
    }

    fn claim<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let known = self.lock().processes.contains_key(process);
        ready(if known { Ok(()) } else { Err(StoreError::Unknown(process.to_owned())) }).boxed()
    }

    fn release<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }

    fn ask_to_end<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.claim(process)
    }

    // No other program sees this store.
    fn on_asked_to_end(&self, _: &str, _: Box<dyn Fn() + Send + Sync>) {}

    fn next_number(&self) -> Result<u64, StoreError> {
        Ok(self.numbers.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn context<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<Kept>, StoreError>> {
        ready(Ok(self.lock().contexts.get(id).cloned().unwrap_or_default())).boxed()
    }

    fn reply<'a>(&'a self, key: &'a str, since: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        let inner = self.lock();
        let kept = inner.replies.get(key).filter(|(at, _)| at.as_str() >= since);
        ready(Ok(kept.map(|(_, body)| body.clone()))).boxed()
    }

    fn keep_reply<'a>(
        &'a self,
        key: &'a str,
        body: String,
        at: &'a str,
        limits: ReplyLimits,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut inner = self.lock();
        inner.replies.shift_remove(key);
        inner.replies.insert(key.to_owned(), (at.to_owned(), body));
        let mut bytes: u64 = inner.replies.values().map(|(_, body)| body.len() as u64).sum();
        while inner.replies.len() as u64 > limits.count || bytes > limits.bytes {
            let Some((_, (_, oldest))) = inner.replies.shift_remove_index(0) else { break };
            bytes -= oldest.len() as u64;
        }
        ready(Ok(())).boxed()
    }

    fn prune(&self, keep: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut inner = self.lock();
        let ended: Vec<String> = inner
            .processes
            .values()
            .filter(|(row, _)| row.parent.is_none() && row.has_ended())
            .map(|(row, _)| row.process.clone())
            .collect();
        let too_many = ended.len().saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
        let mut going: Vec<String> = ended.into_iter().take(too_many).collect();
        while let Some(process) = going.pop() {
            inner.processes.shift_remove(&process);
            let children = inner.processes.values().filter(|(row, _)| row.parent.as_ref() == Some(&process));
            going.extend(children.map(|(row, _)| row.process.clone()).collect::<Vec<_>>());
        }
        ready(Ok(())).boxed()
    }
}
