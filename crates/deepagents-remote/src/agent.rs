//! A remote agent, whatever its server speaks.

use std::fmt;
use std::sync::Arc;

use deepagents_core::agent::ChildScope;
use deepagents_core::error::Error;
use deepagents_core::run::FinishReason;
use deepagents_core::tool::{ToolContext, ToolError, ToolOutput};
use uuid::Uuid;

use crate::a2a::A2a;
use crate::config::{Protocol, RemoteConfig};
use crate::error::RemoteError;
use crate::http::Http;
use crate::langgraph::LangGraph;

/// An agent of another server.
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
    /// What is to be done, in words.
    pub description: String,
    /// Names the conversation over there; work under the same name goes on with it. Each call has its own unless said.
    pub conversation: Option<String>,
}

impl RemoteTask {
    /// Work in a conversation of its own.
    pub fn new(description: impl Into<String>) -> Self {
        Self { description: description.into(), conversation: None }
    }

    /// Work that belongs to a conversation. What runs over there for it is ended first.
    #[must_use]
    pub fn conversation(mut self, name: impl Into<String>) -> Self {
        self.conversation = Some(name.into());
        self
    }
}

/// Work under way, as the protocols see it.
pub(crate) struct Work<'a> {
    pub(crate) description: &'a str,
    /// The conversation's id over there.
    pub(crate) conversation: String,
    /// Whether there may be more in the conversation than this work.
    pub(crate) goes_on: bool,
    /// The key of the call: the same if it is made again.
    pub(crate) key: String,
    pub(crate) scope: &'a ChildScope,
}

/// Why work stopped without a result.
pub(crate) enum WorkError {
    /// Something is wrong over there, or with the way there.
    Remote(RemoteError),
    /// Something is wrong here: a question waits, a budget is spent, the log cannot be written.
    Here(ToolError),
}

impl From<RemoteError> for WorkError {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error)
    }
}

impl From<ToolError> for WorkError {
    fn from(error: ToolError) -> Self {
        Self::Here(error)
    }
}

impl RemoteAgent {
    /// An agent under a name, which its events carry.
    ///
    /// # Errors
    /// [`RemoteError::Config`] when no HTTP client can be made.
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

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn config(&self) -> &RemoteConfig {
        &self.config
    }

    /// Does a piece of work over there, as part of a tool call. What goes wrong over there is a result that is an error, in
    /// words for the model.
    ///
    /// # Errors
    /// [`ToolError::Interrupted`] while a question of it waits for an answer, and what ends the run here: see
    /// [`ChildScope`].
    pub async fn run(&self, task: RemoteTask, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let scope = cx.child_scope("task", self.name.to_string()).await?;
        let named = task.conversation.clone().unwrap_or_else(|| cx.key());
        let name = format!("{}\u{1f}{}\u{1f}{named}", self.config.url, self.name);
        let work = Work {
            description: &task.description,
            conversation: Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string(),
            goes_on: task.conversation.is_some(),
            key: cx.key(),
            scope: &scope,
        };
        // Boxed: it is large, and lives in every call of the tool that delegates.
        let ended = Box::pin(self.within(&work)).await;
        self.conclude(ended, &scope).await
    }

    /// The work, until it is cancelled or its time is up: what runs over there is cancelled then.
    async fn within(&self, work: &Work<'_>) -> Ended {
        let limit = self.config.deadline;
        let deadline = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let done = async {
            match &*self.server {
                Server::LangGraph(server) => server.work(work).await,
                Server::A2a(server) => server.work(work).await,
            }
        };
        let ended = tokio::select! {
            biased;
            () = work.scope.cancellation().cancelled() => Ended::Cancelled,
            ended = done => match ended {
                Ok(text) => Ended::Done(text),
                Err(WorkError::Remote(error)) => Ended::Remote(error),
                Err(WorkError::Here(error)) => Ended::Here(error),
            },
            () = deadline => {
                let host = self.config.origin();
                Ended::Remote(RemoteError::Deadline { host, limit: limit.unwrap_or_default() })
            }
        };
        // A log that cannot be written says nothing against the run over there: the next process goes on with it.
        let is_unwanted = match &ended {
            Ended::Cancelled | Ended::Remote(RemoteError::Deadline { .. } | RemoteError::UnknownStatus { .. }) => true,
            Ended::Here(error) => !matches!(error, ToolError::Interrupted(_) | ToolError::Fatal(_)),
            Ended::Done(_) | Ended::Remote(_) => false,
        };
        if is_unwanted {
            match &*self.server {
                Server::LangGraph(server) => server.cancel(work).await,
                Server::A2a(server) => server.cancel(work).await,
            }
        }
        ended
    }

    async fn conclude(&self, ended: Ended, scope: &ChildScope) -> Result<ToolOutput, ToolError> {
        match ended {
            Ended::Done(text) => {
                scope.finish(FinishReason::Done).await?;
                Ok(ToolOutput::text(text))
            }
            Ended::Cancelled => {
                scope.finish(FinishReason::Cancelled).await?;
                Ok(ToolOutput::text(format!("[sub-agent {} was cancelled]", self.name)).as_error())
            }
            Ended::Remote(error) => {
                scope.fail(&error).await?;
                Ok(ToolOutput::text(format!("Error: sub-agent {} failed: {error}", self.name)).as_error())
            }
            Ended::Here(ToolError::Interrupted(pending)) => Err(ToolError::Interrupted(pending)),
            Ended::Here(error) => {
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

/// How the work ended in this process.
enum Ended {
    Done(String),
    Cancelled,
    Remote(RemoteError),
    Here(ToolError),
}

/// The budget that an error speaks of.
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
