//! The program's surface: exit codes, documents, flags (cli.md).
