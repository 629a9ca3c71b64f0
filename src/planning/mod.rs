//! The planner: pure, synchronous and deterministic; it knows nothing of models, files or async.
