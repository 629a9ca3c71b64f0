//! An agent process: its blackboard, and the loop that observes, plans and acts until a goal holds (runtime.md 3, 4).
//!
//! A [`Process`] owns its state and is driven by one task; what actions under way share with it (host, account, events)
//! is in [`core::Core`]. Nothing here knows files or formats: [`host::Host`] is the program around it, [`event::Event`]
//! what it tells, [`document::Document`] what it shows.

pub mod blackboard;
pub mod context;
pub mod core;
pub mod decide;
pub mod document;
pub mod event;
pub mod facts;
pub mod host;
pub mod index;
pub mod journal;
pub mod kill;
pub mod ledger;
pub mod llm_call;
pub mod run;
pub mod scope;
pub mod steps;

mod act;
mod adopt;
mod chat;
mod ask;
mod guard;
mod person;
mod receive;
mod record;
pub mod references;
mod resume;
mod rules;
pub mod tool_loop;
mod tool_offer;
mod states;
mod stuck;
pub mod supervisor;
mod supervisor_tools;
mod told;
pub mod trace;
mod view;
mod wait;

pub use self::core::Core;
pub use blackboard::{Blackboard, Bound};
pub use context::ActionContext;
pub use document::{Document, Status};
pub use event::{Event, NoLongerFits, What};
pub use host::{Host, Newer, Observer, Refused, ReloadPolicy, RunSettings, Stubs, WrapLlm};
pub use index::AgentIndex;
pub use kill::Kill;
pub use ledger::{Ledger, Used};
pub use resume::RestoreError;
pub use run::{Given, Process, Start};
pub use scope::{Marks, Scope};
pub use steps::{Path, Pending};
pub use wait::AnswerError;
