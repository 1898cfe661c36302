//! Sessions of HTTP clients. A session ends after an idle time without open requests: a task, or a person who is asked,
//! may take hours without a message.

use std::collections::HashSet;
use std::time::Duration;

use futures_core::Stream;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::SessionId;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionManager};
use tokio::time::{Instant, timeout_at};

type LocalTransport = <LocalSessionManager as SessionManager>::Transport;

/// The sessions, in memory.
#[derive(Debug)]
pub(super) struct Sessions {
    inner: LocalSessionManager,
    /// How long a session may be idle.
    idle: Duration,
}

impl Sessions {
    pub(super) fn new(idle: Duration) -> Self {
        let mut inner = LocalSessionManager::default();
        // `keep_alive` counts messages only, so it would end sessions with requests in flight.
        inner.session_config.keep_alive = None;
        Self { inner, idle }
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = Idling;

    async fn create_session(&self) -> Result<(SessionId, Idling), Self::Error> {
        let (id, inner) = self.inner.create_session().await?;
        Ok((id, Idling { inner, idle: self.idle, open: HashSet::new(), last_activity: Instant::now() }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.resume(id, last_event_id).await
    }
}

/// The messages of a session. The stream ends once the session has been idle, without open requests, for too long.
pub(super) struct Idling {
    inner: LocalTransport,
    idle: Duration,
    /// Requests in flight.
    open: HashSet<RequestId>,
    last_activity: Instant,
}

impl Idling {
    fn received(&mut self, message: &ClientJsonRpcMessage) {
        self.last_activity = Instant::now();
        match message {
            JsonRpcMessage::Request(request) => drop(self.open.insert(request.id.clone())),
            // A cancelled request may get no response.
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }
}

impl Transport<RoleServer> for Idling {
    type Error = <LocalTransport as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = answered {
            self.open.remove(id);
            self.last_activity = Instant::now();
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        // A deadline that overflows never passes.
        let until = self.last_activity.checked_add(self.idle).filter(|_| self.open.is_empty());
        let message = match until {
            Some(until) => timeout_at(until, self.inner.receive()).await.ok()??,
            None => self.inner.receive().await?,
        };
        self.received(&message);
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
