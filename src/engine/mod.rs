//! The host of processes: the current program, models and policies.
