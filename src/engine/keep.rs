//! Processes in a store: their journals go into it, and they come back from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compile::Entry;
use crate::llm::{Llm, Past, Scripted};
use crate::process::event::EVENT_VERSION;
use crate::process::journal::{Batch, Head, Journal, Left, Line, ObjectRecord, Record, Spent};
use crate::process::{Core, Event, Ledger, Process, RestoreError, Status, Used, What};
use crate::program::Agent;
use crate::store::{self, Kept, Row, Store, StoreError};

use super::{Engine, LimitOptions, RunOptions, StartError};

/// How many ended processes are kept where the project does not say.
const KEEP: u64 = 1_000;

/// At the first start of a program, and at every such one after it, those that are too old are forgotten; at every one
/// of so many as are kept, where that is more. Lines of processes that ran side by side share pages: when few are taken
/// out of many, each page is written again and again.
const PRUNE_EVERY: u64 = 64;

/// Why a process was not resumed. It is as it was in the store.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ResumeError {
    /// The store, or the lease.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// It has ended already.
    #[error("the process {process} cannot go on: it is {status}")]
    Ended {
        /// The process.
        process: String,
        /// Its status.
        status: String,
    },
    /// It belongs to another process, which is the one to resume.
    #[error("the process {process} belongs to {parent}; resume that one")]
    Belongs {
        /// The process.
        process: String,
        /// The one it belongs to.
        parent: String,
    },
    /// It does not fit the program.
    #[error("the process {process} cannot go on: {why}")]
    Restore {
        /// The process.
        process: String,
        /// Why.
        why: RestoreError,
    },
    /// The options do not fit the program.
    #[error("{0}")]
    Start(#[from] StartError),
}

/// What a run has set and a resume sets again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Settings {
    target: String,
    context: Option<String>,
    open: Option<(String, String)>,
    dry_run: bool,
    yes: bool,
    no_date_line: bool,
    models: IndexMap<String, String>,
    config: IndexMap<String, Value>,
    max_actions: Option<u64>,
    max_cost: Option<f64>,
    max_tokens: Option<u64>,
    time_ms: Option<u64>,
}

impl Settings {
    fn of(options: &RunOptions) -> Settings {
        let time = options.limits.time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        Settings {
            target: options.target.clone(),
            context: options.context.clone(),
            open: options.open.clone(),
            dry_run: options.dry_run,
            yes: options.yes,
            no_date_line: options.no_date_line,
            models: options.models.clone(),
            config: options.config.clone(),
            max_actions: options.limits.actions,
            max_cost: options.limits.cost,
            max_tokens: options.limits.tokens,
            time_ms: time,
        }
    }

    /// These settings under what a resume says otherwise.
    fn under(self, options: RunOptions) -> RunOptions {
        let limits = LimitOptions {
            actions: options.limits.actions.or(self.max_actions),
            cost: options.limits.cost.or(self.max_cost),
            tokens: options.limits.tokens.or(self.max_tokens),
            time: options.limits.time.or(self.time_ms.map(std::time::Duration::from_millis)),
        };
        let mut models = self.models;
        models.extend(options.models);
        let mut config = self.config;
        config.extend(options.config);
        RunOptions {
            target: self.target,
            context: self.context,
            open: self.open,
            dry_run: options.dry_run || self.dry_run,
            yes: options.yes || self.yes,
            no_date_line: options.no_date_line || self.no_date_line,
            limits,
            models,
            config,
            ..options
        }
    }
}

/// What a run has set, as it is kept with the process.
pub(super) fn settings(options: &RunOptions) -> Value {
    serde_json::to_value(Settings::of(options)).unwrap_or_default()
}

/// Journals in a store.
pub(super) struct Keeper {
    store: Arc<dyn Store>,
    target: String,
    context: Option<String>,
    /// Whether a process of the run may have sub-processes.
    has_children: AtomicBool,
}

impl Keeper {
    /// The journals of one run, which may go on with what another program has left.
    pub(super) fn new(store: Arc<dyn Store>, options: &RunOptions, was_left: bool) -> Keeper {
        let (target, context) = (options.target.clone(), options.context.clone());
        Keeper { store, target, context, has_children: AtomicBool::new(was_left) }
    }

