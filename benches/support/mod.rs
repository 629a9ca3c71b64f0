//! What the benches share: a large project made up, and a fast model server on loopback.
#![allow(dead_code, reason = "each bench uses its part of it")]

pub(crate) mod project;
pub(crate) mod server;

use std::path::Path;

/// The root of this repository, which is a project of its own.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What star-news is asked in every measurement.
pub(crate) const QUESTION: &str = "Lynda is a Scorpio, find news for her";
