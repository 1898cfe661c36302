//! The connection to an editor: which request is answered by what.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::path::{Component, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deepagents::core::journal::ThreadInfo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{FramedRead, FramedWrite};

use crate::editor::Editor;
use crate::host::{AgentHost, McpServer, McpTransport};
use crate::lines::MessageLines;
use crate::queue::{Place, Queue};
use crate::session::{NewSession, Session, list, real, refused, remembered};
use crate::wire;

/// How long runs may take to end when the editor has gone.
const LEAVE: Duration = Duration::from_secs(2);

/// The connection broke.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the connection to the editor broke: {0}")]
pub struct ServeError(String);

/// Serves an editor at the other end of a connection, until it closes it. Runs that are under way then are ended, so that
/// their threads can be gone on with.
///
/// # Errors
/// When the connection breaks off.
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
    });
    let (to, from) =
        (FramedWrite::new(writer, MessageLines::default()), FramedRead::new(reader, MessageLines::default()));
    let transport = wire::Lines::new(to, from);
    let served = connect(&server, transport).await;
    let open: Vec<_> = server.sessions().drain().map(|(_, session)| session).collect();
    let ends = open.iter().map(|session| session.close());
    // A tool that ignores its end must not hold the program.
    let _ = tokio::time::timeout(LEAVE, futures_util::future::join_all(ends)).await;
    served.map_err(|error| ServeError(error.to_string()))
}

/// The sessions of a connection.
struct Server<H> {
    host: Arc<H>,
    sessions: Mutex<HashMap<wire::SessionId, Arc<Session<H>>>>,
    /// Of the requests that open and close sessions, by thread: they are answered one after the other.
    openings: Mutex<HashMap<wire::SessionId, Queue>>,
    /// What the editor can do.
    client: Mutex<Arc<wire::ClientCapabilities>>,
}

/// Answers a request by a task of its own: what is awaited in a handler holds up all that comes after it.
fn answer<T: wire::JsonRpcResponse>(
    responder: wire::Responder<T>,
    work: impl Future<Output = Result<T, wire::Error>> + Send + 'static,
) -> Result<(), wire::Error> {
    tokio::spawn(async move {
        let result = responder.cancellation().run_until_cancelled(work).await;
        // An editor that is gone wants no answer.
        let _ = responder.respond_with_result(result);
    });
    Ok(())
}

/// Answers a request that opens a session, and tells its commands once the editor knows of it.
fn answer_opened<T: wire::JsonRpcResponse, H: AgentHost>(
    responder: wire::Responder<T>,
    work: impl Future<Output = Result<(T, Arc<Session<H>>), wire::Error>> + Send + 'static,
) -> Result<(), wire::Error> {
    tokio::spawn(async move {
        match responder.cancellation().run_until_cancelled(work).await {
            Ok((response, session)) => {
                let _ = responder.respond(response);
                session.editor().update(session.commands());
            }
            Err(error) => drop(responder.respond_with_error(error)),
        }
    });
    Ok(())
}

