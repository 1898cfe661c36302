//! What can be delegated to.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::message::{Block, Message, MessageOp};
use deepagents_core::run::{Outcome, RunInput, Stop};
use deepagents_core::state::{MessagesChannel, State, Update};
use deepagents_core::tool::{Handback, ToolContext, ToolError, ToolOutput};
use futures_util::future::BoxFuture;

use super::task::Depth;
use crate::DeepAgent;
use crate::definition::Mode;
use crate::report;
use crate::roster::Named;

/// Something that work can be delegated to: a declarative [`SubAgentSpec`](super::SubAgentSpec), any built agent, or a
/// closure ([`sub_agent_fn`]).
///
/// ```
/// use deepagents::middleware::subagents::{Delegation, Report, SubAgent};
/// use deepagents::{ToolContext, ToolError};
///
/// /// Answers from a table.
/// struct Oracle;
/// impl SubAgent for Oracle {
///     fn name(&self) -> &str { "oracle" }
///     fn description(&self) -> &str { "Knows the answer." }
///     async fn run(&self, work: Delegation, _cx: ToolContext) -> Result<Report, ToolError> {
///         Ok(Report::text(format!("{}: 42", work.description)))
///     }
/// }
/// ```
pub trait SubAgent: Send + Sync + 'static {
    /// The name it is called by.
    fn name(&self) -> &str;

    /// What it is for, for the model.
    fn description(&self) -> &str;

    /// Does the work.
    fn run(&self, work: Delegation, cx: ToolContext) -> impl Future<Output = Result<Report, ToolError>> + Send;
}

/// The object-safe form of a [`SubAgent`]; every one is one.
pub trait DynSubAgent: Any + Send + Sync {
    /// See [`SubAgent::name`].
    fn name(&self) -> &str;
    /// See [`SubAgent::description`].
    fn description(&self) -> &str;
    /// See [`SubAgent::run`].
    fn run(&self, work: Delegation, cx: ToolContext) -> BoxFuture<'_, Result<Report, ToolError>>;
}

impl<S: SubAgent> DynSubAgent for S {
    fn name(&self) -> &str {
        SubAgent::name(self)
    }
    fn description(&self) -> &str {
        SubAgent::description(self)
    }
    fn run(&self, work: Delegation, cx: ToolContext) -> BoxFuture<'_, Result<Report, ToolError>> {
        Box::pin(SubAgent::run(self, work, cx))
    }
}

impl Named for Arc<dyn DynSubAgent> {
    fn name(&self) -> &str {
        DynSubAgent::name(&**self)
    }
    fn description(&self) -> &str {
        DynSubAgent::description(&**self)
    }
}

/// A piece of work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Delegation {
    /// The task, as the model put it.
    pub description: String,
    /// How deep delegation may go below.
    depth: usize,
}

impl Delegation {
    pub(crate) fn new(description: String, depth: usize) -> Self {
        Self { description, depth }
    }
}

/// What comes back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    pub(crate) output: ToolOutput,
}

impl Report {
    /// A report in words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { output: ToolOutput::text(text) }
    }
}

impl From<ToolOutput> for Report {
    fn from(output: ToolOutput) -> Self {
        Self { output }
    }
}

/// What is said of one that sees the conversation, as the tool tells the model to expect of others that they do not.
const SHARES: &str = " It sees the conversation.";

/// A description that says whether the sub-agent sees the conversation.
pub(crate) fn described(description: &str, mode: Mode) -> String {
    match mode {
        Mode::Fork if !description.ends_with(SHARES) => format!("{description}{SHARES}"),
        _ => description.to_owned(),
    }
}

/// A built agent to delegate to.
#[derive(Clone, Debug)]
pub struct AgentSubAgent {
    name: String,
    description: String,
    agent: Agent,
    mode: Mode,
    /// Told with the task to one that shares the conversation.
    instructions: Option<Arc<str>>,
}

impl AgentSubAgent {
    /// An agent under a name, with what it is for.
    pub fn new(name: impl Into<String>, description: impl Into<String>, agent: &DeepAgent) -> Self {
        Self::of(name, description, agent.agent().clone())
    }

    /// The same for an agent without a standard stack.
    pub fn of(name: impl Into<String>, description: impl Into<String>, agent: Agent) -> Self {
        Self { name: name.into(), description: description.into(), agent, mode: Mode::Isolated, instructions: None }
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Says whether it sees the conversation. One that does is described so.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self.description = described(&self.description, mode);
        self
    }

