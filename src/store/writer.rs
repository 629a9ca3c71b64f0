//! The one thread of a store that writes: it takes all batches that have come meanwhile together (group commit), in order,
//! and does everything else on the same connection between them.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;

use super::{Batch, StoreError};

/// How often the writer looks whether another program wants one of its processes to end.
const LOOK: Duration = Duration::from_millis(250);
/// Batches in one transaction at most.
const GROUP_MAX: usize = 4_096;

/// Says that a batch is kept.
type Told = oneshot::Sender<Result<(), StoreError>>;

/// What the writer is given.
enum Job<C> {
    Append(Box<Batch>, Told),
    Run(Box<dyn FnOnce(&mut C) + Send>),
}

/// What ends processes of this program when another one asks for it.
pub(super) type Ends = Arc<Mutex<HashMap<String, Box<dyn Fn() + Send + Sync>>>>;

/// What a store does on its thread with a connection of kind `C`.
pub(super) trait Hand<C>: Send + 'static {
    /// Keeps batches in one transaction, and says of each whether it was taken.
    ///
    /// # Errors
    /// When the transaction fails: none of them is kept.
    fn append(&mut self, connection: &mut C, batches: &[Box<Batch>])
    -> Result<Vec<Result<(), StoreError>>, StoreError>;

    /// The processes of this program that another one wants ended.
    fn wanted(&mut self, connection: &mut C) -> Vec<String>;
}

/// The handle of the thread. Dropped, it waits until all that came is written.
pub(super) struct Writer<C> {
    jobs: Option<Sender<Job<C>>>,
    thread: Option<std::thread::JoinHandle<()>>,
    ends: Ends,
}

impl<C: 'static> Writer<C> {
    /// Starts the thread; `connect` is called on it, and must work for the thread to go on.
    ///
    /// # Errors
    /// What `connect` says, or that there is no thread to be had.
    pub(super) fn start<H: Hand<C>>(
        connect: impl FnOnce() -> Result<(C, H), StoreError> + Send + 'static,
    ) -> Result<Writer<C>, StoreError> {
        let (jobs, todo) = channel();
        let (told, connected) = channel();
        let ends = Ends::default();
        let watched = ends.clone();
        let work = move || {
            let (connection, hand) = match connect() {
                Ok(connected) => connected,
                Err(error) => {
                    let _ = told.send(Err(error));
                    return;
                }
            };
            let _ = told.send(Ok(()));
            work(connection, hand, &todo, &watched);
        };
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(work);
        let thread = thread.map_err(|error| StoreError::Failed(format!("the store has no thread: {error}")))?;
        connected.recv().unwrap_or_else(|_| Err(gone()))?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread), ends })
    }

    fn send(&self, job: Job<C>) {
        if let Some(jobs) = &self.jobs {
            // A writer that has ended drops the job, and whoever waits for it is told so.
            let _ = jobs.send(job);
        }
    }

    /// Takes a batch, in order; the future says when it is kept.
    pub(super) fn append(&self, batch: Batch) -> BoxFuture<'static, Result<(), StoreError>> {
        let (kept, answer) = oneshot::channel();
        self.send(Job::Append(Box::new(batch), kept));
        async move { answer.await.unwrap_or_else(|_| Err(gone())) }.boxed()
    }

    /// Does something with the connection, after all that was appended before.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut C) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (sender, answer) = oneshot::channel();
        self.send(Job::Run(Box::new(move |connection| {
            // Whoever asked may have gone.
            let _ = sender.send(job(connection));
        })));
        async move { answer.await.unwrap_or_else(|_| Err(gone())) }.boxed()
    }

    /// What ends processes of this program.
    pub(super) fn ends(&self) -> MutexGuard<'_, HashMap<String, Box<dyn Fn() + Send + Sync>>> {
        lock(&self.ends)
    }
}

impl<C> Drop for Writer<C> {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // What was appended is written before the program goes on.
            let _ = thread.join();
        }
    }
}

fn gone() -> StoreError {
    StoreError::Failed("the store's writer has ended".to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that has come goes into one transaction, in order.
fn work<C, H: Hand<C>>(mut connection: C, mut hand: H, jobs: &Receiver<Job<C>>, ends: &Ends) {
    loop {
        let first = match jobs.recv_timeout(LOOK) {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) => {
                if !lock(ends).is_empty() {
                    let wanted = hand.wanted(&mut connection);
                    let ends = lock(ends);
                    wanted.iter().filter_map(|process| ends.get(process)).for_each(|end| end());
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match job {
                Job::Run(job) => job(&mut connection),
                Job::Append(batch, kept) => {
                    let (mut batches, mut told) = (vec![batch], vec![kept]);
                    while batches.len() < GROUP_MAX {
                        match jobs.try_recv() {
                            Ok(Job::Append(batch, kept)) => {
                                batches.push(batch);
                                told.push(kept);
                            }
                            Ok(other) => {
                                next = Some(other);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    let results = match hand.append(&mut connection, &batches) {
                        Ok(results) => results,
                        Err(error) => batches.iter().map(|_| Err(error.clone())).collect(),
                    };
                    for (kept, result) in told.into_iter().zip(results) {
                        let _ = kept.send(result);
                    }
                }
            }
        }
    }
}
