//! Limits on what is asked of a provider: calls and tokens in a minute, calls at one time (`providers: {x: {concurrency: …}}`).
//!
//! Who must wait stands in a line and goes in the order of coming. A provider that says "too many" with a wait (429 and
//! `Retry-After`) is left alone for so long by all calls, not only by the one that was told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::embed::Embeddings;
use super::error::{LlmError, LlmErrorKind};
use super::provider::{Capabilities, Llm, Rate};
use super::reply::{DeltaSink, Reply};
use super::request::{OutputMode, Request};

const MINUTE: Duration = Duration::from_secs(60);
/// How many bytes of a request are taken for one token until the provider has counted.
const BYTES_PER_TOKEN: u64 = 4;

/// A provider under limits.
pub(crate) struct Limited {
    inner: Arc<dyn Llm>,
    rate: Rate,
    slots: Option<Semaphore>,
    /// The head of the line.
    line: tokio::sync::Mutex<()>,
    window: Mutex<Window>,
}

/// What was asked within the last minute.
#[derive(Default)]
struct Window {
    calls: VecDeque<Spent>,
    next: u64,
    /// The provider wants to be left alone until then.
    closed_until: Option<Instant>,
}

struct Spent {
    number: u64,
    at: Instant,
    tokens: u64,
}

impl Limited {
    pub(crate) fn new(inner: Arc<dyn Llm>, rate: Rate) -> Limited {
        let slots = rate.concurrency.map(|slots| Semaphore::new(slots as usize));
        Limited { inner, rate, slots, line: tokio::sync::Mutex::default(), window: Mutex::default() }
    }

