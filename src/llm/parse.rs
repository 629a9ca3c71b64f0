//! Finding the JSON in a reply (runtime.md 4): fences and prose around it are tolerated, repair only where it is unambiguous.
//!
//! The order of tries, the first that gives a value wins: the whole text; the content of the last fence that parses; the
//! one object or array that the prose holds. What is repaired: a comma before `}` or `]`. Nothing else: quotes of another
//! kind, missing brackets and comments could mean several things, so the model is asked again instead.

use serde_json::Value;

/// The longest reply that is read (runtime.md 7).
pub const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why no value was found, in words that the model can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The reply has no text.
    #[error("the reply is empty; expected JSON")]
    Empty,
    /// The reply is too long.
    #[error("the reply has {bytes} bytes; at most 16 MiB are read")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// No JSON in it.
    #[error("the reply is not valid JSON: {message}")]
    Invalid {
        /// The parser's complaint about the best candidate, with its line and column.
        message: String,
    },
    /// Several values, and nothing says which is meant.
    #[error("the reply holds {count} JSON values; expected exactly one")]
    Ambiguous {
        /// How many.
        count: usize,
    },
}

/// Returns the one JSON value that `text` holds.
pub fn parse_reply_json(text: &str) -> Result<Value, ParseError> {
    if text.len() > REPLY_BYTES_MAX {
        return Err(ParseError::TooLarge { bytes: text.len() });
    }
    let trimmed = text.trim().trim_start_matches('\u{feff}');
    if trimmed.is_empty() {
        return Err(ParseError::Empty);
    }
    serde_json::from_str(trimmed).map_err(|error| ParseError::Invalid { message: error.to_string() })
}
