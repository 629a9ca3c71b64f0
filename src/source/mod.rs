//! Text to a located tree: files, spans, line indexes, and the YAML and TOML readers.
