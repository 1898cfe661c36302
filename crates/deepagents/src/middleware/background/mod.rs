//! Background delegation: sub-agents that work while the conversation continues.

mod channel;
mod closure;
mod deliver;
mod task;
mod tasks;
mod tools;

use std::sync::Arc;

use deepagents_core::agent::{AgentDefinition, BuildError};
use deepagents_core::error::Result;
use deepagents_core::middleware::{HookOutput, JumpTo, Middleware};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::{Context, FinishReason};
use deepagents_core::state::{ChannelSpec, State, Update};
use deepagents_core::tool::DynTool;

use crate::subagents::{DynSubAgent, ListingTool, Registry};
use deliver::orphans_since;
use task::TaskState;
use tasks::Tasks;

pub use channel::{KnownTask, KnownTaskChange, KnownTasks};
pub use task::TaskStatus;

const START: &str = "start_async_task";
/// Default depth of delegation for sub-agents.
const DEFAULT_MAX_DEPTH: usize = 4;

/// Limits of background work.
///
/// ```
/// use deepagents::middleware::background::BackgroundLimits;
/// let few = BackgroundLimits { at_once: 4, ..BackgroundLimits::default() };
/// assert_eq!(few.remembered, 256);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundLimits {
    /// Maximum number of running tasks per conversation; further ones are rejected.
    pub at_once: usize,
    /// Maximum number of remembered tasks per conversation; the oldest delivered ones are forgotten.
    pub remembered: usize,
    /// Maximum number of remembered tasks that this agent object has started in all conversations. Above it, the oldest
    /// ended tasks are forgotten together with their threads, whether they were delivered or not.
    pub in_all: usize,
}

impl Default for BackgroundLimits {
    fn default() -> Self {
        Self { at_once: 16, remembered: 256, in_all: 4096 }
    }
}

/// Gives the agent tools for sub-agents that it does not wait for: `start_async_task`, `check_async_task`,
/// `update_async_task`, `cancel_async_task`, `list_async_tasks`.
///
/// A task of a run with a thread has its own thread below it, `PARENT/TASK`, in the same journal. It outlives the turn
/// and the process, and the next run of the conversation resumes abandoned tasks. Without a thread, tasks are kept in
/// memory.
///
/// A result is delivered once, with the next model call of the conversation: the message, the state changes and the
/// record of the delivery form one log record. When the last clone of the agent is dropped, its tasks stop.
///
/// A task is bound by the budget, including the time limit, of the run that started or resumed it, even after that run
/// has ended. Its usage is charged once, by the run of the conversation to which the task is delivered or which ends
/// after it.
///
/// A task whose agent waits for a person's decision is [`Interrupted`](TaskStatus::Interrupted), and the conversation
/// is told so. When the task is checked, the checking run waits in its place: it asks the task's questions, and the
/// answers are passed to the task.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::core::journal::MemoryJournal;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([Turn::text("Hello.")]);
/// let agent = DeepAgent::builder().model(model).journal(MemoryJournal::new()).background_agents(true).build()?;
/// // What the conversation has started, whichever process works on it.
/// for task in agent.background("t1").await? {
///     println!("{}: {:?}", task.id, task.status);
/// }
/// # Ok(()) }
/// ```
pub struct BackgroundAgents {
    tasks: Arc<Tasks>,
    listing: ListingTool,
    tools: Vec<Arc<dyn DynTool>>,
}

impl BackgroundAgents {
    /// Creates the middleware for these sub-agents and limits. They may delegate four levels deep.
    ///
    /// # Errors
    /// Returns an error if there are no sub-agents, two have the same name, or a limit is 0.
    pub fn new(agents: Vec<Arc<dyn DynSubAgent>>, limits: BackgroundLimits) -> Result<Self, BuildError> {
        Self::on(Arc::new(Registry::fixed(agents)?), DEFAULT_MAX_DEPTH, limits)
    }

