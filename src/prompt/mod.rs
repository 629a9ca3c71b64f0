//! Templates and expressions: rendering, evaluation and the static type check.
