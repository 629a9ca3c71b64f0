//! The journal of a process: what is kept of it, so that it can be rebuilt (runtime.md 5).
//!
//! A journal has two kinds of lines. [`Event`]s say what happened, for people and other programs. [`Record`]s hold what
//! the events leave out and a rebuild needs; a process is rebuilt by folding its records alone
//! ([`Process::restore`](super::Process::restore)). Lines that are put down between two steps are kept together or not
//! at all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::{Failure, FailureKind};
use crate::llm::Message;

use super::blackboard::Bound;
use super::context::CallLog;
use super::document::{LlmNote, ToolNote};
use super::event::Event;
use super::ledger::{Before, Used};
use super::steps::{Done, Pending};

/// The version of records; it grows when a reader of the older form could be misled.
pub const RECORD_VERSION: u32 = 1;

/// What a rebuild needs to know. Types, actions and conditions go by name, because a workflow may have changed meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The process exists.
    Created(Created),
    /// What a person had said passed the guardrails, and what came after it is there too.
    Received {
        /// The objects, as they passed.
        given: Vec<ObjectRecord>,
    },
    /// Actions were started.
    Started {
        /// The actions.
        flights: Vec<StartedFlight>,
        /// The steps of the plan, when it differs from the rest of the one before.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        plan: Option<Vec<String>>,
        /// Where planning stood.
        round: Round,
    },
    /// A step was completed.
    Step {
        /// Its path.
        path: String,
        /// What came of it.
        done: DoneRecord,
    },
    /// A step begins that must not be repeated without a person's word.
    Begun {
        /// Its path.
        path: String,
    },
    /// A step that was begun has done nothing yet.
    Withdrawn {
        /// Its path.
        path: String,
    },
    /// A step has started a sub-process.
    Child {
        /// The step's path.
        path: String,
        /// The sub-process's id.
        process: String,
    },
    /// An action has ended.
    Performed(PerformedRecord),
    /// A condition was asked of a model.
    Asked {
        /// The condition.
        condition: String,
        /// The objects that it was asked about.
        bound: Vec<BoundRecord>,
        /// The answer; none for unknown.
        holds: Option<bool>,
        /// Where planning stood.
        round: Round,
    },
    /// A supervisor has said something, or was told something.
    Supervised {
        /// What joins the conversation.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        said: Vec<Message>,
        /// Objects that it gave as arguments.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        given: Vec<super::supervisor::GivenRecord>,
        /// Where it stands.
        stand: Box<super::supervisor::Stand>,
    },
    /// A chat has said its greeting.
    Greeted {
        /// The text.
        content: String,
    },
    /// A chat has taken in a message.
    Heard {
        /// The `UserMessage`.
        message: Value,
        /// What was used before it: limits count from there. Journals of earlier versions do not say.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        before: Option<Before>,
    },
    /// Nothing is left to do for a chat's message.
    MessageDone,
    /// A person has to answer.
    Waiting {
        /// The question.
        pending: Box<Pending>,
    },
    /// The process has taken a changed program (runtime.md 6).
    Adopted {
        /// The shape of the changed agent; numbers are of its tables from here on.
        shape: String,
        /// Objects that fit their types no more.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        hidden: Vec<usize>,
        /// Objects that the changed types gave another form, such as a default.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        filled: Vec<(usize, Value)>,
        /// Actions that had failed for good and may be tried again.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        cured: Vec<String>,
    },
    /// A wait is over.
    Resumed,
    /// The process has ended.
    Ended {
        /// Its status.
        status: super::Status,
        /// The goal that was reached.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        goal: Option<String>,
        /// The action that failed.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        action: Option<String>,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        failure: Option<Failure>,
    },
}

/// What a process was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// [`RECORD_VERSION`].
    pub v: u32,
    /// The agent.
    pub agent: String,
    /// What the order of actions, facts and types depends on.
    pub shape: String,
    /// How many processes it stands in.
    pub depth: u64,
    /// The one goal to reach.
    pub goal: Option<String>,
    /// The type of the result.
    pub returns: Option<String>,
    /// The planner, instead of the agent's.
    pub planner: Option<String>,
    /// Objects that it starts from.
    pub given: Vec<ObjectRecord>,
    /// What the program around it has set, in its own words.
    pub settings: Value,
}

/// An object by its type's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// The type; none where the output's own is meant.
    pub r#type: Option<String>,
    /// The name it is bound under.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Its value.
    pub value: Value,
}

/// An action that was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedFlight {
    /// The action.
    pub action: String,
    /// Which start of it this is.
    pub start: u32,
    /// When.
    pub at: jiff::Timestamp,
    /// What its inputs are bound to, where that was settled before it began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<Vec<BoundRecord>>,
}

/// Where planning stood when something was done: numbers are those of the agent's own tables, and hold as long as the
/// agent has the shape of [`Created::shape`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// What is left of the plan, as operators.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rest: Vec<usize>,
    /// What the steps are to bring: operator, fact, value.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub expected: Vec<(usize, u32, bool)>,
    /// Effects that did not come: operator, fact, changes, whether the inputs are new.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub disappointments: Vec<(usize, u32, u64, bool)>,
    /// Actions that were tried because there was no plan, by name.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tried: Vec<String>,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoneRecord {
    /// The value; none when it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<Value>,
    /// The failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Failure>,
    /// What it left behind.
    #[serde(flatten)]
    pub log: LogRecord,
}

/// What calls left behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogRecord {
    /// Calls to models.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub llm: Vec<LlmNote>,
    /// Calls to tools.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tools: Vec<ToolNote>,
    /// Objects that tools published.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub published: Vec<ObjectRecord>,
}

