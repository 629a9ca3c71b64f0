//! `schema KIND`: the JSON Schema of a kind of file, for editors.

use super::args::SchemaArgs;
use super::{Exit, Fault, Out};

/// Prints the schema.
pub(super) fn schema(args: &SchemaArgs, out: &Out) -> Result<Exit, Fault> {
    out.document(&crate::compile::schema::published(args.kind.word()));
    Ok(Exit::Done)
}
