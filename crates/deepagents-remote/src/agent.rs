//! Remote agents, independent of the protocol.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::agent::ChildScope;
use deepagents_core::error::Error;
use deepagents_core::interrupt::Decision;
use deepagents_core::run::FinishReason;
use deepagents_core::tool::{ToolContext, ToolError, ToolOutput};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::a2a::A2a;
use crate::config::{Protocol, RemoteConfig};
use crate::error::RemoteError;
use crate::http::Http;
use crate::langgraph::LangGraph;
use crate::questions::{self, RemoteInterrupt};

/// Time limit for a cancellation, as the call has three seconds in total.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// An agent on another server.
///
/// ```
/// use deepagents_core::tool::{ToolContext, ToolError, ToolOutput};
/// use deepagents_remote::{RemoteAgent, RemoteConfig, RemoteTask};
///
/// /// What a tool does that delegates to it.
/// async fn research(remote: &RemoteAgent, topic: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
///     remote.run(RemoteTask::new(topic), cx).await
/// }
/// let remote = RemoteAgent::new("researcher", RemoteConfig::langgraph("http://127.0.0.1:2024", "agent")?)?;
/// # Ok::<(), deepagents_remote::RemoteError>(())
/// ```
#[derive(Clone)]
pub struct RemoteAgent {
    name: Arc<str>,
    config: Arc<RemoteConfig>,
    server: Arc<Server>,
}

enum Server {
    LangGraph(Box<LangGraph>),
    A2a(Box<A2a>),
}

/// A piece of work for a remote agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoteTask {
    /// The task, in natural language.
    pub description: String,
    /// The name of the remote conversation. Work with the same name continues the conversation. By default, each call
    /// has its own.
    pub conversation: Option<String>,
}

impl RemoteTask {
    /// Creates a task in a conversation of its own.
    pub fn new(description: impl Into<String>) -> Self {
        Self { description: description.into(), conversation: None }
    }

    /// Sets the conversation. A run still active in it is cancelled first.
    #[must_use]
    pub fn conversation(mut self, name: impl Into<String>) -> Self {
        self.conversation = Some(name.into());
        self
    }
}

/// A piece of work in progress, as the protocols see it.
pub(crate) struct Work<'a> {
    pub(crate) description: &'a str,
    /// The remote conversation's id.
    pub(crate) conversation: String,
    /// Whether the conversation may contain other work.
    pub(crate) continues: bool,
    /// The key of the call, which is the same if the call is made again.
    pub(crate) key: String,
    pub(crate) scope: &'a ChildScope,
}

impl Work<'_> {
    /// Returns what is recorded under a key in the local log, perhaps by an earlier process.
    pub(crate) fn recorded<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.scope.recorded(key).and_then(|value| serde_json::from_value(value).ok())
    }

    /// Asks the local user what the remote agent asks. Returns the answers and the value that resumes the remote run.
    pub(crate) async fn ask(&self, pauses: &[RemoteInterrupt]) -> Result<(Vec<Vec<Decision>>, Value), ToolError> {
        let answers = questions::ask(self.scope, pauses).await?;
        let resume = questions::resume_value(pauses, &answers);
        Ok((answers, resume))
    }
}

/// Reports why work stopped without a result.
pub(crate) enum WorkError {
    /// A problem of the server or the connection.
    Remote(RemoteError),
    /// A local reason: a question is pending, a budget is exhausted, or the log cannot be written.
    Local(ToolError),
    Cancelled,
}

impl From<RemoteError> for WorkError {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error)
    }
}

impl From<ToolError> for WorkError {
    fn from(error: ToolError) -> Self {
        Self::Local(error)
    }
}

