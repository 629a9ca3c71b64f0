//! Tools that actions and models call; one file per kind.
