//! Where journals, contexts and artifacts are kept.
