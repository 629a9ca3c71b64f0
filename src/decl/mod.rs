//! What the author wrote, typed and located.
//!
//! [`read::Read`] says how a declaration is read from a located tree; [`record!`](crate::record) declares a mapping once and gives
//! the struct, its reader and its JSON Schema. Names are not resolved here: that is `compile`'s work.

pub mod basic;
pub mod body;
pub mod models;
pub mod module;
pub mod read;
pub mod record;
pub mod test_file;
pub mod theme;
pub mod tools;
pub mod types;
pub mod workflow;

pub use basic::{Count, Data, Duration, Expr, Json, List, Name, Place, Table, Template};
pub use body::{ACTION_BODIES, BodyNode, TOOL_BODIES};
pub use module::Module;
pub use read::{Defs, Read, ReadCx};
