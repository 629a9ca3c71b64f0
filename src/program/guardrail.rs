//! Guardrails: what is looked at on the way to and from models, and what happens then (language.md 10).

use std::sync::Arc;

use regex::Regex;

use crate::action::context::CallSettings;
pub use crate::decl::module::{GuardrailAction, GuardrailCheck};
use crate::prompt::{ExprId, TemplateId};
use crate::value::RawSchema;

/// One compiled guardrail. Those of an agent stand in its table; no two share a name.
#[derive(Debug)]
pub struct Guardrail {
    /// Its name.
    pub name: String,
    /// What it looks at.
    pub checks: Vec<GuardrailCheck>,
    /// What it decides by; one that only instructs has none.
    pub decider: Option<Decider>,
    /// What happens to what it objects to.
    pub action: GuardrailAction,
    /// Text for the system message.
    pub instruct: Option<TemplateId>,
    /// Whether it holds only for actions that name it.
    pub named: bool,
}

/// What a guardrail decides by.
#[derive(Debug)]
pub enum Decider {
    /// It objects to what matches.
    Pattern(Regex),
    /// It objects unless this holds.
    Expr(ExprId),
    /// A model says whether the rule is kept.
    Judge {
        /// The rule; it may show the text itself.
        rule: TemplateId,
        /// Whether the rule shows what is judged.
        shows: bool,
        /// Which model is asked, and how.
        settings: Arc<CallSettings>,
    },
    /// It objects to what does not fit.
    Schema(Box<RawSchema>),
}

impl Guardrail {
    /// Whether it decides something about this.
    pub fn looks_at(&self, check: GuardrailCheck) -> bool {
        self.decider.is_some() && self.checks.contains(&check)
    }
}
