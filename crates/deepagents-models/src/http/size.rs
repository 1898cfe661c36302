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
pub(super) async fn body(mut response: Response, url: &Url) -> Result<Vec<u8>, ModelError> {
    let is_success = response.status().is_success();
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| from_transport(&error, url, None))? {
        body.extend_from_slice(&piece);
        if !is_success && body.len() > MAX_ERROR_BODY_BYTES {
            body.truncate(MAX_ERROR_BODY_BYTES);
            break;
        }
        if body.len() > MAX_RESPONSE_BYTES {
            return Err(too_long("it", MAX_RESPONSE_BYTES));
        }
    }
    Ok(body)
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
        match self {
            Self { since_event, .. } if *since_event > MAX_RESPONSE_BYTES => {
                Err(too_long("one of its events", MAX_RESPONSE_BYTES))
            }
            Self { content, .. } if *content > MAX_RESPONSE_BYTES => Err(too_long("its content", MAX_RESPONSE_BYTES)),
            Self { bytes, .. } if *bytes > MAX_STREAM_BYTES => Err(too_long("it", MAX_STREAM_BYTES)),
            _ => Ok(()),
        }
    }
}

/// Not retried: a server that sends endless data will do so again.
fn too_long(what: &str, limit: usize) -> ModelError {
    let limit = limit >> 20;
    ModelError::protocol(format!(
        "{what} is longer than {limit} MiB and was not read any further; check the server's address and what runs there"
    ))
}
