//! Streamed responses on Bedrock: events of the Messages API, each wrapped in a chunk.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use deepagents_core::model::{ModelError, ModelEvent};
use serde_json::Value;

use super::decode::MessageDecoder;
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Flow};
use crate::json::parse;

/// Unwraps the events from their chunks.
#[derive(Default)]
pub(super) struct ChunkDecoder(MessageDecoder);

impl AnswerDecoder for ChunkDecoder {
    fn whole(&mut self, body: &[u8]) -> Result<Decoded, ModelError> {
        self.0.whole(body)
    }

    fn event(&mut self, _name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        let chunk = parse("a chunk of the answer", data.as_bytes())?;
        let Some(bytes) = chunk.get("bytes").and_then(Value::as_str) else { return Ok(Flow::More) };
        let damaged = |_| ModelError::protocol("a chunk of the answer is not valid base64");
        let event = BASE64_STANDARD.decode(bytes).map_err(damaged)?;
        self.0.event("", &String::from_utf8_lossy(&event), out)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        self.0.finish()
    }
}