    /// What it is told with its task, if it sees the conversation.
    #[must_use]
    pub(crate) fn instructions(mut self, text: Option<Arc<str>>) -> Self {
        self.instructions = text.filter(|text| !text.trim().is_empty());
        self
    }

    /// What it begins with: a state and messages.
    pub(crate) fn start(&self, work: &Delegation, cx: &ToolContext) -> Result<(State, RunInput), ToolError> {
        let (state, input) = self.begin(work, cx)?;
        Ok((state, input.with(Depth(work.depth))))
    }

    fn begin(&self, work: &Delegation, cx: &ToolContext) -> Result<(State, RunInput), ToolError> {
        let schema = self.agent.schema().clone();
        match self.mode {
            Mode::Isolated => Ok((cx.state().fork(schema)?, RunInput::new(work.description.as_str()))),
            Mode::Fork => {
                let messages = cx.messages();
                // The answer that delegates waits for this very result, so it cannot be part of what is shared.
                let until = messages.last_assistant().unwrap_or(messages.len());
                let shared: Vec<Message> = messages.iter().take(until).map(|m| (**m).clone()).collect();
                let mut state = cx.state().carry(schema)?;
                state.apply(&Update::of::<MessagesChannel>(vec![MessageOp::RemoveAll]))?;
                let preamble = include_str!("../../prompts/fork.md").trim_end();
                let told = self.instructions.as_deref().map(|text| format!("{}\n", text.trim())).unwrap_or_default();
                let task = Message::user(format!("{told}{preamble}\n{}", work.description));
                Ok((state, RunInput::messages(shared.into_iter().chain([task]))))
            }
        }
    }
}

impl SubAgent for AgentSubAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    async fn run(&self, work: Delegation, cx: ToolContext) -> Result<Report, ToolError> {
        let (given, input) = self.start(&work, &cx)?;
        let ended = cx.run_child(&self.agent, "task", given, input).await?;
        match ended.result {
            Ok(outcome) => Ok(reported(&self.name, &outcome, ended.handback)),
            // What it had finished before it failed counts: its files are as it left them.
            Err(failure) => {
                let text = format!("Error: sub-agent {} failed: {failure}", self.name);
                Ok(Report { output: ToolOutput::text(text).with_handback(ended.handback).as_error() })
            }
        }
    }
}

fn reported(name: &str, outcome: &Outcome, handback: Handback) -> Report {
    let mut content = vec![Block::text(report::of(outcome))];
    let cut_short = match &outcome.stop {
        Stop::StepLimit | Stop::TokenLimit | Stop::Refused => Some(outcome.stop.words()),
        Stop::Cancelled | Stop::Deadline | Stop::Budget(_) => Some(outcome.stop.words()),
        _ => None,
    };
    content.extend(cut_short.map(|why| Block::text(format!("[sub-agent {name} may not have finished: {why}]"))));
    let output = ToolOutput::blocks(content).with_handback(handback);
    let halted = matches!(outcome.stop, Stop::Cancelled | Stop::Deadline);
    Report { output: if halted { output.as_error() } else { output } }
}

/// A closure to delegate to; see [`sub_agent_fn`].
pub struct ClosureSubAgent<F> {
    name: String,
    description: String,
    run: F,
}

/// Makes a sub-agent of a closure.
///
/// ```
/// use deepagents::middleware::subagents::{Report, sub_agent_fn};
/// let echo = sub_agent_fn("echo", "Says it again.", |work, _cx| async move { Ok(Report::text(work.description)) });
/// ```
pub fn sub_agent_fn<F, Fut>(name: impl Into<String>, description: impl Into<String>, run: F) -> ClosureSubAgent<F>
where
    F: Fn(Delegation, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Report, ToolError>> + Send + 'static,
{
    ClosureSubAgent { name: name.into(), description: description.into(), run }
}

impl<F, Fut> SubAgent for ClosureSubAgent<F>
where
    F: Fn(Delegation, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Report, ToolError>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn run(&self, work: Delegation, cx: ToolContext) -> impl Future<Output = Result<Report, ToolError>> + Send {
        (self.run)(work, cx)
    }
}

impl<F> std::fmt::Debug for ClosureSubAgent<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClosureSubAgent").field("name", &self.name).finish_non_exhaustive()
    }
}
