//! What the benches share: a large project made up, a fast model server on loopback, engines, what was used.
#![allow(dead_code, reason = "each bench uses its part of it")]

pub(crate) mod project;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod usage;

use std::path::Path;

/// That of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The root of this repository, which is a project of its own.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What star-news is asked in every measurement.
pub(crate) const QUESTION: &str = "Lynda is a Scorpio, find news for her";
