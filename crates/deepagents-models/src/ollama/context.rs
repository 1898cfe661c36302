//! Determines the context size to request from the server.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use deepagents_core::model::ModelError;
use serde_json::{Value, json};

use crate::http::Endpoint;
use crate::json;

/// Minimum context size to request.
const MIN_CONTEXT: u64 = 8192;
/// Output tokens to plan for if the request sets no limit.
const DEFAULT_OUTPUT_TOKENS: u64 = 4096;
/// A token of most texts has more bytes than this, so that estimates are rather too high.
const BYTES_PER_TOKEN: u64 = 3;

/// The model's maximum context size, and the size requested so far.
#[derive(Debug)]
pub(super) struct ContextSize {
    /// `Some(None)` if the server does not know.
    limit: OnceLock<Option<u64>>,
    /// The largest size requested so far.
    asked: AtomicU64,
}

impl ContextSize {
    /// `known` is the size from the catalogue.
    pub(super) fn new(known: Option<u64>) -> Self {
        let limit = known.map_or_else(OnceLock::new, |known| OnceLock::from(Some(known)));
        Self { limit, asked: AtomicU64::new(MIN_CONTEXT) }
    }

    /// Asks the server for the model's maximum context size, once. A server that does not report it is not asked again.
    /// If it cannot be reached or is too busy, the call itself reports that, and the next one asks again.
    pub(super) async fn learn(&self, endpoint: &Endpoint, model: &str) {
        if self.limit.get().is_some() {
            return;
        }
        let mut url = endpoint.url.clone();
        url.set_path(&endpoint.url.path().replace("/api/chat", "/api/show"));
        let limit = match endpoint.ask(&url, Some(&json!({"model": model}))).await {
            Ok(body) => {
                json::parse("what the server says about the model", &body).ok().as_ref().and_then(context_length)
            }
            Err(error) if error.is_retryable() => return,
            Err(_) => None,
        };
        // A concurrent call may have set it already.
        let _ = self.limit.set(limit);
    }

    /// Returns the size to request for a body of this many bytes and a response of this many tokens.
    pub(super) fn size(&self, bytes: usize, answer: Option<u64>) -> Result<u64, ModelError> {
        let prompt = (bytes as u64).div_ceil(BYTES_PER_TOKEN);
        let needed = prompt.saturating_add(answer.unwrap_or(DEFAULT_OUTPUT_TOKENS));
        let limit = self.limit.get().copied().flatten();
        // If the prompt is only slightly too long by this estimate, let the server decide: it is told not to truncate.
        if let Some(limit) = limit.filter(|limit| prompt / 2 > *limit) {
            return Err(ModelError::ContextLength(
                format!(
                    "the prompt has about {prompt} tokens, but the model reads only {limit}; the server would cut it"
                )
                .into(),
            ));
        }
        // Grow in powers of two, since each change reloads the model.
        let size = needed.checked_next_power_of_two().unwrap_or(needed).min(limit.unwrap_or(u64::MAX));
        Ok(self.asked.fetch_max(size, Ordering::Relaxed).max(size).min(limit.unwrap_or(u64::MAX)))
    }
}

/// In `model_info`, the key of the size is prefixed by the architecture, as in `qwen3.context_length`.
fn context_length(shown: &Value) -> Option<u64> {
    let info = shown.get("model_info")?.as_object()?;
    info.iter().find(|(key, _)| key.ends_with(".context_length")).and_then(|(_, value)| value.as_u64())
}
