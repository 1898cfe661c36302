//! A transport that watches what passes through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::{DynamicTransportError, Transport};
use tokio::time::{Instant, timeout_at};

/// How long a server may take to answer the question whether it speaks the newer protocol. One of the older kind may
/// not answer it at all; who is only slow to start is asked the older way, which those of both kinds understand.
pub(crate) const PROBE: Duration = Duration::from_millis(2_500);

/// What was seen to pass.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Counts notices that the list of tools has changed.
    list_changes: AtomicU64,
    /// Whether the server may speak the newer protocol alone, and have been too slow to say so: it answered the probe when it
    /// had been given up, or is an address whose answer was not waited for.
    pub(crate) late_answer: AtomicBool,
}

impl Seen {
    /// How often the list of tools was said to have changed.
    pub(crate) fn list_changes(&self) -> u64 {
        self.list_changes.load(Ordering::Acquire)
    }

    pub(crate) fn list_changed(&self) {
        self.list_changes.fetch_add(1, Ordering::AcqRel);
    }
}

type Sent<'a> = BoxFuture<'a, Result<(), DynamicTransportError>>;

/// A transport of any kind. All have one type, because a client is compiled anew for each type of transport.
trait AnyTransport: Send {
    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> Sent<'static>;
    fn receive(&mut self) -> BoxFuture<'_, Option<RxJsonRpcMessage<RoleClient>>>;
    fn close(&mut self) -> Sent<'_>;
}

impl<T: Transport<RoleClient> + 'static> AnyTransport for T {
    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> Sent<'static> {
        Transport::send(self, message).map(|sent| sent.map_err(DynamicTransportError::new::<T, RoleClient>)).boxed()
    }

    fn receive(&mut self) -> BoxFuture<'_, Option<RxJsonRpcMessage<RoleClient>>> {
        Transport::receive(self).boxed()
    }

    fn close(&mut self) -> Sent<'_> {
        Transport::close(self).map(|closed| closed.map_err(DynamicTransportError::new::<T, RoleClient>)).boxed()
    }
}

/// A transport that answers `server/discover` with an error where a program takes long to do so, and takes note of
/// changed lists in the order of the messages, so that a result that comes after such a notice is never before it.
pub(super) struct Watched {
    inner: Box<dyn AnyTransport>,
    seen: Arc<Seen>,
    /// Whether it may be of the older kind. The requests of an address are probes by themselves.
    probes: bool,
    /// Whether it is a program: what it writes need not answer anything.
    is_program: bool,
    probe: Option<(RequestId, Instant)>,
    given_up: Option<RequestId>,
}

impl Watched {
    /// Watches a transport. A server that may be of the older kind `probes`: one that is known not to be has all the time
    /// that it needs.
    pub(super) fn new(
        inner: impl Transport<RoleClient> + 'static,
        seen: Arc<Seen>,
        probes: bool,
        is_program: bool,
    ) -> Self {
        let probes = probes && is_program;
        Self { inner: Box::new(inner), seen, probes, is_program, probe: None, given_up: None }
    }

    /// What is to be handed on of a message.
    fn passed(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Notification(notification) => {
                if matches!(notification.notification, ServerNotification::ToolListChangedNotification(_)) {
                    self.seen.list_changed();
                }
            }
            JsonRpcMessage::Response(response) => {
                let discovered = matches!(response.result, ServerResult::DiscoverResult(_));
                if self.given_up.as_ref() == Some(&response.id) {
                    self.seen.late_answer.store(discovered, Ordering::Release);
                    return None;
                }
                if self.answers_probe(Some(&response.id)) {
                    let probe = self.probe.take().map(|(id, _)| id);
                    if !discovered {
                        // It answers whatever it does not know with something.
                        return Some(no_answer(probe));
                    }
                }
            }
            // An error about no request. It may be that a server of the older kind did not understand the probe; otherwise it
            // is about a notice, or nothing, and answers nobody.
            JsonRpcMessage::Error(error) if error.id.is_none() && self.is_program => {
                let probe = self.probe.take().map(|(id, _)| id)?;
                self.given_up = Some(probe.clone());
                return Some(no_answer(Some(probe)));
            }
            JsonRpcMessage::Error(error) => {
                if self.answers_probe(error.id.as_ref()) {
                    self.probe = None;
                } else if error.id.is_some() && self.given_up == error.id {
                    return None;
                }
            }
            JsonRpcMessage::Request(_) => {}
        }
        Some(message)
    }

    fn answers_probe(&self, id: Option<&RequestId>) -> bool {
        self.probe.as_ref().is_some_and(|(probe, _)| id.is_none_or(|id| id == probe))
    }
}

impl Transport<RoleClient> for Watched {
    type Error = DynamicTransportError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if self.probes
            && let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.probe = Some((request.id.clone(), Instant::now() + PROBE));
        }
        self.inner.send(message)
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
                        return Some(no_answer(id));
                    }
                },
            };
            if let Some(message) = self.passed(message) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// What a server of the older kind answers the probe with.
fn no_answer(id: Option<RequestId>) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer", None), id)
}
