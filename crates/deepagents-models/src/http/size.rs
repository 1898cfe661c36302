//! How long answers may be: what a server sends without an end must not fill the memory.

use deepagents_core::model::{ModelError, ModelEvent};
use reqwest::{Response, Url};

use super::error::from_transport;

/// Bytes of an answer in one piece, of one event of a streamed one, and of what all its events say. Pictures come in one
/// event.
const LONGEST: usize = 64 << 20;
/// Bytes of a streamed answer, most of which are the names of its fields.
const LONGEST_STREAM: usize = 512 << 20;
/// Bytes that are read of an answer that is an error.
const ERROR_BODY: usize = 64 << 10;

/// The body of an answer in one piece. Of an error only the beginning is read.
pub(super) async fn body(mut response: Response, url: &Url) -> Result<Vec<u8>, ModelError> {
    let is_success = response.status().is_success();
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| from_transport(&error, url, None))? {
        body.extend_from_slice(&piece);
        if !is_success && body.len() > ERROR_BODY {
            body.truncate(ERROR_BODY);
            break;
        }
        if body.len() > LONGEST {
            return Err(too_long("it", LONGEST));
        }
    }
    Ok(body)
}

/// How long a streamed answer is so far.
#[derive(Debug, Default)]
pub(super) struct StreamSize {
    bytes: usize,
    /// Bytes that came after the last whole event.
    since_event: usize,
    /// Bytes of texts and arguments.
    content: usize,
}

impl StreamSize {
    /// More bytes came.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.since_event = self.since_event.saturating_add(bytes);
    }

    /// An event was whole, and held this.
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
    /// The answer is longer than any is.
    pub(super) fn check(&self) -> Result<(), ModelError> {
        match self {
            Self { since_event, .. } if *since_event > LONGEST => Err(too_long("one of its events", LONGEST)),
            Self { content, .. } if *content > LONGEST => Err(too_long("its content", LONGEST)),
            Self { bytes, .. } if *bytes > LONGEST_STREAM => Err(too_long("it", LONGEST_STREAM)),
            _ => Ok(()),
        }
    }
}

/// Not tried again: whoever sends without an end does so again.
fn too_long(what: &str, limit: usize) -> ModelError {
    let limit = limit >> 20;
    ModelError::protocol(format!(
        "{what} is longer than {limit} MiB and was not read any further; check the server's address and what runs there"
    ))
}
