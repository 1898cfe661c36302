//! The workers behind sub-agents.

use std::future::Future;
use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::message::{Block, Message, MessageOp};
use deepagents_core::run::{FinishReason, Outcome, RunInput, interrupted_words};
use deepagents_core::state::{MessagesChannel, State, Update};
use deepagents_core::tool::{ChildState, ToolContext, ToolError, ToolOutput};
use futures_util::future::BoxFuture;

use super::{Mode, result_text};
use crate::middleware::subagents::RunConcurrency;

/// A worker to which tasks can be delegated: a built agent ([`AgentSubAgent`]), a closure
/// ([`sub_agent_fn`](super::sub_agent_fn)), or your own type.
///
/// ```
/// use deepagents::subagents::{SubAgentTask, SubAgentResult, SubAgent};
/// use deepagents::{ToolContext, ToolError};
///
/// /// Answers from a table.
/// struct Oracle;
/// impl SubAgent for Oracle {
///     fn name(&self) -> &str { "oracle" }
///     fn description(&self) -> &str { "Knows the answer." }
///     async fn run(&self, work: SubAgentTask, _cx: ToolContext) -> Result<SubAgentResult, ToolError> {
///         Ok(SubAgentResult::text(format!("{}: 42", work.description)))
///     }
/// }
/// ```
pub trait SubAgent: Send + Sync + 'static {
    /// Returns the name by which it is called.
    fn name(&self) -> &str;

    /// Returns its description, which the model is shown.
    fn description(&self) -> &str;

    /// Returns `true` if the work may be restarted after a crash that left its outcome unknown. Agents that it
    /// [runs](ToolContext::run_child) resume where they were; everything else is repeated.
    fn idempotent(&self) -> bool {
        false
    }

    /// Returns a built agent that does the same work on its own thread, for background work: it survives the process,
    /// can wait for answers and accepts further messages. Without one, background work is lost with its process.
    fn background_agent(&self) -> Option<&AgentSubAgent> {
        None
    }

    /// Does the work.
    fn run(
        &self,
        work: SubAgentTask,
        cx: ToolContext,
    ) -> impl Future<Output = Result<SubAgentResult, ToolError>> + Send;
}

/// The object-safe form of a [`SubAgent`], implemented for every one.
pub trait DynSubAgent: Send + Sync {
    /// See [`SubAgent::name`].
    fn name(&self) -> &str;
    /// See [`SubAgent::description`].
    fn description(&self) -> &str;
    /// See [`SubAgent::idempotent`].
    fn idempotent(&self) -> bool;
    /// See [`SubAgent::background_agent`].
    fn background_agent(&self) -> Option<&AgentSubAgent>;
    /// See [`SubAgent::run`].
    fn run(&self, work: SubAgentTask, cx: ToolContext) -> BoxFuture<'_, Result<SubAgentResult, ToolError>>;
}

impl<S: SubAgent> DynSubAgent for S {
    fn name(&self) -> &str {
        SubAgent::name(self)
    }
    fn description(&self) -> &str {
        SubAgent::description(self)
    }
    fn idempotent(&self) -> bool {
        SubAgent::idempotent(self)
    }
    fn background_agent(&self) -> Option<&AgentSubAgent> {
        SubAgent::background_agent(self)
    }
    fn run(&self, work: SubAgentTask, cx: ToolContext) -> BoxFuture<'_, Result<SubAgentResult, ToolError>> {
        Box::pin(SubAgent::run(self, work, cx))
    }
}

/// The maximum depth of delegation that the agents above allow, counted from the main agent.
pub(crate) struct Depth(pub(crate) usize);

/// The limit on the sub-agents of the whole run that work at once.
pub(crate) struct Concurrency(pub(crate) Arc<RunConcurrency>);

/// A task for a sub-agent.
///
/// ```
/// use deepagents::subagents::{SubAgentResult, SubAgentSpec, sub_agent_fn};
/// let echo = sub_agent_fn("echo", "Says its task again.", |task, _cx| async move {
///     Ok(SubAgentResult::text(task.description))
/// });
/// assert_eq!(SubAgentSpec::from(echo).name, "echo");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubAgentTask {
    /// The task, in the model's words.
    pub description: String,
    /// The maximum depth of delegation, counted from the main agent.
    depth: usize,
    /// The limit on the sub-agents of the run that work at once, if it has one.
    concurrency: Option<Arc<RunConcurrency>>,
    conversation: Option<String>,
}

impl SubAgentTask {
    pub(crate) fn new(description: String, depth: usize) -> Self {
        Self { description, depth, concurrency: None, conversation: None }
    }

    /// Sets the limit on the sub-agents of the run that work at once.
    pub(crate) fn in_run(self, concurrency: Arc<RunConcurrency>) -> Self {
        Self { concurrency: Some(concurrency), ..self }
    }

    #[cfg(feature = "remote")]
    pub(crate) fn in_conversation(self, name: impl Into<String>) -> Self {
        Self { conversation: Some(name.into()), ..self }
    }

    /// Returns the name of the conversation to which the work belongs, if there may be further work in it. A new task
    /// of a conversation supersedes work that is still in progress for it.
    pub fn conversation(&self) -> Option<&str> {
        self.conversation.as_deref()
    }
}

