//! Handles session requests: new, load, resume, list, change, close and delete.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::path::{Component, PathBuf};
use std::sync::{Arc, PoisonError};

use deepagents::core::journal::ThreadInfo;
use tokio_util::sync::CancellationToken;

use super::Server;
use crate::editor::Editor;
use crate::host::{AgentHost, McpServer, McpTransport};
use crate::queue::{Place, Turn};
use crate::session::{Session, list, real, refused, remembered};
use crate::wire;

/// What the editor is sent of a thread that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replay {
    Conversation,
    Nothing,
}

/// A session that a request has opened.
pub(super) struct Opened<T, H> {
    pub(super) response: T,
    pub(super) session: Arc<Session<H>>,
    /// Whether the editor had the thread open before.
    replaces: bool,
    /// The requests for this session that follow wait until this one is answered or withdrawn.
    _turn: Turn,
}

impl<H: AgentHost> Server<H> {
    pub(super) async fn new_session(
        self: Arc<Self>,
        request: wire::NewSessionRequest,
        connection: wire::Connection,
    ) -> Result<Opened<wire::NewSessionResponse, H>, wire::Error> {
        let id = wire::SessionId::new(self.host.new_thread().await.map_err(refused)?);
        let turn = self.place(&id).await;
        let session = self.open(connection, id.clone(), None, request.cwd, request.mcp_servers).await?;
        self.sessions().insert(id.clone(), session.clone());
        let response = wire::NewSessionResponse::new(id).modes(session.modes()).config_options(session.options());
        Ok(Opened { response, session, replaces: false, _turn: turn })
    }

    pub(super) fn load_session(
        self: Arc<Self>,
        request: wire::LoadSessionRequest,
        connection: wire::Connection,
    ) -> impl Future<Output = Result<Opened<wire::LoadSessionResponse, H>, wire::Error>> + Send {
        let place = self.place(&request.session_id);
        async move {
            let turn = place.await;
            let (session, replaces) = self
                .reopen(connection, &request.session_id, request.cwd, request.mcp_servers, Replay::Conversation)
                .await?;
            let response = wire::LoadSessionResponse::new().modes(session.modes()).config_options(session.options());
            Ok(Opened { response, session, replaces, _turn: turn })
        }
    }

    pub(super) fn resume_session(
        self: Arc<Self>,
        request: wire::ResumeSessionRequest,
        connection: wire::Connection,
    ) -> impl Future<Output = Result<Opened<wire::ResumeSessionResponse, H>, wire::Error>> + Send {
        let place = self.place(&request.session_id);
        async move {
            let turn = place.await;
            let (session, replaces) =
                self.reopen(connection, &request.session_id, request.cwd, request.mcp_servers, Replay::Nothing).await?;
            let response = wire::ResumeSessionResponse::new().modes(session.modes()).config_options(session.options());
            Ok(Opened { response, session, replaces, _turn: turn })
        }
    }

    pub(super) async fn list_sessions(
        self: Arc<Self>,
        request: wire::ListSessionsRequest,
        _connection: wire::Connection,
    ) -> Result<wire::ListSessionsResponse, wire::Error> {
        list(&*self.host.journal(), request.cwd.as_deref(), request.cursor.as_deref()).await
    }

