//! How much of a prompt the server is to read.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use deepagents_core::model::ModelError;
use serde_json::{Value, json};

use crate::http::{Endpoint, parse_json};

/// What is asked for at least.
const LEAST: u64 = 8192;
/// Tokens that an answer is given when the request does not say.
const ANSWER: u64 = 4096;
/// A token of most texts has more bytes than this, so that estimates are rather too high.
const BYTES_PER_TOKEN: u64 = 3;

/// How much the model can read, and how much it was asked to read.
#[derive(Debug)]
pub(super) struct ContextSize {
    /// `Some(None)` where the server does not know.
    limit: OnceLock<Option<u64>>,
    /// The largest size that was asked for.
    asked: AtomicU64,
}

impl ContextSize {
    /// `known` is the size that the catalogue knows.
    pub(super) fn new(known: Option<u64>) -> Self {
        let limit = OnceLock::new();
        if known.is_some() {
            // Nobody else has the lock.
            let _ = limit.set(known);
        }
        Self { limit, asked: AtomicU64::new(LEAST) }
    }

    /// Asks the server how much the model can read, once. A server that does not say is asked no more; where it cannot be
    /// reached, the failure of the call itself says so.
    pub(super) async fn learn(&self, endpoint: &Endpoint, model: &str) {
        if self.limit.get().is_some() {
            return;
        }
        let mut url = endpoint.url.clone();
        url.set_path(&endpoint.url.path().replace("/api/chat", "/api/show"));
        let limit = match endpoint.post(&url, json!({"model": model}).to_string().into()).await {
            Ok(body) => {
                parse_json("what the server says about the model", &body).ok().as_ref().and_then(context_length)
            }
            Err(ModelError::Transport(_)) => return,
            Err(_) => None,
        };
        // Another call may have learnt the same.
        let _ = self.limit.set(limit);
    }

    /// The size to ask for, for a body of so many bytes and an answer of so many tokens.
    pub(super) fn size(&self, bytes: usize, answer: Option<u64>) -> Result<u64, ModelError> {
        let prompt = (bytes as u64).div_ceil(BYTES_PER_TOKEN);
        let needed = prompt.saturating_add(answer.unwrap_or(ANSWER));
        let limit = self.limit.get().copied().flatten();
        // What is only somewhat too long by this estimate, the server judges: it is told not to cut.
        if let Some(limit) = limit.filter(|limit| prompt / 2 > *limit) {
            return Err(ModelError::ContextLength(
                format!(
                    "the prompt has about {prompt} tokens, but the model reads only {limit}; the server would cut it"
                )
                .into(),
            ));
        }
        // In steps, since each change loads the model again.
        let size = needed.checked_next_power_of_two().unwrap_or(needed).min(limit.unwrap_or(u64::MAX));
        Ok(self.asked.fetch_max(size, Ordering::Relaxed).max(size).min(limit.unwrap_or(u64::MAX)))
    }
}

/// `model_info` names the size behind the name of the architecture, such as `qwen3.context_length`.
fn context_length(shown: &Value) -> Option<u64> {
    let info = shown.get("model_info")?.as_object()?;
    info.iter().find(|(key, _)| key.ends_with(".context_length")).and_then(|(_, value)| value.as_u64())
}
