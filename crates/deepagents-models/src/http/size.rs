//! Size limits for responses: an endless response must not exhaust memory.

use deepagents_core::model::{ModelError, ModelEvent};
use reqwest::{Response, Url};

use super::error::from_transport;

/// Maximum number of bytes of a complete response, of a single event, and of the content of all events. An image
/// arrives in a single event.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Maximum number of bytes of a streamed response, most of which are field names.
const MAX_STREAM_BYTES: usize = 512 << 20;
/// Number of bytes read of an error response.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// Reads the body of a complete response. Of an error response, reads only the start.
pub(super) async fn body(response: Response, url: &Url) -> Result<Vec<u8>, ModelError> {
    let is_success = response.status().is_success();
    let limit = if is_success { MAX_RESPONSE_BYTES } else { MAX_ERROR_BODY_BYTES };
    match read(response, limit).await.map_err(|error| from_transport(&error, url, None))? {
        (_, true) if is_success => Err(too_long("it", limit)),
        (body, _) => Ok(body),
    }
}

/// Reads at most `limit` bytes of a body. Returns them, and whether there are more.
pub(super) async fn read(mut response: Response, limit: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        body.extend_from_slice(&piece);
        if body.len() > limit {
            body.truncate(limit);
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

/// Size of a streamed response so far.
#[derive(Debug, Default)]
pub(super) struct StreamSize {
    bytes: usize,
    /// Number of bytes since the last complete event.
    since_event: usize,
    /// Number of bytes of text and arguments.
    content: usize,
}

impl StreamSize {
    /// Adds received bytes.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.since_event = self.since_event.saturating_add(bytes);
    }

    /// Adds a complete event with its content.
    pub(super) fn event(&mut self, content: &[ModelEvent]) {
        self.since_event = 0;
        let length = |event: &ModelEvent| match event {
            ModelEvent::Text { delta, .. }
            | ModelEvent::Reasoning { delta, .. }
            | ModelEvent::ToolArgs { delta, .. } => delta.len(),
            _ => 0,
        };
        self.content = content.iter().map(length).fold(self.content, usize::saturating_add);
    }

    /// # Errors
    /// Returns an error if the response exceeds a limit.
    pub(super) fn check(&self) -> Result<(), ModelError> {
        let sizes = [
            ("one of its events", self.since_event, MAX_RESPONSE_BYTES),
            ("its content", self.content, MAX_RESPONSE_BYTES),
            ("it", self.bytes, MAX_STREAM_BYTES),
        ];
        let exceeded = sizes.into_iter().find(|(_, size, limit)| size > limit);
        exceeded.map_or(Ok(()), |(what, _, limit)| Err(too_long(what, limit)))
    }
}

/// Not retried: a server that sends endless data will do so again.
fn too_long(what: &str, limit: usize) -> ModelError {
    let limit = limit >> 20;
    ModelError::protocol(format!(
        "{what} is longer than {limit} MiB and was not read any further; check the server's address and what runs there"
    ))
}
