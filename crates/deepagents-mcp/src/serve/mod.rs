//! Serves an agent over MCP, as a tool that gives the agent a task and, optionally, with tools of its own.
//!
//! Progress notifications report the steps of a task, and a client cancels it like any request. When the agent needs an
//! approval, the client's user is asked by elicitation. If the client does not support that, the action is rejected.
//! Both protocols are supported.

mod approvals;
mod asking;
mod http;
mod lines;
mod own;
mod sessions;
mod task;

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::journal::ThreadInfo;
use deepagents_core::message::{Block, MediaKind, MediaSource};
use deepagents_core::tool::{ToolOutput, ToolSpec};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
    ErrorData, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations, object,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use lines::{UNUSABLE, readable_lines};

/// Name of the tool that gives the agent a task.
const TASK: &str = "agent";

/// Default time after which an idle HTTP session ends.
const SESSION_IDLE: Duration = Duration::from_secs(3_600);

/// Methods handled here whose parameters may be invalid.
const READ: [&str; 6] =
    ["initialize", "tools/call", "tools/list", "resources/list", "resources/templates/list", "prompts/list"];

/// An agent as an MCP server.
///
/// ```no_run
/// use deepagents_core::agent::Agent;
/// use deepagents_mcp::serve::AgentServer;
/// # async fn f(agent: Agent) -> Result<(), Box<dyn std::error::Error>> {
/// AgentServer::new(&agent).description("Looks after the notes of a small office.").serve_stdio().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct AgentServer {
    agent: Agent,
    description: String,
    tools: Arc<[String]>,
    read_only: Arc<[String]>,
    asks: bool,
    session_idle: Duration,
    note: JsonObject,
    thread_check: Option<Arc<ThreadCheck>>,
}

/// See [`AgentServer::check_threads`].
type ThreadCheck = dyn Fn(&ThreadInfo) -> Result<(), String> + Send + Sync;

impl std::fmt::Debug for AgentServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("AgentServer");
        shown.field("agent", &self.agent).field("tools", &self.tools).field("asks", &self.asks).finish_non_exhaustive()
    }
}

/// Why an agent could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The handshake with the client failed.
    #[error("the client did not begin according to the protocol: {0}")]
    Handshake(String),
    /// The server cannot listen on the address, or the address is not loopback.
    #[error("{0}")]
    Address(String),
}

impl AgentServer {
    /// Creates a server for an agent. If the agent has a journal, a task can continue the thread of an earlier one.
    pub fn new(agent: &Agent) -> Self {
        let description =
            "Gives a task to an agent that plans, works with files, and answers when it is done.".to_owned();
        Self {
            agent: agent.clone(),
            description,
            tools: Arc::new([]),
            read_only: Arc::new([]),
            asks: true,
            session_idle: SESSION_IDLE,
            note: JsonObject::new(),
            thread_check: None,
        }
    }

    /// Sets the description of the agent that clients see.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Also offers these tools of the agent directly, such as its file tools. Each call stands alone.
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Marks directly offered tools as read-only, so that clients need not ask before calling them.
    #[must_use]
    pub fn read_only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.read_only = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets after how long an idle HTTP session ends; an hour by default. A session with a request in flight never
    /// ends, however long the task takes.
    #[must_use]
    pub fn session_idle(mut self, idle: Duration) -> Self {
        self.session_idle = idle;
        self
    }

    /// Sets metadata of threads while a task runs in them, in addition to the `title` of a new thread; see
    /// [`RunInput::note`](deepagents_core::run::RunInput::note).
    #[must_use]
    pub fn note(mut self, metadata: serde_json::Map<String, Value>) -> Self {
        self.note = metadata;
        self
    }

    /// Sets a check for the threads that a task is to continue. If it returns an error, the task is refused with this
    /// text. The check must not block.
    #[must_use]
    pub fn check_threads(mut self, check: impl Fn(&ThreadInfo) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.thread_check = Some(Arc::new(check));
        self
    }

