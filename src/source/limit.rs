//! Bounds on what a file may hold (runtime.md 7). Every reader checks them before it builds anything large.

/// The largest file that is read, in bytes.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The deepest nesting of lists and mappings.
pub const DEPTH_MAX: usize = 64;

/// The most nodes that a file may hold, counted after aliases are expanded.
pub const NODES_MAX: usize = 1_000_000;

/// The most errors that are reported for one file; a file with more is not a slip of the pen.
pub const ERRORS_MAX: usize = 100;
