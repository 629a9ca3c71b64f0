//! Why a call of a model failed.

use std::time::Duration;

/// A failed call. The message is for the author, redacted and bounded; the kind decides what happens next.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct LlmError {
    /// What kind of failure it is.
    pub kind: LlmErrorKind,
    /// One line that names the provider, what happened and the likely cure.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlmErrorKind {
    /// The provider answered with this HTTP status, which has no kind of its own here.
    Status {
        /// The status.
        code: u16,
    },
    /// Too many calls (429).
    RateLimited,
    /// The key is missing, wrong or lacks a right (401, 403).
    Auth,
    /// The provider refuses the request as it is (400, 404, 413, 422): asking again cannot help.
    BadRequest,
    /// No answer in time.
    Timeout,
    /// No connection, or it broke.
    Transport,
    /// The reply is over 16 MiB.
    TooLarge,
    /// The provider answered something that its protocol does not know.
    Protocol,
    /// The script has no rule for the request.
    NoRule,
}

impl LlmError {
    /// An error without a wait.
    pub fn new(kind: LlmErrorKind, message: impl Into<String>) -> LlmError {
        LlmError { kind, message: message.into(), retry_after: None }
    }

    /// Whether the same call may succeed later: 429, 408, 409, 5xx, time limits and broken connections.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            LlmErrorKind::RateLimited | LlmErrorKind::Timeout | LlmErrorKind::Transport => true,
            LlmErrorKind::Status { code } => code >= 500 || code == 408 || code == 409,
            LlmErrorKind::Auth
            | LlmErrorKind::BadRequest
            | LlmErrorKind::TooLarge
            | LlmErrorKind::Protocol
            | LlmErrorKind::NoRule => false,
        }
    }

    /// The kind that an HTTP status means.
    pub(crate) fn kind_of_status(code: u16) -> LlmErrorKind {
        match code {
            429 => LlmErrorKind::RateLimited,
            401 | 403 => LlmErrorKind::Auth,
            400 | 404 | 405 | 413 | 422 => LlmErrorKind::BadRequest,
            _ => LlmErrorKind::Status { code },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_passing_failures_are_retryable() {
        let retryable = |code| LlmError::new(LlmError::kind_of_status(code), "").is_retryable();
        let of = [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529].map(retryable);
        assert_eq!(of, [false, false, false, false, true, true, false, false, true, true, true, true, true]);
        assert!(LlmError::new(LlmErrorKind::Transport, "").is_retryable());
        assert!(!LlmError::new(LlmErrorKind::TooLarge, "").is_retryable());
    }
}
