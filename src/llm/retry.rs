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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::llm::test_support::{Answer, Collected, MockLlm, provider};
    use crate::llm::{LlmErrorKind, Message, NoSink, Script, Scripted};

    fn exact() -> RetryPolicy {
        RetryPolicy { jitter: 0.0, ..RetryPolicy::default() }
    }

    fn scripted(turns: serde_json::Value) -> Scripted {
        Scripted::new(Script::from_value(&json!({"replies": [{"turns": turns}]})).unwrap())
    }

    async fn waits(model: &dyn Llm, policy: &RetryPolicy) -> (Result<Reply, LlmError>, Vec<u128>) {
        let waits = Mutex::new(Vec::new());
        let note = |_: &LlmError, wait: Duration| waits.lock().unwrap().push(wait.as_millis());
        let result = call_with_retries(model, &Request::default(), policy, &NoSink, &note).await;
        (result, waits.into_inner().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_and_the_provider_may_ask_for_its_own() {
        let model = scripted(json!([
            {"error": {"status": 500}}, {"error": {"status": 429, "retry_after": 7}}, {"error": {}}, {"reply": "ok"},
        ]));
        let start = Instant::now();
        let (result, waits) = waits(&model, &exact()).await;
        assert_eq!((result.unwrap().text().as_str(), waits), ("ok", vec![500, 7_000, 2_000]));
        assert_eq!(start.elapsed(), Duration::from_millis(9_500));
    }

    #[tokio::test(start_paused = true)]
    async fn tries_end_with_the_last_error() {
        let model = scripted(json!([{"error": {"status": 500}}, {"error": {"status": 503}}, {"reply": "late"}]));
        let (result, waits) = waits(&model, &exact().with_retries(1)).await;
        assert_eq!((result.unwrap_err().kind, waits), (LlmErrorKind::Status { code: 503 }, vec![500]));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_pass_is_not_repeated() {
        for turns in [
            json!([{"error": {"status": 400}}]),
            json!([{"error": {"status": 401}}]),
            json!([{"error": {"status": 429, "retry_after": 3600}}]),
        ] {
            let (result, waits) = waits(&scripted(turns), &exact()).await;
            assert!(result.is_err());
            assert_eq!(waits, Vec::<u128>::new());
        }
    }

    #[test]
    fn jitter_takes_away_its_part_and_is_the_same_for_one_seed() {
        let policy = RetryPolicy { attempts: 50, ..RetryPolicy::default() };
        let error = LlmError::new(LlmErrorKind::Transport, "");
        let waits =
            |policy: &RetryPolicy| (1..40).map(|attempt| policy.wait(attempt, &error).unwrap()).collect::<Vec<_>>();
        assert_eq!(waits(&policy), waits(&policy));
        assert_ne!(waits(&policy), waits(&RetryPolicy { seed: 1, ..policy.clone() }));
        assert!(waits(&policy).iter().all(|wait| *wait <= policy.backoff_max && *wait >= policy.backoff.mul_f64(0.75)));
    }

    #[tokio::test]
    async fn a_stream_that_broke_is_begun_anew() {
        let chunk = |text: &str| json!({"choices": [{"delta": {"content": text}}]});
        let broken = format!("data: {}\n\n", chunk("half"));
        let server = MockLlm::answering(vec![
            Answer::bytes(200, "text/event-stream", broken),
            Answer::openai_stream(&[chunk("whole")]),
        ])
        .await;
        let mut request = Request { model: "m".into(), messages: vec![Message::user("x")], ..Request::default() };
        request.options.stream = true;
        let policy = RetryPolicy { backoff: Duration::ZERO, ..exact() };
        let sink = Collected::default();
        let reply = call_with_retries(&*provider("openai", &server.url()), &request, &policy, &sink, &|_, _| {}).await;
        assert_eq!(reply.unwrap().text(), "whole");
        assert_eq!(sink.shown(), ["half", "<restart>", "whole"]);
    }
}
