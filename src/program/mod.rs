//! The immutable compiled artefact that processes run on.
