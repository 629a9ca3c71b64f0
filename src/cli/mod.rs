//! The command line: flags and formats only.
