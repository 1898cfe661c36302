//! The connection to an editor, and the handlers of its requests.

mod sessions;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{FramedRead, FramedWrite};
use tokio_util::sync::CancellationToken;

use crate::backlog::Backlog;
use crate::host::AgentHost;
use crate::lines::MessageLines;
use crate::queue::{Queue, polled};
use crate::session::Session;
use crate::wire;
use sessions::Opened;

/// How long runs may take to end after the editor has disconnected.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The connection to the editor failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the connection to the editor broke: {0}")]
pub struct ServeError(String);

/// Serves an editor until it closes the connection. Runs in flight are then ended, so that their threads can be
/// continued.
///
/// # Errors
/// Returns an error if the connection breaks.
pub async fn serve<H: AgentHost>(
    host: H,
    reader: impl AsyncRead + Send + 'static,
    writer: impl AsyncWrite + Send + 'static,
) -> Result<(), ServeError> {
    let server = Arc::new(Server {
        host: Arc::new(host),
        sessions: Mutex::default(),
        openings: Mutex::default(),
        client: Mutex::default(),
        backlog: Backlog::default(),
    });
    let lines = || MessageLines::new(server.backlog.clone());
    let (to, from) = (FramedWrite::new(writer, lines()), FramedRead::new(reader, lines()));
    let transport = wire::Lines::new(to, from);
    let served = connect(&server, transport).await;
    let open: Vec<_> = server.sessions().drain().map(|(_, session)| session).collect();
    let ends = open.iter().map(|session| session.close());
    // A tool that ignores its cancellation must not block the program.
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, futures_util::future::join_all(ends)).await;
    served.map_err(|error| ServeError(error.to_string()))
}

/// The requests that open, change, close or prompt a session.
#[derive(Default)]
struct Opening {
    queue: Queue,
    /// Cancels the prompts that wait for their place.
    waiting: CancellationToken,
}

/// The sessions of a connection.
struct Server<H> {
    host: Arc<H>,
    sessions: Mutex<HashMap<wire::SessionId, Arc<Session<H>>>>,
    /// Queues that serialise the requests to open, change and close each thread.
    openings: Mutex<HashMap<wire::SessionId, Opening>>,
    /// The capabilities of the editor.
    client: Mutex<Arc<wire::ClientCapabilities>>,
    /// The updates that the editor has not read yet.
    backlog: Backlog,
}

/// Answers a request in its own task, because a handler that awaits blocks all later messages. Work whose request the
/// editor cancels still runs to its end, so that nothing is left half done.
fn answer<T: wire::JsonRpcResponse>(
    responder: wire::Responder<T>,
    work: impl Future<Output = Result<T, wire::Error>> + Send + 'static,
) -> Result<(), wire::Error> {
    let mut work = Box::pin(work);
    // Begun here and not in the task, so that a setting applies to a prompt that follows immediately.
    if let Some(result) = (&mut work).now_or_never() {
        return responder.respond_with_result(result);
    }
    tokio::spawn(async move {
        let cancellation = responder.cancellation();
        // The editor may have disconnected.
        tokio::select! {
            result = &mut work => drop(responder.respond_with_result(result)),
            () = cancellation.cancelled() => {
                drop(responder.respond_with_error(wire::Error::request_cancelled()));
                drop(work.await);
            }
        }
    });
    Ok(())
}

#[allow(clippy::too_many_lines, reason = "a list: one request, one handler")]
async fn connect<H: AgentHost>(
    server: &Arc<Server<H>>,
    transport: impl wire::ConnectTo<wire::Agent> + 'static,
) -> Result<(), wire::Error> {
    /// Builds a handler that passes the request to a method of the server.
    macro_rules! request {
        ($method:ident: $request:ident) => {{
            let server = server.clone();
            async move |request: wire::$request, responder, connection: wire::Connection| {
                answer(responder, server.clone().$method(request, connection))
            }
        }};
        (opens $method:ident: $request:ident) => {{
            let server = server.clone();
            async move |request: wire::$request, responder, connection: wire::Connection| {
                server.clone().answer_opened(responder, server.clone().$method(request, connection))
            }
        }};
    }
    let (initialised, prompted, cancelled) = (server.clone(), server.clone(), server.clone());
    wire::Agent
        .v1()
        .name("deepagents")
        .on_receive_request(
            async move |request: wire::InitializeRequest, responder, _connection| {
                responder.respond(initialised.initialize(request))
            },
            wire::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: wire::AuthenticateRequest,
                        responder: wire::Responder<wire::AuthenticateResponse>,
                        _connection| {
                // The program has its own API keys, so no login method was offered.
                let why = format!("there is no login method `{}`; none was offered", request.method_id);
                responder.respond_with_error(wire::invalid(why))
            },
            wire::on_receive_request!(),
        )
        .on_receive_request(request!(opens new_session: NewSessionRequest), wire::on_receive_request!())
        .on_receive_request(request!(opens load_session: LoadSessionRequest), wire::on_receive_request!())
        .on_receive_request(request!(opens resume_session: ResumeSessionRequest), wire::on_receive_request!())
        .on_receive_request(request!(list_sessions: ListSessionsRequest), wire::on_receive_request!())
        .on_receive_request(request!(close_session: CloseSessionRequest), wire::on_receive_request!())
        .on_receive_request(request!(delete_session: DeleteSessionRequest), wire::on_receive_request!())
        .on_receive_request(request!(set_mode: SetSessionModeRequest), wire::on_receive_request!())
        .on_receive_request(request!(set_option: SetSessionConfigOptionRequest), wire::on_receive_request!())
        .on_receive_request(
            async move |request: wire::PromptRequest, responder, _connection| {
                prompted.answer_prompt(responder, request)
            },
            wire::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: wire::CancelNotification, _connection| {
                cancelled.cancel(&notification.session_id);
                Ok(())
            },
            wire::on_receive_notification!(),
        )
        .connect_to(transport)
        .await
}