    /// Waits until a call of about so many tokens may begin; returns its number.
    async fn enter(&self, tokens: u64) -> u64 {
        let _head = self.line.lock().await;
        loop {
            let now = Instant::now();
            let wait = {
                let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
                match window.wait(&self.rate, tokens, now) {
                    None => return window.begin(tokens, now),
                    Some(wait) => wait,
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Puts the provider's figure in place of the guess, or keeps the door closed for as long as it asks.
    fn settle(&self, number: u64, result: &Result<Reply, LlmError>) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(reply) => {
                let tokens = reply.usage.input_tokens.saturating_add(reply.usage.output_tokens);
                if let Some(spent) = window.calls.iter_mut().find(|spent| spent.number == number) {
                    spent.tokens = tokens;
                }
            }
            Err(error) if error.kind == LlmErrorKind::RateLimited => {
                window.closed_until = error.retry_after.map(|wait| Instant::now() + wait.min(MINUTE * 2));
            }
            Err(_) => {}
        }
    }
}

impl Window {
    /// How long a call must wait; `None`: it may begin.
    fn wait(&mut self, rate: &Rate, tokens: u64, now: Instant) -> Option<Duration> {
        while self.calls.front().is_some_and(|spent| now.duration_since(spent.at) >= MINUTE) {
            self.calls.pop_front();
        }
        if let Some(until) = self.closed_until.filter(|until| *until > now) {
            return Some(until - now);
        }
        let spent: u64 = self.calls.iter().map(|spent| spent.tokens).sum();
        let too_many = rate.requests_per_minute.is_some_and(|most| self.calls.len() >= most as usize);
        // A call that is over the limit by itself goes when nothing else does.
        let too_much =
            rate.tokens_per_minute.is_some_and(|most| spent > 0 && spent.saturating_add(tokens) > u64::from(most));
        let oldest = self.calls.front().filter(|_| too_many || too_much)?;
        Some((oldest.at + MINUTE).saturating_duration_since(now))
    }

    fn begin(&mut self, tokens: u64, now: Instant) -> u64 {
        self.next += 1;
        self.calls.push_back(Spent { number: self.next, at: now, tokens });
        self.next
    }
}

/// A guess at what a request comes to, before the provider counts.
fn guess(request: &Request) -> u64 {
    let messages = serde_json::to_string(&request.messages).map_or(0, |text| text.len());
    let bytes = messages + request.system.as_ref().map_or(0, String::len);
    bytes as u64 / BYTES_PER_TOKEN + 1
}

#[async_trait]
impl Llm for Limited {
    fn capabilities(&self, model: &str) -> Capabilities {
        self.inner.capabilities(model)
    }

    async fn call(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        let _slot = match &self.slots {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        let number = self.enter(guess(request)).await;
        let result = self.inner.call(request, sink).await;
        self.settle(number, &result);
        result
    }

    fn wire(&self, request: &Request) -> Value {
        self.inner.wire(request)
    }

    fn output_mode(&self, model: &str, schema: &Value) -> OutputMode {
        self.inner.output_mode(model, schema)
    }

    async fn embed(&self, model: &str, texts: &[String]) -> Result<Embeddings, LlmError> {
        let _slot = match &self.slots {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        self.enter(texts.iter().map(|text| text.len() as u64 / BYTES_PER_TOKEN + 1).sum()).await;
        self.inner.embed(model, texts).await
    }

    async fn models(&self) -> Result<Vec<String>, LlmError> {
        self.inner.models().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::llm::{Finish, Message, NoSink, Usage};

    /// Takes a second for each call, and remembers how many there were at one time.
    #[derive(Default)]
    struct Slow {
        now: AtomicUsize,
        most: AtomicUsize,
        fail_first: bool,
        calls: AtomicUsize,
    }

    #[async_trait]
    impl Llm for Slow {
        fn capabilities(&self, _: &str) -> Capabilities {
            Capabilities::default()
        }
        async fn call(&self, _: &Request, _: &dyn DeltaSink) -> Result<Reply, LlmError> {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            if self.calls.fetch_add(1, Ordering::SeqCst) == 0 && self.fail_first {
                let told = LlmError::new(LlmErrorKind::RateLimited, "slow down");
                return Err(LlmError { retry_after: Some(Duration::from_secs(20)), ..told });
            }
            let usage = Usage { input_tokens: 60, output_tokens: 40, ..Usage::default() };
            Ok(Reply { parts: Vec::new(), finish: Finish::Stop, usage, model: "m".into(), from_cache: false })
        }
        fn wire(&self, _: &Request) -> Value {
            Value::Null
        }
    }

    /// How many seconds it takes to make `calls` calls at once under `rate`, and how many there were at one time.
    async fn seconds(calls: usize, rate: Rate, fail_first: bool) -> (u64, usize) {
        let slow = Arc::new(Slow { fail_first, ..Slow::default() });
        let limited = Limited::new(slow.clone(), rate);
        let request = Request { messages: vec![Message::user("Hi")], ..Request::default() };
        let started = Instant::now();
        futures::future::join_all((0..calls).map(|_| limited.call(&request, &NoSink))).await;
        (started.elapsed().as_secs(), slow.most.load(Ordering::SeqCst))
    }

    #[tokio::test(start_paused = true)]
    async fn limits_hold_and_nothing_waits_without_them() {
        assert_eq!(seconds(5, Rate::default(), false).await, (1, 5));
        assert_eq!(seconds(5, Rate { concurrency: Some(2), ..Rate::default() }, false).await, (3, 2));
        assert_eq!(seconds(5, Rate { requests_per_minute: Some(2), ..Rate::default() }, false).await, (121, 2));
        // One at a time, 100 tokens each: two fit into a minute, the third begins when the first is out of it.
        let tokens = Rate { tokens_per_minute: Some(210), concurrency: Some(1), ..Rate::default() };
        assert_eq!(seconds(3, tokens, false).await, (61, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_asks_for_a_pause_is_left_alone_by_all() {
        let one = Rate { concurrency: Some(1), ..Rate::default() };
        assert_eq!(seconds(2, one, true).await, (22, 1));
    }
}