    pub(super) fn close_session(
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

    pub(super) fn delete_session(
        self: Arc<Self>,
        request: wire::DeleteSessionRequest,
        _connection: wire::Connection,
    ) -> impl Future<Output = Result<wire::DeleteSessionResponse, wire::Error>> + Send {
        let place = self.place(&request.session_id);
        async move {
            let _turn = place.await;
            self.close(&request.session_id).await;
            // Deleting a thread that does not exist succeeds.
            if remembered(&*self.host.journal(), &request.session_id.0).await?.is_some() {
                self.host.delete(&request.session_id.0).await.map_err(refused)?;
            }
            Ok(wire::DeleteSessionResponse::new())
        }
    }

    pub(super) fn set_mode(
        self: Arc<Self>,
        request: wire::SetSessionModeRequest,
        _connection: wire::Connection,
    ) -> impl Future<Output = Result<wire::SetSessionModeResponse, wire::Error>> + Send {
        let place = self.place(&request.session_id);
        async move {
            let _turn = place.await;
            self.session(&request.session_id)?.change_mode(&request.mode_id.0)?;
            Ok(wire::SetSessionModeResponse::new())
        }
    }

    pub(super) fn set_option(
        self: Arc<Self>,
        request: wire::SetSessionConfigOptionRequest,
        _connection: wire::Connection,
    ) -> impl Future<Output = Result<wire::SetSessionConfigOptionResponse, wire::Error>> + Send {
        let place = self.place(&request.session_id);
        async move {
            let turn = place.await;
            let session = self.session(&request.session_id)?;
            let change = session.register_change(&request.config_id.0);
            // What follows does not wait while the agent is rebuilt: a mode applies at once.
            drop(turn);
            let options = session.set_option(&request.config_id.0, &request.value, change).await?;
            Ok(wire::SetSessionConfigOptionResponse::new(options))
        }
    }

    /// Closes a session that the editor does not want any more, unless it had the thread open before.
    pub(super) async fn withdraw<T>(&self, opened: Opened<T, H>) {
        if !opened.replaces {
            self.close(opened.session.editor().session()).await;
        }
    }

    /// Closes a session, if it is open. Whoever removes a session ends it: when the editor disconnects, all are
    /// removed.
    pub(super) async fn close(&self, id: &wire::SessionId) {
        let open = self.sessions().remove(id);
        if let Some(session) = open {
            end(session).await;
        }
    }

    /// Opens an existing thread. Returns its session, and whether it replaces one. If that fails, a session already
    /// open under this ID stays.
    async fn reopen(
        &self,
        connection: wire::Connection,
        id: &wire::SessionId,
        cwd: PathBuf,
        servers: Vec<wire::McpServer>,
        replay: Replay,
    ) -> Result<(Arc<Session<H>>, bool), wire::Error> {
        let thread = remembered(&*self.host.journal(), &id.0).await?;
        // An open session that was never prompted has no thread yet.
        if thread.is_none() && !self.sessions().contains_key(id) {
            return Err(wire::no_session(id));
        }
        let session = self.open(connection, id.clone(), thread.as_ref(), cwd, servers).await?;
        if let Ok(open) = self.session(id) {
            // What its run says until it ends is part of the conversation. Further prompts wait for the answer.
            open.stop().await;
        }
        if replay == Replay::Conversation
            && let Err(error) = session.replay_conversation().await
        {
            end(session).await;
            return Err(error);
        }
        // Whoever removes a session ends it: it is gone if the editor has disconnected meanwhile.
        let before = self.sessions().insert(id.clone(), session.clone());
        let replaces = before.is_some();
        if let Some(before) = before {
            end(before).await;
        }
        Ok((session, replaces))
    }

    /// Opens a session for the editor.
    async fn open(
        &self,
        connection: wire::Connection,
        id: wire::SessionId,
        known: Option<&ThreadInfo>,
        cwd: PathBuf,
        servers: Vec<wire::McpServer>,
    ) -> Result<Arc<Session<H>>, wire::Error> {
        if !cwd.is_absolute() {
            return Err(wire::invalid(format!("the directory `{}` is not absolute", cwd.display())));
        }
        // The editor compares the paths it gets with its own, so links are resolved only if the path contains `..`.
        let cwd = if cwd.components().any(|part| part == Component::ParentDir) { real(&cwd).await } else { cwd };
        let mcp_servers = servers.into_iter().map(|server| self.mcp_server(server)).collect::<Result<Vec<_>, _>>()?;
        if mcp_servers.iter().any(|server| server.name.trim().is_empty()) {
            return Err(wire::invalid("an MCP server needs a name"));
        }
        let mut names = HashSet::new();
        if let Some(twice) = mcp_servers.iter().find(|server| !names.insert(server.name.as_str())) {
            return Err(wire::invalid(format!("two MCP servers have the name `{}`", twice.name)));
        }
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let editor = Editor::new(connection, client, id, self.backlog.clone());
        Session::open(self.host.clone(), editor, cwd, mcp_servers, known).await
    }

    /// Takes the next place in the queue of requests that open, change, close or prompt a session. Must be called in
    /// the order in which the requests arrive.
    fn place(&self, id: &wire::SessionId) -> Place {
        self.prompt_place(id).0
    }

    /// Takes the next [`place`](Self::place) and returns it with a token that is cancelled with the prompts that wait for
    /// their places.
    pub(super) fn prompt_place(&self, id: &wire::SessionId) -> (Place, CancellationToken) {
        let mut openings = self.openings.lock().unwrap_or_else(PoisonError::into_inner);
        openings.retain(|_, opening| opening.queue.is_used());
        let opening = openings.entry(id.clone()).or_default();
        (opening.queue.place(), opening.waiting.child_token())
    }

    /// Cancels the prompts that wait for their places.
    pub(super) fn cancel_waiting(&self, id: &wire::SessionId) {
        let mut openings = self.openings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opening) = openings.get_mut(id) {
            std::mem::take(&mut opening.waiting).cancel();
        }
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
}

/// Closes a session completely, even if the request is cancelled meanwhile.
async fn end<H: AgentHost>(session: Arc<Session<H>>) {
    // A panic is reported by the task itself.
    let _ = tokio::spawn(async move { session.close().await }).await;
}
