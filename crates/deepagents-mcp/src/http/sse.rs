//! The transport before streamable HTTP (HTTP+SSE, protocol 2024-11-05): one stream of events, whose first one says
//! where messages are sent to, and which all answers come on. A stream that ends is the end of the connection.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::Url;
use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Failure, Headers};
use crate::connection::Seen;

/// How long a stream may take to say where messages are sent to.
const ENDPOINT: Duration = Duration::from_secs(5);
/// Refusals of messages that wait to be taken in.
const REFUSALS: usize = 16;

/// Why there is no such connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The stream was not opened.
    #[error(transparent)]
    Refused(#[from] Failure),
    /// The stream does not say where messages are sent to.
    #[error("its stream of events does not say where messages are sent to")]
    NoEndpoint,
    /// Messages, and the headers with them, would be sent to another origin.
    #[error("its stream of events wants messages to be sent to {0}, which is another origin than its own")]
    Origin(String),
}

/// A connection over one stream of events.
pub(crate) struct SseTransport<C> {
    client: C,
    endpoint: Arc<str>,
    token: Option<String>,
    headers: Headers,
    events: BoxStream<'static, Result<Sse, SseError>>,
    /// Errors of the protocol that messages were answered with at once.
    refusals: (mpsc::Sender<ServerJsonRpcMessage>, mpsc::Receiver<ServerJsonRpcMessage>),
    seen: Arc<Seen>,
}

impl<C: StreamableHttpClient<Error = reqwest::Error>> SseTransport<C> {
    /// Opens the stream and waits for the address of messages.
    pub(crate) async fn open(
        client: C,
        config: StreamableHttpClientTransportConfig,
        seen: Arc<Seen>,
    ) -> Result<Self, OpenError> {
        let StreamableHttpClientTransportConfig { uri, auth_header: token, custom_headers: headers, .. } = config;
        let mut events = client.get_stream(uri.clone(), None, None, token.clone(), headers.clone()).await?;
        let said = timeout(ENDPOINT, endpoint_event(&mut events)).await.ok().flatten().ok_or(OpenError::NoEndpoint)?;
        let endpoint = endpoint(&uri, &said)?;
        Ok(Self { client, endpoint, token, headers, events, refusals: mpsc::channel(REFUSALS), seen })
    }
}

/// What the event says that is the first one; pings and the like may be before it.
async fn endpoint_event(events: &mut BoxStream<'static, Result<Sse, SseError>>) -> Option<String> {
    while let Some(Ok(event)) = events.next().await {
        if event.event.as_deref() == Some("endpoint") {
            return event.data;
        }
    }
    None
}

/// The address of messages, relative to that of the stream.
fn endpoint(stream: &str, said: &str) -> Result<Arc<str>, OpenError> {
    let stream = Url::parse(stream).map_err(|_| OpenError::NoEndpoint)?;
    let endpoint = stream.join(said.trim()).map_err(|_| OpenError::NoEndpoint)?;
    if endpoint.origin() != stream.origin() {
        let shown = crate::text::line(&super::shown_address(endpoint.as_str()), 200);
        return Err(OpenError::Origin(shown));
    }
    Ok(endpoint.as_str().into())
}

impl<C: StreamableHttpClient<Error = reqwest::Error>> Transport<RoleClient> for SseTransport<C> {
    type Error = Failure;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (client, endpoint, refused) = (self.client.clone(), self.endpoint.clone(), self.refusals.0.clone());
        let (token, headers) = (self.token.clone(), self.headers.clone());
        async move {
            match client.post_message(endpoint, message, None, token, headers).await {
                Ok(StreamableHttpPostResponse::Json(refusal, _)) => {
                    // Nobody takes it in where the connection has ended.
                    let _ = refused.send(refusal).await;
                    Ok(())
                }
                Ok(_) => Ok(()),
                // The address has the id of the session in it.
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
                    // Those that are no messages, such as pings, have another name or no data.
                    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
                    let data = event.data.filter(|_| is_message).unwrap_or_default();
                    if let Ok(message) = serde_json::from_str(&data) {
                        return Some(message);
                    }
                }
                Err(error) => {
                    self.seen.breaks_off(&super::reason(&error));
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
