//! Diagnostics: one structure, a table of codes, suggestions, and renderers.
