//! Seeded mistakes.
