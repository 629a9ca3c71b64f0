//! Action bodies; one file per kind.
//!
//! A kind reads what the author wrote ([`ActionKind::read`]), which lowers itself against the declarations around it
//! ([`Written::lower`]) to a [`Body`] that a process performs. To add a kind: one file, one line in [`KINDS`], one word
//! in [`crate::decl::ACTION_BODIES`].

pub mod context;
pub mod lower;

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use crate::decl::{Defs, ReadCx};
use crate::source::Node;

pub use context::{Context, Failure, FailureKind};
pub use lower::{LowerCx, Needs};

/// One kind of body an action may have, such as `http`.
pub trait ActionKind: Sync {
    /// The key under which it is written.
    fn name(&self) -> &'static str;
    /// One sentence; shown in help, schema and reference.
    fn summary(&self) -> &'static str;
    /// An action in YAML (the mapping under its name) that compiles without findings beside `inputs: UserInput` and
    /// `output: Story`.
    fn example(&self) -> &'static str;
    /// The JSON Schema of what is written under the key.
    fn schema(&self, defs: &mut Defs) -> Value;
    /// Reads the declaration. Reports into `cx`; never fails as a whole.
    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>>;
}

/// A body as written: typed and located, its names not resolved.
pub trait Written: Debug + Send + Sync {
    /// Checks it against the declarations around it and resolves its strings and names. Reports into `cx`.
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>>;
}

/// A body that can be performed. It is immutable and shared by all processes of a program.
#[async_trait::async_trait]
pub trait Body: Debug + Send + Sync {
    /// The kind's name.
    fn kind(&self) -> &'static str;

    /// What performing it touches beside models: permissions and endpoints, for `plan -v` (runtime.md 8).
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Performs it once. The value is what the action outputs, not yet validated against the output type; null is
    /// "nothing came".
    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure>;

    /// The call to a model that performing it would make first, for `render`; `None` for a body that asks no model.
    fn prompt(&self, _cx: &dyn Context) -> Result<Option<context::PromptCall>, Failure> {
        Ok(None)
    }
}
