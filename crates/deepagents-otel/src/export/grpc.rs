//! OTLP over gRPC: a unary call, which is an HTTP/2 request with a length prefix before the message and a status in the
//! trailers.

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use reqwest::{Body as HttpBody, Client, Url};

use super::client::{address, client, headers, transport};
use super::http::{refusal, refused};
use super::transport::{Body, Signal};
use super::{Endpoint, ExportError};

/// Maximum bytes of a response.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// Bytes before a message: the compression flag and the length.
const PREFIX_BYTES: usize = 5;

/// A gRPC receiver.
pub(super) struct Grpc {
    client: Client,
    pub(super) traces: Url,
    metrics: Url,
    headers: HeaderMap,
}

impl Grpc {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, ExportError> {
        let url = address(endpoint)?;
        let service = |name: &str| {
            let mut url = url.clone();
            url.set_path(&format!("/opentelemetry.proto.collector.{name}/Export"));
            url
        };
        let mut headers = headers(endpoint, "application/grpc")?;
        headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
        Ok(Self {
            client: client(endpoint, &url)?,
            traces: service("trace.v1.TraceService"),
            metrics: service("metrics.v1.MetricsService"),
            headers,
        })
    }

    pub(super) async fn send(&self, body: &Body) -> Result<u64, ExportError> {
        let mut message = BytesMut::with_capacity(body.bytes.len() + PREFIX_BYTES);
        message.put_u8(0);
        message.put_u32(u32::try_from(body.bytes.len()).unwrap_or(u32::MAX));
        message.put_slice(&body.bytes);
        let url = if body.signal == Signal::Traces { &self.traces } else { &self.metrics };
        let request = self.client.post(url.clone()).headers(self.headers.clone()).body(message.freeze());
        let response = http::Response::<HttpBody>::from(request.send().await.map_err(transport)?);
        let (head, mut frames) = response.into_parts();
        if !head.status.is_success() {
            return Err(refusal(head.status, "", None));
        }
        let (mut answer, mut trailers) = (Vec::new(), None);
        while let Some(frame) = frames.frame().await {
            match frame.map_err(transport)?.into_data() {
                Ok(data) if answer.len() < MAX_RESPONSE_BYTES => answer.extend_from_slice(&data),
                Ok(_) => return Err(ExportError::Transport("its answer is too long".to_owned())),
                Err(other) => trailers = other.into_trailers().ok(),
            }
        }
        // A call that fails immediately has its status in the headers.
        let status = trailers.as_ref().and_then(status).or_else(|| status(&head.headers));
        match status {
            Some((0, _)) => Ok(refused(answer.get(PREFIX_BYTES..).unwrap_or_default(), body.signal, false)),
            Some((code, words)) => {
                let reason = format!("gRPC status {code}{words}");
                Err(ExportError::Refused { reason, retryable: is_retryable(code), retry_after: None })
            }
            None => Err(ExportError::Transport("its answer has no status; is it a gRPC receiver?".to_owned())),
        }
    }
}

/// Returns the code of a status, and its message formatted to follow the code.
fn status(headers: &HeaderMap) -> Option<(u32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let words = headers.get("grpc-message").and_then(|words| words.to_str().ok()).unwrap_or_default();
    let words: String = percent_encoding::percent_decode_str(words).decode_utf8_lossy().chars().take(200).collect();
    Some((code, if words.is_empty() { words } else { format!(": {words}") }))
}

/// Returns whether a status can be retried: cancelled, deadline exceeded, resource exhausted, aborted, out of range,
/// unavailable, data loss.
fn is_retryable(code: u32) -> bool {
    matches!(code, 1 | 4 | 8 | 10 | 11 | 14 | 15)
}
