//! Repeating calls that failed for a passing reason (runtime.md 3: retried at the provider).

use std::time::Duration;

use super::error::LlmError;
use super::provider::Llm;
use super::reply::{Delta, DeltaSink, Reply};
use super::request::Request;

/// How often and how long apart a failed call is repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// All tries, the first among them; 0 counts as 1.
    pub attempts: u32,
    /// The wait after the first failure.
    pub backoff: Duration,
    /// What the wait is multiplied by after each further failure.
    pub multiplier: f64,
    /// The longest wait of our own choice.
    pub backoff_max: Duration,
    /// The longest `Retry-After` that is honoured; one beyond it ends the tries at once.
    pub retry_after_max: Duration,
    /// The part of a wait that chance takes away, 0 to 1.
    pub jitter: f64,
    /// Seed of that chance, so that a run can be repeated exactly.
    pub seed: u64,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts: 4,
            backoff: Duration::from_millis(500),
            multiplier: 2.0,
            backoff_max: Duration::from_secs(30),
            retry_after_max: Duration::from_secs(120),
            jitter: 0.25,
            seed: 0,
        }
    }
}

impl RetryPolicy {
    /// The policy with `retries` repetitions after the first try (`llm: {retries: n}`).
    pub fn with_retries(self, retries: u32) -> RetryPolicy {
        RetryPolicy { attempts: retries.saturating_add(1), ..self }
    }

    /// The wait before try `attempt + 1`, after try `attempt` (from 1) failed with `error`; `None`: give up.
    pub fn wait(&self, attempt: u32, error: &LlmError) -> Option<Duration> {
        if attempt >= self.attempts || !error.is_retryable() {
            return None;
        }
        if let Some(asked) = error.retry_after {
            return (asked <= self.retry_after_max).then_some(asked);
        }
        let exponent = i32::try_from(attempt - 1).unwrap_or(i32::MAX);
        let seconds = self.backoff.as_secs_f64() * self.multiplier.max(1.0).powi(exponent);
        let seconds = seconds.min(self.backoff_max.as_secs_f64())
            * (1.0 - self.jitter.clamp(0.0, 1.0) * chance(self.seed, attempt));
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(self.backoff_max))
    }
}

/// A number from 0 up to 1 that depends on the seed and the attempt alone (splitmix64).
fn chance(seed: u64, attempt: u32) -> f64 {
    let mut z = seed.wrapping_add(u64::from(attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / (1_u64 << 53) as f64
}

/// Calls `llm`, repeating what may pass; `on_retry` hears of each failure that is followed by another try, with the wait.
///
/// When pieces of a failed try had reached the sink, [`Delta::Restart`] comes before the next ones. Returns the last
/// try's error. Waits run on tokio's clock.
pub async fn call_with_retries(
    llm: &dyn Llm,
    request: &Request,
    policy: &RetryPolicy,
    sink: &dyn DeltaSink,
    on_retry: &(dyn Fn(&LlmError, Duration) + Send + Sync),
) -> Result<Reply, LlmError> {
    let mut attempt = 1;
    loop {
        let error = match llm.call(request, sink).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        let Some(wait) = policy.wait(attempt, &error) else { return Err(error) };
        on_retry(&error, wait);
        tokio::time::sleep(wait).await;
        if request.options.stream {
            sink.delta(Delta::Restart);
        }
        attempt += 1;
    }
}
