//! Text that must never be shown: keys and header values.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// What stands wherever a secret would be shown.
pub(crate) const REDACTED: &str = "[redacted]";

/// A secret value. `Debug`, `Display` and serialisation print `[redacted]`; only [`Secret::expose`] gives the text.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`; surrounding whitespace (a newline from a file or `echo`) is removed.
    pub fn new(value: impl Into<String>) -> Secret {
        let value: String = value.into();
        Secret(value.trim().to_string())
    }

    /// Returns the text itself, for the wire only.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Replaces every occurrence of this secret in `text`; secrets of less than 6 bytes are too short to be told from words.
    pub fn redact(&self, text: &str) -> String {
        if self.0.len() < 6 { text.to_string() } else { text.replace(&self.0, REDACTED) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_shows_itself() {
        let secret = Secret::new("sk-abc123456\n");
        assert_eq!(format!("{secret:?} {secret}"), "[redacted] [redacted]");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"[redacted]\"");
        assert_eq!(secret.expose(), "sk-abc123456");
        assert_eq!(secret.redact("bad key sk-abc123456!"), "bad key [redacted]!");
        assert_eq!(Secret::new("a").redact("banana"), "banana");
    }
}
