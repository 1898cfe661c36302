//! A transport wrapper that observes messages.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
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

/// How long a server may take to answer the `server/discover` probe. A server of the older protocol may not answer it
/// at all. A server that is only slow to start is then sent `initialize`, which servers of both protocols understand.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(2_500);

/// What the wrapper has observed.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    /// Counts notifications that the tool list has changed.
    list_changes: AtomicU64,
    /// Whether the server may speak only the newer protocol and have answered too late: a program answered the probe
    /// after its timeout, or the response of an HTTP server was not awaited.
    pub(crate) late_answer: AtomicBool,
    /// Whether `initialize` was refused as by a server older than streamable HTTP.
    pub(crate) initialize_refused: AtomicBool,
    /// Why the stream of the connection broke off.
    broken: OnceLock<String>,
}

impl Observations {
    /// Returns how many changes of the tool list the server has announced.
    pub(crate) fn list_changes(&self) -> u64 {
        self.list_changes.load(Ordering::Acquire)
    }

    pub(crate) fn list_changed(&self) {
        self.list_changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Records why the stream of the connection broke off.
    pub(crate) fn breaks_off(&self, reason: &str) {
        // A connection has a single stream, so the first reason is the only one.
        let _ = self.broken.set(reason.to_owned());
    }

    /// Returns why the stream of the connection broke off, if it did.
    pub(super) fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }
}

type Sent<'a> = BoxFuture<'a, Result<(), DynamicTransportError>>;

/// A transport of any kind. Type-erased, because the client is compiled once per transport type.
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

/// A transport wrapper that answers `server/discover` with an error if a program does not do so in time. It counts list
/// changes in message order, so a list received after a notification is never taken for an older one.
pub(super) struct Watched {
    inner: Box<dyn AnyTransport>,
    seen: Arc<Observations>,
    /// Whether the server may speak the older protocol and is probed here. Over HTTP, the requests do the probing.
    probes: bool,
    /// Whether the server is a program: its messages need not be responses to anything.
    is_program: bool,
    probe: Option<(RequestId, Instant)>,
    given_up: Option<RequestId>,
    /// The request of the handshake that has no answer yet.
    handshake: Option<RequestId>,
}

impl Watched {
    /// Wraps a transport. `probes` is `false` if the server is known not to speak the older protocol; it then has no
    /// time limit.
    pub(super) fn new(
        inner: impl Transport<RoleClient> + 'static,
        seen: Arc<Observations>,
        probes: bool,
        is_program: bool,
    ) -> Self {
        let probes = probes && is_program;
        Self { inner: Box::new(inner), seen, probes, is_program, probe: None, given_up: None, handshake: None }
    }

    /// Returns the message to pass on, if any.
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
                        // The server answers unknown methods with an arbitrary result.
                        return Some(unsupported_probe(probe));
                    }
                }
            }
            // An error without a request ID. A server of the older protocol may not have understood the probe.
            // Otherwise the error is about a notification or nothing, and is dropped.
            JsonRpcMessage::Error(error) if error.id.is_none() && self.is_program => {
                let probe = self.probe.take().map(|(id, _)| id)?;
                self.given_up = Some(probe.clone());
                return Some(unsupported_probe(Some(probe)));
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

    /// Whether a message answers something else than the open request of the handshake. The handshake would fail with
    /// it, although later such answers are ignored; it may be left over from an earlier session.
    fn is_foreign(&self, message: &ServerJsonRpcMessage) -> bool {
        let answered = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        answered.zip(self.handshake.as_ref()).is_some_and(|(answered, asked)| answered != asked)
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
        if let JsonRpcMessage::Request(request) = &message {
            let discovers = matches!(request.request, ClientRequest::DiscoverRequest(_));
            if self.probes && discovers {
                self.probe = Some((request.id.clone(), Instant::now() + PROBE_TIMEOUT));
            }
            let begins = discovers || matches!(request.request, ClientRequest::InitializeRequest(_));
            self.handshake = begins.then(|| request.id.clone());
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
                        return Some(unsupported_probe(id));
                    }
                },
            };
            if let Some(message) = self.passed(message).filter(|message| !self.is_foreign(message)) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// The error of a server of the older protocol that does not know the probe.
fn unsupported_probe(id: Option<RequestId>) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer", None), id)
}
