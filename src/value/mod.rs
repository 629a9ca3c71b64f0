//! Types of the domain: their table, their JSON Schemas, validation and samples.
