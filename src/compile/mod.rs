//! From files to a program: load, resolve, check, lower.