/// The result of a sub-agent.
///
/// ```
/// use deepagents::ToolOutput;
/// use deepagents::subagents::SubAgentResult;
/// let words = SubAgentResult::text("The report is in /report.md.");
/// let failed = SubAgentResult::from(ToolOutput::text("The service does not answer.").as_error());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubAgentResult {
    pub(crate) output: ToolOutput,
}

impl SubAgentResult {
    /// Creates a text result.
    pub fn text(text: impl Into<String>) -> Self {
        Self { output: ToolOutput::text(text) }
    }
}

impl From<ToolOutput> for SubAgentResult {
    fn from(output: ToolOutput) -> Self {
        Self { output }
    }
}

/// Appended to the description of a sub-agent that sees the conversation, because the tool tells the model that others
/// do not.
const SHARES: &str = " It sees the conversation.";

/// Returns a description that says whether the sub-agent sees the conversation.
pub(crate) fn listed_description(description: &str, mode: Mode) -> String {
    match mode {
        Mode::Fork if !description.ends_with(SHARES) => format!("{description}{SHARES}"),
        _ => description.to_owned(),
    }
}

/// A built agent as a sub-agent.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// use deepagents::subagents::AgentSubAgent;
///
/// let critic = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Too long.")])).build()?;
/// let critic = AgentSubAgent::new("critic", "Says what is wrong with a text.", &critic);
/// let editor = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Done.")])).sub_agent(critic).build()?;
/// assert!(editor.tools().iter().any(|tool| tool.name == "task"));
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AgentSubAgent {
    name: String,
    description: String,
    agent: Agent,
    mode: Mode,
    /// Prepended to the task of an agent that shares the conversation.
    instructions: Option<String>,
}

impl AgentSubAgent {
    /// Wraps an agent, deep or not, with a name and a description.
    pub fn new(name: impl Into<String>, description: impl Into<String>, agent: &Agent) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, agent: agent.clone(), mode: Mode::Isolated, instructions: None }
    }

    /// Returns the agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Sets whether it sees the conversation. If so, its description says that.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self.description = listed_description(&self.description, mode);
        self
    }

    /// Sets the instructions prepended to its task if it sees the conversation.
    #[must_use]
    pub(crate) fn instructions(mut self, text: Option<String>) -> Self {
        self.instructions = text.filter(|text| !text.trim().is_empty());
        self
    }

    /// Returns its initial state and input.
    pub(crate) fn start(&self, work: &SubAgentTask, cx: &ToolContext) -> Result<(State, RunInput), ToolError> {
        let schema = self.agent.schema().clone();
        let (state, input) = match self.mode {
            Mode::Isolated => (cx.state().fork(schema)?, RunInput::new(work.description.as_str())),
            Mode::Fork => {
                let messages = cx.messages();
                // The answer with the delegating call still lacks its result, so it cannot be shared.
                let until = messages.last_assistant().unwrap_or(messages.len());
                let shared: Vec<Message> = messages.iter().take(until).map(|m| (**m).clone()).collect();
                let mut state = cx.state().project(schema)?;
                state.apply(&Update::new::<MessagesChannel>(vec![MessageOp::RemoveAll]))?;
                let preamble = include_str!("../prompts/fork.md").trim_end();
                let told = self.instructions.as_deref().map(|text| format!("{}\n", text.trim())).unwrap_or_default();
                let task = Message::user(format!("{told}{preamble}\n{}", work.description));
                (state, RunInput::messages(shared.into_iter().chain([task])))
            }
        };
        let input = input.with(Depth(work.depth));
        Ok((state, work.concurrency.iter().cloned().map(Concurrency).fold(input, RunInput::with)))
    }
}

impl SubAgent for AgentSubAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn idempotent(&self) -> bool {
        true
    }

    fn background_agent(&self) -> Option<&AgentSubAgent> {
        Some(self)
    }

    async fn run(&self, work: SubAgentTask, cx: ToolContext) -> Result<SubAgentResult, ToolError> {
        let (given, input) = self.start(&work, &cx)?;
        let ended = cx.run_child(&self.agent, "task", given, input).await?;
        match ended.result {
            Ok(outcome) => Ok(result(&self.name, &outcome, ended.child_state)),
            // A failed run still hands back its state: its files are as it left them.
            Err(failure) => {
                let text = format!("Error: sub-agent {} failed: {failure}", self.name);
                Ok(SubAgentResult { output: ToolOutput::text(text).with_child_state(ended.child_state).as_error() })
            }
        }
    }
}

fn result(name: &str, outcome: &Outcome, child_state: ChildState) -> SubAgentResult {
    let halted = matches!(outcome.stop, FinishReason::Cancelled | FinishReason::Deadline);
    let said = result_text(outcome);
    // The interruption is reported below.
    let said = if halted { interrupted_words(&said).unwrap_or(&said) } else { &said };
    let mut content = vec![Block::text(said)];
    if halted
        || matches!(
            outcome.stop,
            FinishReason::StepLimit
                | FinishReason::NoProgress
                | FinishReason::TokenLimit
                | FinishReason::Refused
                | FinishReason::BrokenOff
                | FinishReason::Budget(_)
        )
    {
        content.push(Block::text(format!("[sub-agent {name} may not have finished: {}]", outcome.stop.reason())));
    }
    let output = ToolOutput::blocks(content).with_child_state(child_state);
    SubAgentResult { output: if halted { output.as_error() } else { output } }
}
