//! The HTTP layer shared by all wires: clients, calls with retries, errors, server-sent events.

mod auth;
mod aws_events;
mod call;
mod client;
mod endpoint;
mod error;
mod error_body;
mod frames;
mod lines;
mod mend;
mod post;
mod rate_limit;
mod size;
mod sse;
mod token_count;

use deepagents_core::model::{ModelError, ModelEvent, ModelRequest};
use futures_util::future::BoxFuture;
use serde_json::Value;

pub(crate) use auth::Auth;
pub(crate) use call::call;
pub use client::{ClientPool, http_client};
pub(crate) use endpoint::{Endpoint, proves_identity};
pub(crate) use error::{from_body, from_stream};
pub(crate) use frames::{FrameDecoder, Framing};
pub(crate) use mend::mended;
pub use post::PostAnswer;
pub(crate) use token_count::{TokenCount, count_tokens, fields_of};

use crate::body::RequestBody;
use crate::decoded::Decoded;

/// The wire format of a provider: encodes requests and decodes responses.
pub(crate) trait Wire: Send + Sync + 'static {
    /// Asks the server for what must be known before encoding a request.
    fn prepare<'a>(&'a self, _endpoint: &'a Endpoint) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Encodes the body of a request.
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError>;
    /// Returns the request for a token count, if the provider has an endpoint for it.
    fn token_count(&self, _endpoint: &Endpoint, _request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        Ok(None)
    }
    /// Decodes a complete response.
    fn decode(&self, body: &[u8]) -> Result<Decoded, ModelError>;
    /// Returns a decoder for a streamed response.
    fn answer_decoder(&self) -> Box<dyn AnswerDecoder>;
}

/// Whether a streamed response continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More events follow.
    More,
    /// The end frame was read.
    Complete,
}

/// Accumulates the events of a streamed response.
pub(crate) trait AnswerDecoder: Send + Sync {
    /// Processes an event and appends what is new to `out`.
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError>;
    /// Returns the complete response; [`ModelError::Truncated`] if its end was not seen.
    fn finish(&mut self) -> Result<Decoded, ModelError>;
}

/// Decodes a recorded response in the same way as a live one, without the network.
pub(crate) fn decode_recorded(
    wire: &dyn Wire,
    status: u16,
    headers: &reqwest::header::HeaderMap,
    body: &[u8],
) -> Result<Decoded, ModelError> {
    if !(200..300).contains(&status) {
        return Err(from_body(status, headers, body));
    }
    let Some(framing) = Framing::detect(headers, body) else { return wire.decode(body) };
    let (mut decoder, mut answer, mut events) = (FrameDecoder::new(framing), wire.answer_decoder(), Vec::new());
    decoder.push(body);
    decoder.end();
    while let Some(frame) = decoder.next()? {
        if answer.event(&frame.name, &frame.data, &mut events)? == Flow::Complete {
            return answer.finish();
        }
    }
    decoder.outside(wire).unwrap_or_else(|| answer.finish())
}

/// Parses JSON sent by a provider; `what` names it in the error.
pub(crate) fn parse_json(what: &str, bytes: &[u8]) -> Result<Value, ModelError> {
    read_json(bytes).map_err(|error| ModelError::protocol(format!("{what} is not valid JSON: {error}")))
}

/// Parses a complete response. One that ends early was truncated in transit.
pub(crate) fn parse_answer(bytes: &[u8]) -> Result<Value, ModelError> {
    read_json(bytes).map_err(|error| {
        let message = format!("the answer is not valid JSON: {error}");
        if error.is_eof() { ModelError::truncated(message) } else { ModelError::protocol(message) }
    })
}

fn read_json(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| {
        let text = std::str::from_utf8(bytes).map_err(|_| error)?;
        serde_json::from_str(&mended(text))
    })
}

/// Merges a delta into a field: strings, arrays and objects are extended, everything else is replaced. This is correct
/// for known fields and the best guess for new ones.
pub(crate) fn merge_delta(target: &mut Value, delta: Value) {
    match (target, delta) {
        (Value::String(text), Value::String(more)) => text.push_str(&more),
        (Value::Array(list), Value::Array(more)) => list.extend(more),
        (Value::Object(object), Value::Object(more)) => object.extend(more),
        (_, Value::Null) => {}
        (target, delta) => *target = delta,
    }
}
