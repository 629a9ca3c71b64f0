//! `domain FILE`: the compiled planning domain.

use crate::compile::domain_json;

use super::args::{DomainArgs, DomainFormat, Global};
use super::loaded::{Clock, Outcome, load};
use super::{Exit, Fault, Out};

/// Prints the domain.
pub(super) fn domain(args: &DomainArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let loaded = match load(&args.target, Clock::default(), None, global, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    match args.format {
        DomainFormat::Json => out.document(&domain_json::document(&loaded.agent)),
    }
    Ok(Exit::Done)
}
