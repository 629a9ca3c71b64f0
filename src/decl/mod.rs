//! What the author wrote, typed and located.
