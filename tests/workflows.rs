//! The shipped examples.