/// An action that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerformedRecord {
    /// The action.
    pub action: String,
    /// What its inputs were bound to.
    pub bound: Vec<BoundRecord>,
    /// The objects it gave; none when it failed for good.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub objects: Option<Vec<ObjectRecord>>,
    /// The failure for good.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Failure>,
    /// The failure that `on_error` made good.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recovered_from: Option<Failure>,
    /// Tries.
    pub attempts: u32,
    /// When it began.
    pub started_at: String,
    /// How long it took.
    pub ms: u64,
    /// What its calls left behind.
    #[serde(flatten)]
    pub log: LogRecord,
}

/// What an input was bound to: a position, a list of them, or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BoundRecord {
    /// One object.
    One(usize),
    /// All of them.
    All(Vec<usize>),
    /// An optional input without an object.
    Absent,
}

impl From<&Bound> for BoundRecord {
    fn from(bound: &Bound) -> BoundRecord {
        match bound {
            Bound::One(at) => BoundRecord::One(*at),
            Bound::All(all) => BoundRecord::All(all.clone()),
            Bound::Absent => BoundRecord::Absent,
        }
    }
}

impl From<BoundRecord> for Bound {
    fn from(bound: BoundRecord) -> Bound {
        match bound {
            BoundRecord::One(at) => Bound::One(at),
            BoundRecord::All(all) => Bound::All(all),
            BoundRecord::Absent => Bound::Absent,
        }
    }
}

impl DoneRecord {
    /// A step's record; `type_name` names types.
    pub(super) fn new(done: &Done, type_name: impl Fn(crate::value::TypeId) -> String) -> DoneRecord {
        DoneRecord {
            value: done.result.as_ref().ok().cloned(),
            failure: done.result.as_ref().err().cloned(),
            log: LogRecord::new(&done.log, type_name),
        }
    }
}

impl LogRecord {
    /// A log's record; `type_name` names types.
    pub(super) fn new(log: &CallLog, type_name: impl Fn(crate::value::TypeId) -> String) -> LogRecord {
        let object = |(id, value): &(crate::value::TypeId, Value)| ObjectRecord {
            r#type: Some(type_name(*id)),
            name: None,
            value: value.clone(),
        };
        LogRecord {
            llm: log.llm.clone(),
            tools: log.tools.clone(),
            published: log.published.iter().map(object).collect(),
        }
    }
}

/// One line of a journal.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// What happened.
    Event(Box<Event>),
    /// What a rebuild needs.
    Record(Box<Record>),
}

/// What is known of a process without its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Its id.
    pub process: String,
    /// The process it belongs to.
    pub parent: Option<String>,
    /// The agent.
    pub agent: String,
    /// Its status.
    pub status: super::Status,
    /// The goal, once it is reached or planned for.
    pub goal: Option<String>,
    /// When it was created, RFC 3339.
    pub started_at: String,
    /// Now, RFC 3339.
    pub updated_at: String,
    /// What it has used.
    pub spent: Spent,
    /// Lines that were kept before.
    pub lines: u64,
}

/// What a process has used, so that its account can be opened again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The process itself.
    pub own: Used,
    /// Its sub-processes too.
    pub total: Used,
    /// How long it was at work.
    pub time: Duration,
}

/// Lines of a process that are kept together or not at all.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The process from then on.
    pub head: Head,
    /// The lines, in order.
    pub lines: Vec<Line>,
    /// The objects that its context holds from then on, when it has ended.
    pub keeps: Option<Vec<ObjectRecord>>,
}

/// Where a process was left.
#[derive(Clone, Debug)]
pub struct Left {
    /// What was known of it.
    pub head: Head,
    /// Its records, oldest first.
    pub records: Vec<Record>,
    /// What its sub-processes have used.
    pub children: Used,
}

/// Keeps the journals of processes; `engine` puts a store behind it.
pub trait Journal: Send + Sync {
    /// Takes a batch at once, in order; the future says when it is durable. It need not be waited for.
    fn append(&self, batch: Batch) -> BoxFuture<'static, Result<(), String>>;

    /// Where a process was left; `None` when there is none of this id.
    fn left<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Option<Left>, String>>;
}

/// The journal of one process: lines that are yet to be handed on, and how many were.
#[derive(Default)]
pub(super) struct Pen {
    inner: Mutex<PenInner>,
}

#[derive(Default)]
struct PenInner {
    lines: Vec<Line>,
    handed_on: u64,
    keeps: Option<Vec<ObjectRecord>>,
}

impl Pen {
    /// A pen that goes on after so many lines.
    pub(super) fn after(lines: u64) -> Pen {
        Pen { inner: Mutex::new(PenInner { handed_on: lines, ..PenInner::default() }) }
    }

    pub(super) fn put(&self, line: Line) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).lines.push(line);
    }

    pub(super) fn keep(&self, objects: Vec<ObjectRecord>) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).keeps = Some(objects);
    }

    /// Hands the lines on that there are, with the head that `head` makes of the number of those before.
    pub(super) fn hand_on(
        &self,
        journal: &Arc<dyn Journal>,
        head: impl FnOnce(u64) -> Head,
    ) -> Option<BoxFuture<'static, Result<(), String>>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.lines.is_empty() {
            return None;
        }
        let lines = std::mem::take(&mut inner.lines);
        let head = head(inner.handed_on);
        inner.handed_on += lines.len() as u64;
        let keeps = inner.keeps.take();
        // Under the lock, so that batches come in the order of their lines.
        Some(journal.append(Batch { head, lines, keeps }))
    }
}

/// The failure of a process whose journal cannot be kept: it stops, and what was kept stays.
pub(super) fn not_kept(why: String) -> Failure {
    Failure::new(FailureKind::Store, why)
}
