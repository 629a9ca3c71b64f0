//! References: material that is offered to a model; one file per kind.

pub mod skill;