impl RemoteAgent {
    /// Creates an agent with a name that its events carry.
    ///
    /// # Errors
    /// Returns [`RemoteError::Config`] if the HTTP client cannot be created.
    pub fn new(name: impl Into<Arc<str>>, config: RemoteConfig) -> Result<Self, RemoteError> {
        let http = Http::new(&config)?;
        let server = match config.protocol {
            Protocol::LangGraph => {
                Server::LangGraph(Box::new(LangGraph::new(http, config.assistant.clone().unwrap_or_default())))
            }
            Protocol::A2a => Server::A2a(Box::new(A2a::new(http, config.assistant.clone()))),
        };
        Ok(Self { name: name.into(), config: Arc::new(config), server: Arc::new(server) })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the configuration.
    pub fn config(&self) -> &RemoteConfig {
        &self.config
    }

    /// Does a piece of work as part of a tool call. A remote failure is an error result with a message for the model.
    ///
    /// # Errors
    /// Returns [`ToolError::Interrupted`] while one of its questions is pending, and any error that ends the local run:
    /// see [`ChildScope`].
    pub async fn run(&self, task: RemoteTask, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let scope = cx.child_scope("task", self.name.to_string()).await?;
        let named = task.conversation.clone().unwrap_or_else(|| cx.key());
        let name = format!("{}\u{1f}{}\u{1f}{named}", self.config.url, self.name);
        let work = Work {
            description: &task.description,
            conversation: Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string(),
            continues: task.conversation.is_some(),
            key: cx.key(),
            scope: &scope,
        };
        // Boxed because it is large and part of every call of the delegating tool.
        let ended = Box::pin(self.run_within_deadline(&work)).await;
        self.conclude(ended, &scope).await
    }

    /// Does the work until it is cancelled or its deadline passes; then the remote run is cancelled.
    async fn run_within_deadline(&self, work: &Work<'_>) -> Result<String, WorkError> {
        let limit = self.config.deadline.unwrap_or(Duration::MAX);
        let done = async {
            match &*self.server {
                Server::LangGraph(server) => server.work(work).await,
                Server::A2a(server) => server.work(work).await,
            }
        };
        let ended = tokio::select! {
            biased;
            () = work.scope.cancellation().cancelled() => Err(WorkError::Cancelled),
            ended = done => ended,
            () = tokio::time::sleep(limit) => {
                Err(RemoteError::Deadline { host: self.config.origin(), limit }.into())
            }
        };
        // If only the local log cannot be written, the remote run is kept, and the next process resumes it.
        let is_unwanted = match &ended {
            Err(WorkError::Cancelled) => true,
            Err(WorkError::Remote(error)) => {
                matches!(error, RemoteError::Deadline { .. } | RemoteError::UnknownStatus { .. })
            }
            Err(WorkError::Local(error)) => !matches!(error, ToolError::Interrupted(_) | ToolError::Fatal(_)),
            Ok(_) => false,
        };
        if is_unwanted {
            let cancelled = async {
                match &*self.server {
                    Server::LangGraph(server) => server.cancel(work).await,
                    Server::A2a(server) => server.cancel(work).await,
                }
            };
            // Nobody is left to receive an error.
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, cancelled).await;
        }
        ended
    }

    async fn conclude(&self, ended: Result<String, WorkError>, scope: &ChildScope) -> Result<ToolOutput, ToolError> {
        match ended {
            Ok(text) => {
                scope.finish(FinishReason::Done).await?;
                Ok(ToolOutput::text(text))
            }
            Err(WorkError::Cancelled) => {
                scope.finish(FinishReason::Cancelled).await?;
                Ok(ToolOutput::text(format!("[sub-agent {} was cancelled]", self.name)).as_error())
            }
            Err(WorkError::Remote(error)) => {
                scope.fail(&error).await?;
                Ok(ToolOutput::text(format!("Error: sub-agent {} failed: {error}", self.name)).as_error())
            }
            Err(WorkError::Local(error)) => {
                let stop = match &error {
                    ToolError::Model { source: Some(source), .. } => spent(source),
                    _ => None,
                };
                let Some(stop) = stop else { return Err(error) };
                let text = format!("[sub-agent {} may not have finished: {}]", self.name, stop.reason());
                scope.finish(stop).await?;
                Ok(ToolOutput::text(text).as_error())
            }
        }
    }
}

/// Returns the exhausted budget that an error reports.
fn spent(error: &deepagents_core::error::BoxError) -> Option<FinishReason> {
    match error.downcast_ref::<Error>()? {
        Error::BudgetExhausted(stop) => Some(stop.clone()),
        _ => None,
    }
}

impl fmt::Debug for RemoteAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteAgent").field("name", &self.name).field("config", &self.config).finish()
    }
}
