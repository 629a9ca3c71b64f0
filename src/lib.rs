//! agent-run: a declarative, config-driven agent engine.
//!
//! Modules in reading order, lowest layer first; `src/ARCHITECTURE.md` says who may import whom.

pub mod source;
pub mod diag;
pub mod world;
pub mod planning;
pub mod value;
pub mod decl;
pub mod prompt;
pub mod llm;
pub mod tool;
pub mod reference;
pub mod action;
pub mod program;
pub mod compile;
pub mod process;
pub mod store;
pub mod engine;
pub mod testing;
pub mod cli;
