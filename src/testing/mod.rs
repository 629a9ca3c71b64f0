//! Test files, stubs, snapshots and recordings.
