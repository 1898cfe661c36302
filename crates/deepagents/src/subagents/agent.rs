//! What does delegated work.

use std::future::Future;

use deepagents_core::agent::Agent;
use deepagents_core::message::{Block, Message, MessageOp};
use deepagents_core::run::{FinishReason, Outcome, RunInput, interrupted_words};
use deepagents_core::state::{MessagesChannel, State, Update};
use deepagents_core::tool::{ChildState, ToolContext, ToolError, ToolOutput};
use futures_util::future::BoxFuture;

use super::{Mode, result_text};

/// Something that work can be delegated to: any built agent ([`AgentSubAgent`]), a closure
/// ([`sub_agent_fn`](super::sub_agent_fn)), or a type of one's own.
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
    /// The name it is called by.
    fn name(&self) -> &str;

    /// What it is for, for the model.
    fn description(&self) -> &str;

    /// Whether the work may be begun again after a crash that left its outcome unknown: the agents that it
    /// [runs](ToolContext::run_child) go on where they were then, and whatever else it does is done once more.
    fn idempotent(&self) -> bool {
        false
    }

    /// A built agent that does the same work on a thread of its own, for work in the background: it outlives the process,
    /// waits for answers, and can be told more. Without one, work in the background is lost with its process.
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

/// The object-safe form of a [`SubAgent`]; every one is one.
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

/// How deep the agents above allow delegation to go.
pub(crate) struct Depth(pub(crate) usize);

/// A piece of work.
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
    /// The task, as the model put it.
    pub description: String,
    /// How deep delegation may go below.
    depth: usize,
    conversation: Option<String>,
}

impl SubAgentTask {
    pub(crate) fn new(description: String, depth: usize) -> Self {
        Self { description, depth, conversation: None }
    }

    #[cfg(feature = "remote")]
    pub(crate) fn in_conversation(self, name: impl Into<String>) -> Self {
        Self { conversation: Some(name.into()), ..self }
    }

    /// Names the conversation that the work is part of, where there may be more work of it: the same for all of it. What
    /// is still being done for it is to give way to this.
    pub fn conversation(&self) -> Option<&str> {
        self.conversation.as_deref()
    }
}

/// What comes back.
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
    /// A result in words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { output: ToolOutput::text(text) }
    }
}

impl From<ToolOutput> for SubAgentResult {
    fn from(output: ToolOutput) -> Self {
        Self { output }
    }
}

/// What is said of one that sees the conversation, as the tool tells the model to expect of others that they do not.
const SHARES: &str = " It sees the conversation.";

/// A description that says whether the sub-agent sees the conversation.
pub(crate) fn listed_description(description: &str, mode: Mode) -> String {
    match mode {
        Mode::Fork if !description.ends_with(SHARES) => format!("{description}{SHARES}"),
        _ => description.to_owned(),
    }
}

/// A built agent to delegate to.
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
    /// Told with the task to one that shares the conversation.
    instructions: Option<String>,
}

impl AgentSubAgent {
    /// An agent, deep or not, under a name, with what it is for.
    pub fn new(name: impl Into<String>, description: impl Into<String>, agent: &Agent) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, agent: agent.clone(), mode: Mode::Isolated, instructions: None }
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Says whether it sees the conversation. One that does is described so.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self.description = listed_description(&self.description, mode);
        self
    }

    /// What it is told with its task, if it sees the conversation.
    #[must_use]
    pub(crate) fn instructions(mut self, text: Option<String>) -> Self {
        self.instructions = text.filter(|text| !text.trim().is_empty());
        self
    }

    /// What it begins with: a state and messages.
    pub(crate) fn start(&self, work: &SubAgentTask, cx: &ToolContext) -> Result<(State, RunInput), ToolError> {
        let schema = self.agent.schema().clone();
        let (state, input) = match self.mode {
            Mode::Isolated => (cx.state().fork(schema)?, RunInput::new(work.description.as_str())),
            Mode::Fork => {
                let messages = cx.messages();
                // The answer that delegates waits for this very result, so it cannot be part of what is shared.
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
        Ok((state, input.with(Depth(work.depth))))
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
            // What it had finished before it failed counts: its files are as it left them.
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
    // That it was interrupted is said below.
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
