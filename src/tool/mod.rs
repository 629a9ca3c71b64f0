//! Tools that actions and models call.
//!
//! A tool's body is one of the action bodies of [`BODIES`], seen with the arguments as its variables, or one of the
//! kinds that only tools have, one file per kind. To let tools have another action body: one word in [`BODIES`].

use std::sync::Arc;
use std::time::Duration;

use crate::action::{Body, Needs};
use crate::prompt::{ExprId, TemplateId};
use crate::value::{ObjectDef, TypeId};

/// The action bodies that a tool may have (language.md 8).
pub const BODIES: &[&str] = &["set", "http", "exec", "call", "agent", "prompt"];

/// A tool, resolved: what a model is told of it, and how it is called.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// Its parameters; arguments are validated against them and defaulted.
    pub parameters: ObjectDef,
    /// Its output is the author's or operator's word.
    pub trusted: bool,
    /// A person must agree: when, question.
    pub confirm: Option<(Option<ExprId>, Option<TemplateId>)>,
    /// Offered only while such objects are on the blackboard.
    pub requires: Vec<TypeId>,
    /// The result is validated as this type and goes on the blackboard too.
    pub publish: Option<TypeId>,
    /// Safe to repeat after a crash.
    pub idempotent: bool,
    /// How long a call may take.
    pub timeout: Duration,
    /// What a call does; its strings see the arguments as variables. `None`: a kind that this version reads and
    /// checks but cannot call.
    pub body: Option<Arc<dyn Body>>,
}

impl Tool {
    /// What calling it touches.
    pub fn needs(&self) -> Needs {
        self.body.as_ref().map(|body| body.needs()).unwrap_or_default()
    }
}
