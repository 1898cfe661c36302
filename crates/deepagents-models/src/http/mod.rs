//! The HTTP layer shared by all wires: clients, calls with retries, errors, server-sent events.

mod auth;
mod aws_events;
mod call;
mod client;
mod endpoint;
mod error;
mod error_body;
mod frames;
mod header_names;
mod hosts;
mod lines;
mod mend;
mod post;
mod rate_limit;
mod size;
mod sse;
mod token_count;

use deepagents_core::message::Origin;
use deepagents_core::model::{ModelError, ModelEvent, ModelRequest};
use futures_util::future::BoxFuture;

pub(crate) use auth::Auth;
pub(crate) use call::call;
pub use client::{ClientPool, http_client};
pub(crate) use endpoint::Endpoint;
pub(crate) use error::{from_body, from_stream};
use frames::FrameDecoder;
pub(crate) use header_names::proves_identity;
pub(crate) use mend::mended;
pub use post::PostAnswer;
pub(crate) use token_count::{TokenCount, count_tokens, fields_of};

use crate::body::RequestBody;
use crate::decoded::Decoded;

/// The wire format of a provider: encodes requests and decodes responses.
pub(crate) trait Wire: AsRef<Origin> + Send + Sync + 'static {
    /// Asks the server for what must be known before encoding a request.
    fn prepare<'a>(&'a self, _endpoint: &'a Endpoint) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
    /// Encodes the body of a request.
    fn encode(&self, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError>;
    /// Returns the request for a token count, if the provider has an endpoint for it.
    fn token_count(&self, _endpoint: &Endpoint, _request: &ModelRequest) -> Result<Option<TokenCount>, ModelError> {
        Ok(None)
    }
    /// Returns a decoder for one response.
    fn decoder(&self) -> Box<dyn AnswerDecoder>;
}

/// Whether a streamed response continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More events follow.
    More,
    /// The end frame was read.
    Complete,
}

/// Decodes a response, without its origin.
pub(crate) trait AnswerDecoder: Send + Sync {
    /// Decodes a complete response.
    fn whole(&mut self, body: &[u8]) -> Result<Decoded, ModelError>;
    /// Processes an event of a streamed response and appends what is new to `out`.
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError>;
    /// Returns the complete streamed response; [`ModelError::Truncated`] if its end was not seen.
    fn finish(&mut self) -> Result<Decoded, ModelError>;
}

/// Returns the error for a stream that ended before its end frame.
pub(crate) fn cut_short() -> ModelError {
    ModelError::truncated("the stream ended before the answer did")
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
    let mut answer = wire.decoder();
    let decoded = match FrameDecoder::detect(headers, body) {
        Some(frames) => decode_stream(frames, body, &mut *answer),
        None => answer.whole(body),
    };
    decoded.map(|decoded| decoded.of(wire))
}

fn decode_stream(mut frames: FrameDecoder, body: &[u8], answer: &mut dyn AnswerDecoder) -> Result<Decoded, ModelError> {
    let mut events = Vec::new();
    frames.push(body);
    frames.end();
    while let Some(frame) = frames.next()? {
        if answer.event(&frame.name, &frame.data, &mut events)? == Flow::Complete {
            return answer.finish();
        }
    }
    frames.outside(answer).unwrap_or_else(|| answer.finish())
}