    fn row(&self, head: Head) -> Row {
        Row {
            process: head.process,
            parent: head.parent,
            agent: head.agent,
            target: self.target.clone(),
            status: head.status.word().to_owned(),
            goal: head.goal,
            cost_usd: head.spent.total.cost_usd,
            started_at: head.started_at,
            updated_at: head.updated_at,
            used: serde_json::to_string(&head.spent).unwrap_or_default(),
            lines: head.lines,
        }
    }
}

impl Journal for Keeper {
    fn append(&self, batch: Batch) -> BoxFuture<'static, Result<(), String>> {
        let lines = match lines(&batch.lines) {
            Ok(lines) => lines,
            Err(error) => return futures::future::ready(Err(error.to_string())).boxed(),
        };
        let kept = |object: ObjectRecord| Kept {
            type_name: object.r#type.unwrap_or_default(),
            name: object.name,
            value: object.value,
        };
        let keeps = batch.keeps.map(|objects| objects.into_iter().map(kept).collect());
        let context = self.context.clone().zip(keeps).filter(|_| batch.head.parent.is_none());
        let row = self.row(batch.head);
        if row.parent.is_some() {
            self.has_children.store(true, Ordering::Relaxed);
        }
        let ended = (row.has_ended() && self.has_children.load(Ordering::Relaxed)).then(|| row.process.clone());
        let kept = self.store.append(store::Batch { row, lines, context });
        let store = self.store.clone();
        async move {
            kept.await.map_err(|error| error.to_string())?;
            match ended {
                // What it had started and not come to the end of ends with it.
                Some(process) => end_children(&store, &process).await.map_err(|error| error.to_string()),
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn left<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Option<Left>, String>> {
        async move { left(&*self.store, process).await.map_err(|error| error.to_string()) }.boxed()
    }
}

/// Lines as they are kept.
fn lines(lines: &[Line]) -> Result<Vec<store::Line>, serde_json::Error> {
    // One that has grown for all of them costs less than one that grows for each.
    let mut text = Vec::with_capacity(1_024);
    let one = |line: &Line| {
        text.clear();
        let kind = match line {
            Line::Event(event) => serde_json::to_writer(&mut text, event).map(|()| "event")?,
            Line::Record(record) => serde_json::to_writer(&mut text, record).map(|()| "record")?,
        };
        Ok(store::Line { kind, body: String::from_utf8_lossy(&text).into_owned() })
    };
    lines.iter().map(one).collect()
}

/// Where a process was left.
async fn left(store: &dyn Store, process: &str) -> Result<Option<Left>, StoreError> {
    let Some(row) = store.row(process).await? else { return Ok(None) };
    let unreadable = |error: serde_json::Error| StoreError::Failed(format!("the journal of {process}: {error}"));
    let lines = store.lines(process, "record").await?;
    let damaged = |at: usize, error: serde_json::Error| {
        let cut = if error.is_eof() { ", which breaks off" } else { "" };
        StoreError::Failed(format!(
            "the journal of {process} is damaged in record {} of {}{cut}: {error}; `agent-run show {process}` tells what \
             is left of it, `agent-run kill {process}` ends it",
            at + 1,
            lines.len()
        ))
    };
    let read =
        lines.iter().enumerate().map(|(at, line)| serde_json::from_str(line).map_err(|error| damaged(at, error)));
    let records: Vec<Record> = read.collect::<Result<_, _>>()?;
    let mut children = Used::default();
    for child in store.children(process).await? {
        children += spent(&child).total;
    }
    let status = serde_json::from_value(Value::from(row.status.clone())).map_err(unreadable)?;
    let spent = spent(&row);
    let head = Head {
        process: row.process,
        parent: row.parent,
        agent: row.agent,
        status,
        goal: row.goal,
        started_at: row.started_at,
        updated_at: row.updated_at,
        spent,
        lines: row.lines,
    };
    Ok(Some(Left { head, records, children }))
}

/// What models answered a process and those that it started, each in order.
async fn past(store: &dyn Store, process: &str) -> Result<Vec<Past>, StoreError> {
    let (mut past, mut open) = (Vec::new(), vec![process.to_owned()]);
    while let Some(process) = open.pop() {
        let lines = store.lines(&process, "event").await?;
        let events = lines.iter().filter_map(|line| serde_json::from_str::<Event>(line).ok());
        for event in events {
            let (name, model, text) = match event.what {
                What::LlmReply { action, model, text, .. } => (action, model, Some(text)),
                What::Retrying { action, what, .. } if what == "llm" => (action, String::new(), None),
                _ => continue,
            };
            // Of a try that failed the model is told by the reply that came in the end.
            let failed = past.iter_mut().rev().take_while(|past: &&mut Past| past.text.is_none());
            failed.filter(|past| past.name == name).for_each(|past| past.model.clone_from(&model));
            past.push(Past { name, model, text });
        }
        open.extend(store.children(&process).await?.into_iter().map(|row| row.process));
    }
    Ok(past)
}

/// Ends a stored process that no program runs.
///
/// # Errors
/// [`StoreError::Held`] when a program runs it, and whatever the store says.
pub async fn end_stored(store: &Arc<dyn Store>, process: &str) -> Result<(), StoreError> {
    store.claim(process).await?;
    let Some(row) = store.row(process).await? else { return Err(StoreError::Unknown(process.to_owned())) };
    if row.has_ended() {
        store.release(process).await?;
        return Ok(());
    }
    let status = Status::Killed;
    let at = row.updated_at.clone();
    let what = What::Finished {
        status: status.word().to_owned(),
        goal: None,
        output: None,
        action: None,
        kind: None,
        message: Some("the process was killed".to_owned()),
    };
    let event = Event { v: EVENT_VERSION, seq: row.lines + 1, at, process: process.to_owned(), what };
    let record = Record::Ended { status, goal: None, action: None, failure: None };
    let lines = [
        ("record", serde_json::to_string(&record).unwrap_or_default()),
        ("event", serde_json::to_string(&event).unwrap_or_default()),
    ];
    let lines = lines.map(|(kind, body)| store::Line { kind, body }).into();
    let row = Row { status: status.word().to_owned(), ..row };
    store.append(store::Batch { row, lines, context: None }).await?;
    store.release(process).await?;
    end_children(store, process).await
}

/// Ends the sub-processes of a process that has ended.
fn end_children<'a>(store: &'a Arc<dyn Store>, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
    async move {
        for child in store.children(process).await?.into_iter().filter(|child| !child.has_ended()) {
            end_stored(store, &child.process).await?;
        }
        Ok(())
    }
    .boxed()
}

/// What has to be compiled for a stored process: its file, or the agent that was put together for its goal.
///
/// # Errors
/// Whatever the store says, and a journal that cannot be read.
pub async fn stored_entry(store: &dyn Store, row: &Row) -> Result<Entry, StoreError> {
    let first = store.lines(&row.process, "record").await?.into_iter().next();
    let created: Option<Record> = first
        .as_deref()
        .map(serde_json::from_str)
        .transpose()
        .map_err(|error| StoreError::Failed(format!("the journal of {}, record 1: {error}", row.process)))?;
    let settings = match created {
        Some(Record::Created(created)) => serde_json::from_value(created.settings).unwrap_or_default(),
        _ => Settings::default(),
    };
    Ok(match settings.open {
        Some((agent, goal)) => Entry::Open { agent, goal },
        None => Entry::File(row.target.clone().into()),
    })
}

fn spent(row: &Row) -> Spent {
    serde_json::from_str(&row.used).unwrap_or_default()
}

impl Engine {
    /// The same engine with a store: processes that are started from now on are kept there. It has one store for good.
    pub fn with_store(self, store: Arc<dyn Store>) -> Engine {
        self.inner().store.get_or_init(|| store);
        self
    }

