//! Replies of models that may be answered again (`cache: true`): in the store where there is one, else in memory.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use jiff::ToSpan;

use crate::llm::{MemoryResponseCache, Reply, ResponseCache};
use crate::store::{ReplyLimits, Store};
use crate::world::World;

/// How long a reply is answered again, in hours: 30 days.
const AGE_HOURS_MAX: i64 = 30 * 24;
/// The largest reply that is kept, in bytes of JSON.
const REPLY_BYTES_MAX: usize = 1024 * 1024;
/// What is kept of them all.
const LIMITS: ReplyLimits = ReplyLimits { count: 10_000, bytes: 128 * 1024 * 1024 };

/// The cache of an engine.
pub(super) struct Responses {
    /// The engine's store, once it has one.
    store: Arc<OnceLock<Arc<dyn Store>>>,
    world: Arc<dyn World>,
    memory: MemoryResponseCache,
}

impl Responses {
    /// A cache in this store, or in memory as long as there is none.
    pub(super) fn new(store: Arc<OnceLock<Arc<dyn Store>>>, world: Arc<dyn World>) -> Responses {
        Responses { store, world, memory: MemoryResponseCache::default() }
    }
}

#[async_trait]
impl ResponseCache for Responses {
    async fn get(&self, key: &str) -> Option<Reply> {
        let Some(store) = self.store.get() else { return self.memory.get(key).await };
        let since = self.world.now().checked_sub(AGE_HOURS_MAX.hours()).ok()?.to_string();
        // A store that cannot be read now says so where the journal is kept; the model is asked then.
        let body = store.reply(key, &since).await.ok()??;
        serde_json::from_str(&body).ok()
    }

    async fn put(&self, key: &str, reply: &Reply) {
        let Some(store) = self.store.get() else { return self.memory.put(key, reply).await };
        let Ok(body) = serde_json::to_string(reply) else { return };
        if body.len() <= REPLY_BYTES_MAX {
            let at = self.world.now().to_string();
            // That it cannot be kept costs a request later, and no more.
            let _ = store.keep_reply(key, body, &at, LIMITS).await;
        }
    }
}