    /// Creates the middleware for the sub-agents of a registry, which may delegate this many levels deep.
    pub(crate) fn on(registry: Arc<Registry>, depth: usize, limits: BackgroundLimits) -> Result<Self, BuildError> {
        if registry.given().is_empty() && registry.is_fixed() {
            return Err(BuildError::Option(
                "there is no sub-agent to run in the background; add one with `.sub_agent(...)`".to_owned(),
            ));
        }
        if limits.at_once == 0 || limits.remembered == 0 || limits.in_all == 0 {
            return Err(BuildError::Option("`at_once`, `remembered` and `in_all` must be at least 1".to_owned()));
        }
        let listing = ListingTool::new(START, include_str!("../../prompts/background.md"), registry.given());
        let tasks = Arc::new(Tasks::new(registry, depth, limits));
        Ok(Self { tools: tools::all(&tasks, &listing), tasks, listing })
    }
}

impl Middleware for BackgroundAgents {
    fn name(&self) -> &str {
        "BackgroundAgents"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<KnownTasks>()]
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        self.tools.clone()
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        self.listing.list(&mut request, &self.tasks.registry, cx.state());
        Ok(request)
    }

    fn background_agent(&self, name: &str, state: &State) -> Option<Arc<AgentDefinition>> {
        let agent = self.tasks.registry.find(state, name).ok()?;
        agent.background_agent().map(|built| built.agent().definition().clone())
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        // When a process is stopped during such a call, its task may appear after the conversation has continued.
        let mut changes = orphans_since(cx, 0).await?;
        if changes.is_empty() && !has_tasks(cx) {
            return Ok(HookOutput::next());
        }
        let (home, mut state) = (cx.background(), cx.state().clone());
        state.apply(&Update::new::<KnownTasks>(changes.clone()))?;
        let mut tasks = self.tasks.survey(&home, &state).await?;
        // Charge what was spent while no run was in progress before this run may spend more.
        changes.extend(self.tasks.count(&home, &state, &mut tasks).await?);
        self.tasks.resume_abandoned(&home, &state, &mut tasks).await?;
        Ok(counted_as(changes))
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        let orphans = orphans_since(cx, cx.messages().last_assistant().unwrap_or_default()).await?;
        if orphans.is_empty() && !has_tasks(cx) {
            return Ok(HookOutput::next());
        }
        Ok(HookOutput::update(self.tasks.news(cx, orphans).await?))
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        if !has_tasks(cx) {
            return Ok(HookOutput::next());
        }
        let home = cx.background();
        let mut tasks = self.tasks.survey(&home, cx.state()).await?;
        let stop = cx.stop();
        // A run that resumes after its last answer gets here first: resume tasks that an earlier process abandoned. A
        // run stopped from outside leaves them to the next one.
        if stop.is_none_or(|stop| !stop.is_from_outside()) {
            self.tasks.resume_abandoned(&home, cx.state(), &mut tasks).await?;
        }
        // Deliver tasks that have ended meanwhile before the run ends; running ones are not waited for.
        let by_itself = matches!(
            stop,
            Some(
                FinishReason::Done
                    | FinishReason::Empty
                    | FinishReason::TokenLimit
                    | FinishReason::Refused
                    | FinishReason::BrokenOff
            )
        );
        if by_itself && tasks.iter().any(TaskState::is_news) {
            return Ok(HookOutput::go(JumpTo::Model));
        }
        Ok(counted_as(self.tasks.count(&home, cx.state(), &mut tasks).await?))
    }
}

/// Returns an update with the charges, if there are any.
fn counted_as(counted: Vec<KnownTaskChange>) -> HookOutput {
    if counted.is_empty() { HookOutput::next() } else { HookOutput::set::<KnownTasks>(counted) }
}

fn has_tasks(cx: &Context) -> bool {
    cx.state().get::<KnownTasks>().is_some_and(|tasks| !tasks.is_empty())
}

impl std::fmt::Debug for BackgroundAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackgroundAgents").finish_non_exhaustive()
    }
}