impl<H: AgentHost> Server<H> {
    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<wire::SessionId, Arc<Session<H>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self, id: &wire::SessionId) -> Result<Arc<Session<H>>, wire::Error> {
        self.sessions().get(id).cloned().ok_or_else(|| wire::no_session(id))
    }

    /// Answers a prompt. One that follows a request to open, change or close its session waits for the answer to that.
    fn answer_prompt(
        self: &Arc<Self>,
        responder: wire::Responder<wire::PromptResponse>,
        request: wire::PromptRequest,
    ) -> Result<(), wire::Error> {
        let (server, (place, cancel)) = (self.clone(), self.prompt_place(&request.session_id));
        let cancelled = cancel.clone();
        // Registered here and not in the task, so that a cancel that follows immediately applies to it.
        let registered = polled(async move {
            let _turn = place.await;
            let session = server.session(&request.session_id)?;
            let queued = session.register_prompt(cancelled);
            Ok::<_, wire::Error>((session, queued))
        });
        tokio::spawn(async move {
            let withdrawn = responder.cancellation();
            let work = async {
                let (session, queued) = tokio::select! {
                    biased;
                    registered = registered => registered?,
                    // The request before it may take long.
                    () = cancel.cancelled() => return Ok(wire::PromptResponse::new(wire::StopReason::Cancelled)),
                };
                session.prompt(request.prompt, queued).await.map(wire::PromptResponse::new)
            };
            tokio::pin!(work);
            let result = tokio::select! {
                result = &mut work => result,
                () = withdrawn.cancelled() => {
                    cancel.cancel();
                    work.await.and(Err(wire::Error::request_cancelled()))
                }
            };
            let _ = responder.respond_with_result(result);
        });
        Ok(())
    }

    /// Cancels the prompts of a session that came before. A cancel for an unknown session is ignored.
    fn cancel(&self, id: &wire::SessionId) {
        self.cancel_waiting(id);
        if let Ok(session) = self.session(id) {
            session.cancel();
        }
    }

    /// Answers a request that opens a session like [`answer`], and sends the session's commands after the response. A
    /// session that a cancelled request has opened is closed.
    fn answer_opened<T: wire::JsonRpcResponse>(
        self: Arc<Self>,
        responder: wire::Responder<T>,
        work: impl Future<Output = Result<Opened<T, H>, wire::Error>> + Send + 'static,
    ) -> Result<(), wire::Error> {
        tokio::spawn(async move {
            let cancellation = responder.cancellation();
            tokio::pin!(work);
            tokio::select! {
                result = &mut work => match result {
                    Ok(Opened { response, session, .. }) => {
                        if responder.respond(response).is_ok() {
                            session.editor().update(session.commands());
                        } else {
                            // The editor has disconnected, so nobody else closes it.
                            self.close(session.editor().session()).await;
                        }
                    }
                    Err(error) => drop(responder.respond_with_error(error)),
                },
                () = cancellation.cancelled() => {
                    drop(responder.respond_with_error(wire::Error::request_cancelled()));
                    if let Ok(opened) = work.await {
                        self.withdraw(opened).await;
                    }
                }
            }
        });
        Ok(())
    }

    /// Returns the agent's capabilities. The version is always 1, whatever the editor requests.
    fn initialize(&self, request: wire::InitializeRequest) -> wire::InitializeResponse {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(request.client_capabilities);
        let mcp = self.host.mcp();
        let sessions = wire::SessionCapabilities::new()
            .list(wire::SessionListCapabilities::new())
            .resume(wire::SessionResumeCapabilities::new())
            .close(wire::SessionCloseCapabilities::new())
            .delete(wire::SessionDeleteCapabilities::new());
        let capabilities = wire::AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(wire::PromptCapabilities::new().image(true).embedded_context(true))
            .mcp_capabilities(wire::McpCapabilities::new().http(mcp.http).sse(mcp.sse))
            .session_capabilities(sessions);
        let (name, version) = self.host.version();
        wire::InitializeResponse::new(wire::ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(wire::Implementation::new(name, version).title("Deep Agents".to_owned()))
    }
}
