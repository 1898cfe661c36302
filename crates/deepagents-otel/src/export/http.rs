//! OTLP over HTTP.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use reqwest::{Client, Response, Url};

use super::client::{address, client, headers, transport};
use super::transport::{Body, Signal};
use super::{Endpoint, ExportError, Protocol};

/// Maximum bytes of a response.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// Maximum characters of a response in an error.
const MAX_SHOWN_CHARS: usize = 200;

/// An HTTP receiver.
pub(super) struct Http {
    client: Client,
    pub(super) url: Url,
    headers: HeaderMap,
    pub(super) json: bool,
}

impl Http {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, ExportError> {
        let json = endpoint.protocol == Protocol::HttpJson;
        let url = address(endpoint)?;
        let headers = headers(endpoint, if json { "application/json" } else { "application/x-protobuf" })?;
        Ok(Self { client: client(endpoint, &url)?, url, headers, json })
    }

    pub(super) async fn send(&self, body: &Body) -> Result<u64, ExportError> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body.bytes.clone());
        let response = request.send().await.map_err(transport)?;
        let (status, retry_after) = (response.status(), retry_after(response.headers()));
        let answer = read(response).await?;
        if status.is_success() {
            return Ok(refused(&answer, body.signal, self.json));
        }
        let shown: String =
            String::from_utf8_lossy(&answer).chars().filter(|c| !c.is_control()).take(MAX_SHOWN_CHARS).collect();
        let details = if shown.is_empty() { shown } else { format!(": {shown}") };
        Err(refusal(status, &details, retry_after))
    }
}

/// Returns the error for an HTTP status, with details formatted to follow it.
pub(super) fn refusal(status: StatusCode, details: &str, retry_after: Option<Duration>) -> ExportError {
    let retryable = matches!(status.as_u16(), 429 | 502 | 503 | 504);
    ExportError::Refused { reason: format!("HTTP status {status}{details}"), retryable, retry_after }
}

/// Reads `Retry-After`, in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let field = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let date = |name| httpdate::parse_http_date(field(name)?).ok();
    if let Ok(seconds) = field(RETRY_AFTER)?.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // A date is relative to the receiver's own clock, which nearly every response includes.
    #[allow(clippy::disallowed_methods, reason = "the receiver means the time of the world")]
    let now = date(DATE).unwrap_or_else(SystemTime::now);
    Some(date(RETRY_AFTER)?.duration_since(now).unwrap_or_default())
}

/// Reads the beginning of a response. If it is longer than the maximum, the connection is dropped with the rest.
async fn read(response: Response) -> Result<Vec<u8>, ExportError> {
    let (mut answer, mut pieces) = (Vec::new(), response.bytes_stream());
    while let Some(piece) = pieces.next().await {
        answer.extend_from_slice(&piece.map_err(transport)?);
        if answer.len() > MAX_RESPONSE_BYTES {
            answer.truncate(MAX_RESPONSE_BYTES);
            break;
        }
    }
    Ok(answer)
}

/// Returns how many items the receiver rejected although it accepted the others. An unreadable response counts as zero.
pub(super) fn refused(answer: &[u8], signal: Signal, json: bool) -> u64 {
    let count = match signal {
        Signal::Traces => {
            let answer: Option<ExportTraceServiceResponse> = if json {
                serde_json::from_slice(answer).ok()
            } else {
                ExportTraceServiceResponse::decode(answer).ok()
            };
            answer.and_then(|answer| answer.partial_success).map(|part| part.rejected_spans)
        }
        Signal::Metrics => {
            let answer: Option<ExportMetricsServiceResponse> = if json {
                serde_json::from_slice(answer).ok()
            } else {
                ExportMetricsServiceResponse::decode(answer).ok()
            };
            answer.and_then(|answer| answer.partial_success).map(|part| part.rejected_data_points)
        }
    };
    count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}