    /// The store.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        self.inner().store.get().cloned()
    }

    /// A process of the store, as it was left, in this program's hands from then on. What the run had set holds, where
    /// the options say nothing else. [`Process::run`] goes on with it; one that waits wants [`Process::answer`] first.
    ///
    /// # Errors
    /// Why it cannot go on; it is as it was then.
    pub async fn resume(&self, id: &str, options: RunOptions) -> Result<Process, ResumeError> {
        let unknown = || ResumeError::Store(StoreError::Unknown(id.to_owned()));
        let store = self.store().ok_or_else(unknown)?;
        let row = store.row(id).await?.ok_or_else(unknown)?;
        if let Some(parent) = row.parent {
            return Err(ResumeError::Belongs { process: row.process, parent });
        }
        if row.has_ended() {
            return Err(ResumeError::Ended { process: row.process, status: row.status });
        }
        store.claim(id).await?;
        let process = self.restored(&store, id, options).await;
        if process.is_err() {
            store.release(id).await?;
        }
        process
    }

    async fn restored(&self, store: &Arc<dyn Store>, id: &str, options: RunOptions) -> Result<Process, ResumeError> {
        let wrong = |why: RestoreError| ResumeError::Restore { process: id.to_owned(), why };
        // Only now: another program may have gone on with it until the lease was ours.
        let Some(left) = left(&**store, id).await? else {
            return Err(StoreError::Unknown(id.to_owned()).into());
        };
        if !matches!(left.head.status, Status::NotStarted | Status::Running | Status::Waiting | Status::Paused) {
            let status = left.head.status.word().to_owned();
            return Err(ResumeError::Ended { process: id.to_owned(), status });
        }
        let created = left.created().map_err(wrong)?;
        let settings: Settings = serde_json::from_value(created.settings.clone()).unwrap_or_default();
        let agent = self.agent(Some(&created.agent))?;
        let unsupported = self.unsupported(&agent);
        if !unsupported.is_empty() {
            return Err(StartError::Unsupported(unsupported).into());
        }
        let mut options = settings.under(options);
        let (past, is_known) = (past(&**store, id).await?, !self.inner().is_new(id));
        if let Some(script) = options.script.take() {
            let script = Scripted::new(script);
            script.recall(&past);
            options.model = Some(Arc::new(script));
        }
        if !is_known {
            self.inner().recall(&past);
        }
        let core = self.core_of(&agent, options, Some((id.to_owned(), left.spent())))?;
        Process::restore(core, left).map_err(wrong)
    }

