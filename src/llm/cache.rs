//! The response cache (`llm: {cache: true}`): what was answered to the very same request is answered again, for nothing.
//!
//! The same means: the same model, messages, tools, form of the output and settings; names, time limits and streaming do
//! not count. Only replies that ended well, and whose value has the form that was asked for, are kept. Where they are
//! kept is the business of a [`ResponseCache`]; a request is kept as its digest only.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::elements::validator;
use super::embed::Embeddings;
use super::error::LlmError;
use super::provider::{Capabilities, Llm, Past};
use super::reply::{DeltaSink, Finish, Reply, Usage, replay};
use super::request::{OutputMode, Request};
use super::structured;

/// Keeps replies by the keys of requests ([`key`]).
#[async_trait]
pub trait ResponseCache: Send + Sync {
    /// The reply to that request; `None` when there is none, or it cannot be read.
    async fn get(&self, key: &str) -> Option<Reply>;

    /// Keeps a reply; what cannot be kept is not.
    async fn put(&self, key: &str, reply: &Reply);
}

/// How many replies are kept in memory; the oldest goes first.
const KEPT_MAX: usize = 1_000;

/// Replies for as long as the program runs.
#[derive(Debug, Default)]
pub struct MemoryResponseCache {
    replies: Mutex<IndexMap<String, Reply>>,
}

#[async_trait]
impl ResponseCache for MemoryResponseCache {
    async fn get(&self, key: &str) -> Option<Reply> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    async fn put(&self, key: &str, reply: &Reply) {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if replies.len() >= KEPT_MAX {
            replies.shift_remove_index(0);
        }
        replies.insert(key.to_owned(), reply.clone());
    }
}

/// The key of a request: 64 hex digits that two requests share only when they ask the same thing.
pub fn key(request: &Request) -> String {
    let mut plain = request.clone();
    plain.name.clear();
    plain.turn = 1;
    plain.options.timeout = None;
    plain.options.stream = false;
    let text = serde_json::to_vec(&plain).unwrap_or_default();
    Sha256::digest(text).iter().fold(String::new(), |mut key, byte| {
        let _ = write!(key, "{byte:02x}");
        key
    })
}

/// The provider `inner` with a cache before it.
pub fn cached(inner: Arc<dyn Llm>, cache: Arc<dyn ResponseCache>) -> Arc<dyn Llm> {
    Arc::new(Cached { inner, cache })
}

struct Cached {
    inner: Arc<dyn Llm>,
    cache: Arc<dyn ResponseCache>,
}

#[async_trait]
impl Llm for Cached {
    fn capabilities(&self, model: &str) -> Capabilities {
        self.inner.capabilities(model)
    }

    async fn call(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        if request.options.cache != Some(true) {
            return self.inner.call(request, sink).await;
        }
        let key = key(request);
        if let Some(kept) = self.cache.get(&key).await {
            if request.options.stream {
                replay(&kept, sink);
            }
            // Nothing was sent, so nothing is paid.
            return Ok(Reply { usage: Usage::default(), from_cache: true, ..kept });
        }
        let reply = self.inner.call(request, sink).await?;
        if is_worth_keeping(request, &reply) {
            self.cache.put(&key, &reply).await;
        }
        Ok(reply)
    }

    fn recall(&self, past: &[Past]) {
        self.inner.recall(past);
    }

    fn wire(&self, request: &Request) -> Value {
        self.inner.wire(request)
    }

    fn output_mode(&self, model: &str, schema: &Value) -> OutputMode {
        self.inner.output_mode(model, schema)
    }

    async fn embed(&self, model: &str, texts: &[String]) -> Result<Embeddings, LlmError> {
        self.inner.embed(model, texts).await
    }

    async fn models(&self) -> Result<Vec<String>, LlmError> {
        self.inner.models().await
    }
}

fn is_worth_keeping(request: &Request, reply: &Reply) -> bool {
    match (&reply.finish, &request.output) {
        (Finish::ToolCalls, _) => true,
        (Finish::Stop, None) => !reply.text().trim().is_empty(),
        (Finish::Stop, Some(output)) => structured::decode(output, reply)
            .is_ok_and(|value| validator(&output.schema).is_none_or(|validator| validator.is_valid(&value))),
        (Finish::Length | Finish::ContentFilter | Finish::Refusal(_), _) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::llm::test_support::{Answer, MockLlm, provider};
    use crate::llm::{Message, NoSink, OutputSchema};

    #[tokio::test]
    async fn the_same_request_is_answered_once_and_a_wrong_reply_is_not_kept() {
        let answers = [r#"{"n": "wrong"}"#, r#"{"n": 1}"#, r#"{"n": 2}"#];
        let server = MockLlm::answering(answers.map(Answer::openai_text).to_vec()).await;
        let llm = cached(provider("openai", &server.url()), Arc::new(MemoryResponseCache::default()));
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let mut request = Request {
            model: "m".into(),
            messages: vec![Message::user("Hi")],
            output: Some(OutputSchema::native("N", schema)),
            ..Request::default()
        };
        let mut texts = Vec::new();
        for (cache, name) in [(Some(true), "a"), (Some(true), "b"), (Some(true), "c"), (None, "d"), (Some(true), "e")] {
            request.options.cache = cache;
            request.name = name.into();
            let reply = llm.call(&request, &NoSink).await.unwrap();
            texts.push((reply.text(), reply.usage.input_tokens, reply.from_cache));
        }
        let text = |at: usize, tokens: u64| (answers[at].to_owned(), tokens, tokens == 0);
        assert_eq!(texts, [text(0, 10), text(1, 10), text(1, 0), text(2, 10), text(1, 0)]);
        request.options.temperature = Some(0.5);
        assert_ne!(key(&request), key(&Request { options: Default::default(), ..request.clone() }));
    }
}