#[allow(clippy::too_many_lines, reason = "a list: one request, one handler")]
async fn connect<H: AgentHost>(
    server: &Arc<Server<H>>,
    transport: impl wire::ConnectTo<wire::Agent> + 'static,
) -> Result<(), wire::Error> {
    /// A handler that hands the request to a method of the server.
    macro_rules! request {
        ($method:ident: $request:ident) => {
            request!($method: $request, answer)
        };
        ($method:ident: $request:ident, $answer:ident) => {{
            let server = server.clone();
            async move |request: wire::$request, responder, connection: wire::Connection| {
                $answer(responder, server.clone().$method(request, connection))
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
                // Keys are the program's own; no way to log in was offered.
                let why = format!("there is no way to log in `{}`; none was offered", request.method_id);
                responder.respond_with_error(wire::invalid(why))
            },
            wire::on_receive_request!(),
        )
        .on_receive_request(request!(new_session: NewSessionRequest, answer_opened), wire::on_receive_request!())
        .on_receive_request(request!(load_session: LoadSessionRequest, answer_opened), wire::on_receive_request!())
        .on_receive_request(request!(resume_session: ResumeSessionRequest, answer_opened), wire::on_receive_request!())
        .on_receive_request(request!(list_sessions: ListSessionsRequest), wire::on_receive_request!())
        .on_receive_request(request!(close_session: CloseSessionRequest), wire::on_receive_request!())
        .on_receive_request(request!(delete_session: DeleteSessionRequest), wire::on_receive_request!())
        .on_receive_request(request!(set_mode: SetSessionModeRequest), wire::on_receive_request!())
        .on_receive_request(request!(set_option: SetSessionConfigOptionRequest), wire::on_receive_request!())
        .on_receive_request(
            async move |request: wire::PromptRequest, responder, _connection| {
                let session = match prompted.session(&request.session_id) {
                    Ok(session) => session,
                    Err(error) => return responder.respond_with_error(error),
                };
                // Here and not in the task, so that a cancel that comes next finds it.
                let ticket = session.begin();
                let cancel = ticket.cancel.clone();
                tokio::spawn(async move {
                    let withdrawn = responder.cancellation();
                    let work = session.prompt(request.prompt, ticket);
                    tokio::pin!(work);
                    let result = tokio::select! {
                        result = &mut work => result.map(wire::PromptResponse::new),
                        () = withdrawn.cancelled() => {
                            cancel.cancel();
                            work.await.and(Err(wire::Error::request_cancelled()))
                        }
                    };
                    let _ = responder.respond_with_result(result);
                });
                Ok(())
            },
            wire::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: wire::CancelNotification, _connection| {
                // A cancel for nobody does no harm.
                if let Ok(session) = cancelled.session(&notification.session_id) {
                    session.cancel();
                }
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

    /// Takes the next place among the requests that open and close a session. Must be called in the order in which they
    /// come.
    fn place(&self, id: &wire::SessionId) -> Place {
        let mut openings = self.openings.lock().unwrap_or_else(PoisonError::into_inner);
        openings.retain(|_, queue| queue.is_used());
        openings.entry(id.clone()).or_default().place()
    }

    /// Says what the agent can do, in version 1 of the protocol whatever the editor asks for.
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

    /// Makes a session that the editor can use.
    async fn open(
        &self,
        connection: wire::Connection,
        thread: String,
        known: Option<&ThreadInfo>,
        cwd: PathBuf,
        servers: Vec<wire::McpServer>,
    ) -> Result<Arc<Session<H>>, wire::Error> {
        if !cwd.is_absolute() {
            return Err(wire::invalid(format!("the directory `{}` is not absolute", cwd.display())));
        }
        // Paths below it are told to the editor, which compares them with its own.
        let cwd = if cwd.components().any(|part| part == Component::ParentDir) { real(&cwd).await } else { cwd };
        let mcp_servers = servers.into_iter().map(|server| self.mcp_server(server)).collect::<Result<Vec<_>, _>>()?;
        let mut names = HashSet::new();
        if let Some(twice) = mcp_servers.iter().find(|server| !names.insert(server.name.as_str())) {
            return Err(wire::invalid(format!("two MCP servers have the name `{}`", twice.name)));
        }
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let editor = Editor::new(connection, client, wire::SessionId::new(thread.clone()));
        Session::open(self.host.clone(), editor, NewSession { thread, cwd, mcp_servers }, known).await
    }

    fn mcp_server(&self, server: wire::McpServer) -> Result<McpServer, wire::Error> {
        let headers = |headers: Vec<wire::HttpHeader>| headers.into_iter().map(|h| (h.name, h.value)).collect();
        let mcp = self.host.mcp();
        let (name, transport, taken) = match server {
            wire::McpServer::Stdio(server) => {
                let env: BTreeMap<String, String> = server.env.into_iter().map(|v| (v.name, v.value)).collect();
                let transport = McpTransport::Stdio { command: server.command, args: server.args, env };
                (server.name, transport, mcp.stdio)
            }
            wire::McpServer::Http(server) => {
                (server.name, McpTransport::Http { url: server.url, headers: headers(server.headers) }, mcp.http)
            }
            wire::McpServer::Sse(server) => {
                (server.name, McpTransport::Sse { url: server.url, headers: headers(server.headers) }, mcp.sse)
            }
            _ => return Err(wire::invalid("this kind of MCP server is not known")),
        };
        if !taken {
            return Err(wire::invalid(format!("MCP servers of the kind of `{name}` are not supported")));
        }
        Ok(McpServer { name, transport })
    }

    async fn new_session(
        self: Arc<Self>,
        request: wire::NewSessionRequest,
        connection: wire::Connection,
    ) -> Result<(wire::NewSessionResponse, Arc<Session<H>>), wire::Error> {
        let thread = self.host.new_thread().await.map_err(refused)?;
        let session = self.open(connection, thread, None, request.cwd, request.mcp_servers).await?;
        self.sessions().insert(session.id(), session.clone());
        let response = wire::NewSessionResponse::new(session.id());
        Ok((response.modes(session.modes()).config_options(session.options()), session))
    }

    /// Goes on with a thread: opens it if it is there.
    async fn reopen(
        &self,
        connection: wire::Connection,
        id: &wire::SessionId,
        cwd: PathBuf,
        servers: Vec<wire::McpServer>,
    ) -> Result<Arc<Session<H>>, wire::Error> {
        let Some(thread) = remembered(&*self.host.journal(), &id.0).await? else {
            return Err(wire::no_session(id));
        };
        let session = self.open(connection, id.0.to_string(), Some(&thread), cwd, servers).await?;
        // One that is open under the id goes on where this one cannot be had, and is ended before this one begins.
        let before = self.sessions().insert(session.id(), session.clone());
        if let Some(before) = before {
            end(before).await;
        }
        Ok(session)
    }

    fn load_session(
        self: Arc<Self>,
        request: wire::LoadSessionRequest,
        connection: wire::Connection,
    ) -> impl Future<Output = Result<(wire::LoadSessionResponse, Arc<Session<H>>), wire::Error>> + Send {
        let place = self.place(&request.session_id);
        async move {
            let _turn = place.await;
            let session = self.reopen(connection, &request.session_id, request.cwd, request.mcp_servers).await?;
            session.tell().await?;
            let response = wire::LoadSessionResponse::new().modes(session.modes());
            Ok((response.config_options(session.options()), session))
        }
    }

    fn resume_session(
        self: Arc<Self>,
        request: wire::ResumeSessionRequest,
        connection: wire::Connection,
    ) -> impl Future<Output = Result<(wire::ResumeSessionResponse, Arc<Session<H>>), wire::Error>> + Send {
        let place = self.place(&request.session_id);
        async move {
            let _turn = place.await;
            let session = self.reopen(connection, &request.session_id, request.cwd, request.mcp_servers).await?;
            let response = wire::ResumeSessionResponse::new().modes(session.modes());
            Ok((response.config_options(session.options()), session))
        }
    }

    async fn list_sessions(
        self: Arc<Self>,
        request: wire::ListSessionsRequest,
        _connection: wire::Connection,
    ) -> Result<wire::ListSessionsResponse, wire::Error> {
        list(&*self.host.journal(), request.cwd.as_deref(), request.cursor.as_deref()).await
    }

    fn close_session(
        self: Arc<Self>,
        request: wire::CloseSessionRequest,
        _connection: wire::Connection,
    ) -> impl Future<Output = Result<wire::CloseSessionResponse, wire::Error>> + Send {
        let place = self.place(&request.session_id);
        async move {
            let _turn = place.await;
            let session = self.sessions().remove(&request.session_id);
            end(session.ok_or_else(|| wire::no_session(&request.session_id))?).await;
            Ok(wire::CloseSessionResponse::new())
        }
    }

    fn delete_session(
        self: Arc<Self>,
        request: wire::DeleteSessionRequest,
        _connection: wire::Connection,
    ) -> impl Future<Output = Result<wire::DeleteSessionResponse, wire::Error>> + Send {
        let place = self.place(&request.session_id);
        async move {
            let _turn = place.await;
            let open = self.sessions().remove(&request.session_id);
            if let Some(session) = open {
                end(session).await;
            }
            // One that is not there any more is deleted well enough.
            if remembered(&*self.host.journal(), &request.session_id.0).await?.is_some() {
                self.host.delete(&request.session_id.0).await.map_err(refused)?;
            }
            Ok(wire::DeleteSessionResponse::new())
        }
    }

    async fn set_mode(
        self: Arc<Self>,
        request: wire::SetSessionModeRequest,
        _connection: wire::Connection,
    ) -> Result<wire::SetSessionModeResponse, wire::Error> {
        self.session(&request.session_id)?.change_mode(&request.mode_id.0)?;
        Ok(wire::SetSessionModeResponse::new())
    }

    async fn set_option(
        self: Arc<Self>,
        request: wire::SetSessionConfigOptionRequest,
        _connection: wire::Connection,
    ) -> Result<wire::SetSessionConfigOptionResponse, wire::Error> {
        let session = self.session(&request.session_id)?;
        let options = session.set_option(&request.config_id.0, &request.value).await?;
        Ok(wire::SetSessionConfigOptionResponse::new(options))
    }
}

/// Closes a session to its end, also where the request for it is withdrawn meanwhile.
async fn end<H: AgentHost>(session: Arc<Session<H>>) {
    // A panic is told by the task itself.
    let _ = tokio::spawn(async move { session.close().await }).await;
}