    /// The objects that a context holds, as far as they fit the agent.
    pub(super) fn context_objects(&self, agent: &Agent, context: &str) -> Result<Vec<super::run::Given>, StartError> {
        let Some(store) = self.store() else {
            return Err(StartError::BadOption("a context needs the store; leave `--no-store` out".to_owned()));
        };
        let kept = futures::executor::block_on(store.context(context))
            .map_err(|error| StartError::BadOption(error.to_string()))?;
        let given = kept.into_iter().filter_map(|object| {
            let id = agent.types.id(&object.type_name)?;
            let value = super::inputs::validate(agent, id, object.value).ok()?;
            Some(super::run::Given { type_id: value.type_id.unwrap_or(id), name: object.name, value: value.value })
        });
        Ok(given.collect())
    }

    /// Gives the store notice of a new process: what is too old goes, and another program may end it.
    pub(super) fn registered(&self, core: &Core) {
        let Some(store) = self.store() else { return };
        self.inner().is_new(&core.id);
        let kill = core.kill.clone();
        store.on_asked_to_end(&core.id, Box::new(move || kill.kill()));
        let program = self.program();
        let written = program.project.as_ref().and_then(|project| project.store.as_ref());
        let keep = written.and_then(|store| store.keep).map_or(KEEP, |keep| u64::from(keep.get()));
        // Looking for what is too old costs more than a start does.
        if !self.current.starts().is_multiple_of(keep.max(PRUNE_EVERY)) {
            return;
        }
        // It is done some time; nothing hangs on it. There is room for the new one, then.
        drop(store.prune(keep.saturating_sub(1)));
    }

    pub(super) fn ledger(limits: crate::program::Limits, spent: Option<Spent>) -> Ledger {
        Ledger::again(limits, None, spent.unwrap_or_default())
    }
}
