//! Models that failed a moment ago: while they cool down, their fallbacks are asked first.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use tokio::time::Instant;

use super::error::{LlmError, LlmErrorKind};

/// How long a model that failed is passed over, when its provider does not say.
const COOL_DOWN: Duration = Duration::from_secs(60);
/// The longest time, whatever the provider says.
const COOL_DOWN_MAX: Duration = Duration::from_secs(600);

/// Which models cool down, shared by all processes of an engine.
#[derive(Debug, Default)]
pub struct Cooldowns {
    until: Mutex<IndexMap<String, Instant>>,
}

impl Cooldowns {
    /// Whether `model` (`provider/id`) failed a moment ago.
    pub fn is_cooling(&self, model: &str) -> bool {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.get(model).is_some_and(|until| *until > Instant::now())
    }

    /// Notes that `model` failed for good, after its retries. What would fail for every model (a request that is wrong in
    /// itself, a script without a rule) says nothing about this one.
    pub fn failed(&self, model: &str, error: &LlmError) {
        if matches!(error.kind, LlmErrorKind::BadRequest | LlmErrorKind::NoRule | LlmErrorKind::TooLarge) {
            return;
        }
        let wait = error.retry_after.unwrap_or(COOL_DOWN).min(COOL_DOWN_MAX);
        self.until.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned(), Instant::now() + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_model_cools_down_for_as_long_as_its_provider_says() {
        let cooldowns = Cooldowns::default();
        let limited =
            LlmError { retry_after: Some(Duration::from_secs(90)), ..LlmError::new(LlmErrorKind::RateLimited, "") };
        cooldowns.failed("a/x", &limited);
        cooldowns.failed("a/y", &LlmError::new(LlmErrorKind::Transport, ""));
        cooldowns.failed("a/z", &LlmError::new(LlmErrorKind::BadRequest, ""));
        let cooling = || ["a/x", "a/y", "a/z"].map(|model| cooldowns.is_cooling(model));
        assert_eq!(cooling(), [true, true, false]);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(cooling(), [true, false, false]);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(cooling(), [false, false, false]);
    }
}
