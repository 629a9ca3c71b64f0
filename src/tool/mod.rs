//! Tools that actions and models call.
//!
//! A tool's body is one of the action bodies of [`BODIES`], seen with the arguments as its variables, or one of the
//! kinds that only tools have, one file per kind. To let tools have another action body: one word in [`BODIES`].

pub mod agentic;
pub mod artifact;
pub mod builtin;
pub mod envelope;
pub mod group;
pub mod handoff;
pub mod mcp;
pub mod narrow;
pub mod offer;
pub mod picture;
pub mod unfold;

use std::sync::Arc;
use std::time::Duration;

use crate::action::{Body, Needs};
pub use crate::decl::tools::{OnCollision, Returns};
use crate::prompt::{ExprId, TemplateId};
use crate::value::{ObjectDef, RawSchema, TypeId};

use unfold::Unfold;

/// The action bodies that a tool may have (language.md 8).
pub const BODIES: &[&str] = &["set", "http", "exec", "call", "agent", "prompt"];

/// Bytes of a result over which it is kept as an artifact, unless a tool says otherwise.
pub const SPOOL_OVER: u64 = 8 * 1024;

/// How long a call may take, unless a tool says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// When a person must agree to a call, and what they are asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Confirm {
    /// Asked only when this holds.
    pub when: Option<ExprId>,
    /// The question; without one the call itself is shown.
    pub ask: Option<TemplateId>,
}

/// A tool, resolved: what a model is told of it, and how it is called. Make one with [`Tool::new`].
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The description as a template, where it is one; rendered anew for each interaction.
    pub description_template: Option<TemplateId>,
    /// Its parameters; arguments are validated against them and defaulted.
    pub parameters: ObjectDef,
    /// The JSON Schema of its parameters as its server gave it: sent as it is, and arguments are validated against it
    /// instead of [`Tool::parameters`], which then only says what is known of it.
    pub schema: Option<Arc<RawSchema>>,
    /// How a long result can be queried.
    pub returns: Returns,
    /// Its output is the author's or operator's word.
    pub trusted: bool,
    /// A person must agree first.
    pub confirm: Option<Confirm>,
    /// Offered only while such objects are on the blackboard.
    pub requires: Vec<TypeId>,
    /// The result is validated as this type and goes on the blackboard too.
    pub publish: Option<TypeId>,
    /// The loop ends and the process plans again when this holds of `result`.
    pub replan: Option<ExprId>,
    /// The result ends the model's turn.
    pub return_direct: bool,
    /// Callable once in an interaction.
    pub once: bool,
    /// Safe to repeat after a crash.
    pub idempotent: bool,
    /// How long a call may take.
    pub timeout: Duration,
    /// Results over so many bytes are kept as artifacts.
    pub spool_over: u64,
    /// Which of two tools of one name is offered.
    pub on_collision: OnCollision,
    /// What a call does; its strings see the arguments as variables, and [`Context::arguments`] has them as JSON.
    /// `None`: a facade, or a tool that the conversation itself answers.
    ///
    /// [`Context::arguments`]: crate::action::Context::arguments
    pub body: Option<Arc<dyn Body>>,
    /// What a call reveals instead of performing a body.
    pub unfold: Option<Arc<Unfold>>,
    /// What a call leaves to be called.
    pub narrows: Option<Arc<narrow::Narrowing>>,
    /// The server's tool behind it, where its own schema stands for parameters that are not declared.
    pub described_by: Option<mcp::ServerBody>,
}

impl Tool {
    /// A tool with the defaults of language.md 8.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: ObjectDef,
        body: Option<Arc<dyn Body>>,
    ) -> Tool {
        Tool {
            name: name.into(),
            description: description.into(),
            description_template: None,
            parameters,
            schema: None,
            returns: Returns::Text,
            trusted: false,
            confirm: None,
            requires: Vec::new(),
            publish: None,
            replan: None,
            return_direct: false,
            once: false,
            idempotent: true,
            timeout: TIMEOUT,
            spool_over: SPOOL_OVER,
            on_collision: OnCollision::Throw,
            body,
            unfold: None,
            narrows: None,
            described_by: None,
        }
    }

    /// What calling it touches.
    pub fn needs(&self) -> Needs {
        self.body.as_ref().map(|body| body.needs()).unwrap_or_default()
    }
}
