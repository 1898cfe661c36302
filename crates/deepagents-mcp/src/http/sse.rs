//! HTTP+SSE (protocol 2024-11-05), the transport before streamable HTTP. A single event stream carries all responses,
//! and its first event names the address for messages. The connection ends with the stream.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::Url;
use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::{Failure, Headers, Requests};

/// Time limit for the event that names the address for messages.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for the confirmation that a message was received, with a socket open. It is as long as a call may
/// take, because some servers confirm a call when it is done.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(3_600);
/// The same for answers and notices of ours, of which nothing comes back.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many of our answers and notices are sent at a time, and how many may wait for that. A server that asks without
/// end and confirms nothing must not use up the sockets of this process; answers beyond that are dropped.
const MAX_SENDING: usize = 16;
const MAX_UNSENT: usize = 1_024;
/// Capacity of the channel of error responses.
const MAX_REFUSALS: usize = 16;

/// Why the connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The stream could not be opened.
    #[error(transparent)]
    Refused(#[from] Failure),
    /// The stream does not name an address for messages.
    #[error("its stream of events does not say where messages are sent to")]
    NoEndpoint,
    /// The messages, with their headers, would be sent to another origin.
    #[error("its stream of events wants messages to be sent to {0}, which is another origin than its own")]
    Origin(String),
}

/// A connection over one event stream.
pub(crate) struct SseTransport {
    requests: Requests,
    endpoint: Arc<str>,
    token: Option<String>,
    headers: Headers,
    events: BoxStream<'static, Result<Sse, SseError>>,
    /// JSON-RPC errors that came in the HTTP response to a message.
    refusals: (mpsc::Sender<ServerJsonRpcMessage>, mpsc::Receiver<ServerJsonRpcMessage>),
    notices: Notices,
}

/// Limits how many messages other than requests are sent at a time, and wait to be sent.
#[derive(Clone)]
struct Notices {
    sending: Arc<Semaphore>,
    unsent: Arc<Semaphore>,
}

impl SseTransport {
    /// Opens the stream and waits for the address for messages.
    pub(crate) async fn open(
        requests: Requests,
        config: StreamableHttpClientTransportConfig,
    ) -> Result<Self, OpenError> {
        let StreamableHttpClientTransportConfig { uri, auth_header: token, custom_headers: headers, .. } = config;
        let mut events = requests.get_stream(uri.clone(), None, None, token.clone(), headers.clone()).await?;
        let said =
            timeout(ENDPOINT_TIMEOUT, endpoint_event(&mut events)).await.ok().flatten().ok_or(OpenError::NoEndpoint)?;
        let endpoint = endpoint(&uri, &said)?;
        let notices =
            Notices { sending: Arc::new(Semaphore::new(MAX_SENDING)), unsent: Arc::new(Semaphore::new(MAX_UNSENT)) };
        Ok(Self { requests, endpoint, token, headers, events, refusals: mpsc::channel(MAX_REFUSALS), notices })
    }
}

/// Returns the data of the `endpoint` event. Other events, such as pings, may precede it.
async fn endpoint_event(events: &mut BoxStream<'static, Result<Sse, SseError>>) -> Option<String> {
    while let Some(Ok(event)) = events.next().await {
        if event.event.as_deref() == Some("endpoint") {
            return event.data;
        }
    }
    None
}

/// Resolves the address for messages against that of the stream. Returns an error if its origin differs.
fn endpoint(stream: &str, said: &str) -> Result<Arc<str>, OpenError> {
    let stream = Url::parse(stream).map_err(|_| OpenError::NoEndpoint)?;
    let endpoint = stream.join(said.trim()).map_err(|_| OpenError::NoEndpoint)?;
    if endpoint.origin() != stream.origin() {
        let shown = crate::text::line(&super::shown_address(endpoint.as_str()), 200);
        return Err(OpenError::Origin(shown));
    }
    Ok(endpoint.as_str().into())
}

impl Transport<RoleClient> for SseTransport {
    type Error = Failure;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (requests, endpoint, refused) = (self.requests.clone(), self.endpoint.clone(), self.refusals.0.clone());
        let (token, headers, notices) = (self.token.clone(), self.headers.clone(), self.notices.clone());
        async move {
            let is_request = matches!(message, JsonRpcMessage::Request(_));
            let (_unsent, _sending, limit) = match is_request {
                true => (None, None, RECEIPT_TIMEOUT),
                false => {
                    let Ok(unsent) = notices.unsent.try_acquire_owned() else { return Ok(()) };
                    // Cannot fail: the semaphore is never closed.
                    (Some(unsent), notices.sending.acquire_owned().await.ok(), NOTICE_TIMEOUT)
                }
            };
            let posted = requests.post_message(endpoint, message, None, token, headers);
            // The result comes on the event stream, whether or not receipt was confirmed.
            let Ok(posted) = timeout(limit, posted).await else { return Ok(()) };
            match posted {
                Ok(StreamableHttpPostResponse::Json(refusal, _)) => {
                    // If the connection has ended, nobody receives the error.
                    let _ = refused.send(refusal).await;
                    Ok(())
                }
                Ok(_) => Ok(()),
                // The URL contains the session id.
                Err(Failure::Client(error)) => Err(Failure::Client(error.without_url())),
                Err(error) => Err(error),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let event = tokio::select! {
                refusal = self.refusals.1.recv() => return refusal,
                event = self.events.next() => event?,
            };
            match event {
                Ok(event) => {
                    // Events that are not messages, such as pings, have another name or no data.
                    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
                    let data = event.data.filter(|_| is_message).unwrap_or_default();
                    if let Ok(message) = serde_json::from_str(&data) {
                        return Some(message);
                    }
                }
                Err(error) => {
                    self.requests.seen.breaks_off(&super::reason(&error));
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = futures_util::stream::empty().boxed();
        Ok(())
    }
}
