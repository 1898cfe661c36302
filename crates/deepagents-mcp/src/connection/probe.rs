//! A transport that watches what passes through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a server may take to answer the question whether it speaks the newer protocol. One of the older kind may
/// not answer it at all; who is only slow to start is asked the older way, which those of both kinds understand.
const PROBE: Duration = Duration::from_millis(2_500);

/// What was seen to pass.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Counts notices that the list of tools has changed.
    list_changes: AtomicU64,
    /// Whether the server answered the probe when it had been given up.
    pub(super) late_answer: AtomicBool,
}

impl Seen {
    /// How often the list of tools was said to have changed.
    pub(crate) fn list_changes(&self) -> u64 {
        self.list_changes.load(Ordering::Acquire)
    }

    pub(super) fn list_changed(&self) {
        self.list_changes.fetch_add(1, Ordering::AcqRel);
    }
}

/// A transport that answers `server/discover` with an error where the server takes long to do so, and takes note of
/// changed lists in the order of the messages, so that a result that comes after such a notice is never before it.
pub(super) struct Watched<T> {
    inner: T,
    seen: Arc<Seen>,
    probe: Option<(RequestId, Instant)>,
    given_up: Option<RequestId>,
}

impl<T> Watched<T> {
    pub(super) fn new(inner: T, seen: Arc<Seen>) -> Self {
        Self { inner, seen, probe: None, given_up: None }
    }

    /// Whether a message is to be handed on.
    fn passes(&mut self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Notification(notification) => {
                if matches!(notification.notification, ServerNotification::ToolListChangedNotification(_)) {
                    self.seen.list_changed();
                }
            }
            JsonRpcMessage::Response(response) => {
                if self.answers_probe(Some(&response.id)) {
                    self.probe = None;
                }
                if self.given_up.as_ref() == Some(&response.id) {
                    let modern = matches!(response.result, ServerResult::DiscoverResult(_));
                    self.seen.late_answer.store(modern, Ordering::Release);
                    return false;
                }
            }
            JsonRpcMessage::Error(error) => {
                if self.answers_probe(error.id.as_ref()) {
                    self.probe = None;
                }
                return error.id.is_none() || self.given_up != error.id;
            }
            JsonRpcMessage::Request(_) => {}
        }
        true
    }

    fn answers_probe(&self, id: Option<&RequestId>) -> bool {
        self.probe.as_ref().is_some_and(|(probe, _)| id.is_none_or(|id| id == probe))
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let mut limit = None;
        if let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.probe = Some((request.id.clone(), Instant::now() + PROBE));
            limit = Some(PROBE);
        }
        let sent = self.inner.send(message);
        async move {
            match limit {
                // A request that an address does not take in time is one that has no answer.
                Some(limit) => timeout(limit, sent).await.unwrap_or(Ok(())),
                None => sent.await,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = match &self.probe {
                None => self.inner.receive().await?,
                Some((_, until)) => match timeout_at(*until, self.inner.receive()).await {
                    Ok(message) => message?,
                    Err(_) => {
                        let id = self.probe.take().map(|(id, _)| id);
                        self.given_up.clone_from(&id);
                        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer", None);
                        return Some(JsonRpcMessage::error(error, id));
                    }
                },
            };
            if self.passes(&message) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
