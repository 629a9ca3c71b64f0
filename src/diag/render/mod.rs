//! Renderers: one file a format.

mod human;
mod json;
mod short;

pub use human::{Options, human};
pub use json::json;
pub use short::short;
