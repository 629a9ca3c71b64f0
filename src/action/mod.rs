//! Action bodies; one file per kind.