    /// Sets whether the client's user may be asked for approvals. If `false`, actions that need one are rejected.
    #[must_use]
    pub fn asks(mut self, asks: bool) -> Self {
        self.asks = asks;
        self
    }

    /// Serves the client on stdin and stdout until it disconnects.
    ///
    /// # Errors
    /// Returns an error if the handshake fails.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        let (stdin, stdout) = rmcp::transport::stdio();
        self.serve_lines(stdin, stdout).await
    }

    /// Serves a client over two pipes, one message per line, until it disconnects.
    ///
    /// # Errors
    /// Returns an error if the handshake fails.
    pub async fn serve_lines(
        self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), ServeError> {
        let failed = |error: &dyn std::fmt::Display| ServeError::Handshake(crate::text::line(&error.to_string(), 300));
        let transport = (readable_lines(read), write);
        let service = self.serve(transport).await.map_err(|error| failed(&error))?;
        service.waiting().await.map(drop).map_err(|error| failed(&error))
    }

    /// Describes the task tool to clients.
    fn task_tool(&self) -> Tool {
        let schema = json!({
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "What is to be done"},
                "thread": {"type": "string", "description": "The thread of an earlier task, to go on with it"},
            },
            "required": ["task"],
        });
        Tool::new(TASK, self.description.clone(), object(schema))
            .with_annotations(ToolAnnotations::new().read_only(false).open_world(true))
    }

    /// Returns the agent's tools that are offered directly.
    fn own_tools(&self) -> impl Iterator<Item = &ToolSpec> {
        let specs = self.agent.tools().iter().map(AsRef::as_ref);
        specs.filter(|spec: &&ToolSpec| self.tools.contains(&spec.name) && spec.name != TASK)
    }
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("deepagents", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(name)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let own = self.own_tools().map(|spec| {
            let schema = object(Value::clone(&spec.schema));
            let tool = Tool::new(spec.name.clone(), spec.description.clone(), schema);
            match self.read_only.contains(&spec.name) {
                true => tool.with_annotations(ToolAnnotations::new().read_only(true).open_world(false)),
                false => tool,
            }
        });
        Ok(ListToolsResult::with_all_items(std::iter::once(self.task_tool()).chain(own).collect()))
    }

    // There are none. An empty list is returned instead of an error, because a client may cache it.
    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::default())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::default())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::default())
    }

    /// Requests arrive here if their parameters do not match their method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == UNUSABLE {
            let error = request.params.and_then(|error| serde_json::from_value(error).ok());
            return Err(error.unwrap_or_else(|| ErrorData::new(ErrorCode::METHOD_NOT_FOUND, UNUSABLE, None)));
        }
        if READ.contains(&request.method.as_str()) {
            return Err(invalid(format!("the parameters of {} do not follow the protocol", request.method)));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == TASK {
            return self.task(request, context).await;
        }
        if !self.own_tools().any(|spec| spec.name == request.name) {
            return Err(invalid(format!("there is no tool `{}`", request.name)));
        }
        self.own(request, context).await
    }
}

/// Converts a tool's result for the client.
fn result(output: &ToolOutput) -> CallToolResult {
    let content = output.content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(ContentBlock::text(text.text.clone())),
        Block::Media(media) => match (&media.source, media.kind) {
            (MediaSource::Base64(data), MediaKind::Image) => {
                Some(ContentBlock::image(data.clone(), media.mime.clone()))
            }
            (MediaSource::Base64(data), MediaKind::Audio) => {
                Some(ContentBlock::audio(data.clone(), media.mime.clone()))
            }
            _ => Some(ContentBlock::text(format!("[{}]", media.mime))),
        },
        _ => None,
    });
    let content = content.collect();
    if output.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

/// Returns an error for a client whose request is not valid.
fn invalid(why: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(why.into(), None)
}

/// Converts an error into that of a client's request.
fn failed(error: &dyn std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(crate::text::line(&error.to_string(), 300), None)
}
