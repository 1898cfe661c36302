//! Delegation that is not waited for: sub-agents that work while the conversation goes on.

mod task;
mod tasks;
mod tools;

use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::error::Result;
use deepagents_core::message::Message;
use deepagents_core::middleware::{HookOutput, JumpTo, Middleware};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::{Context, FinishReason};
use deepagents_core::state::Update;
use deepagents_core::tool::DynTool;

use crate::subagents::{DynSubAgent, ListingTool, Registry};
use tasks::Tasks;

pub use task::TaskStatus;

const START: &str = "start_async_task";
/// How deep sub-agents may delegate unless told otherwise.
const DEPTH: usize = 4;

/// How much may go on in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundLimits {
    /// Tasks of one conversation that run at once; more are refused.
    pub at_once: usize,
    /// Tasks of one conversation that are remembered; the oldest whose result was told are forgotten.
    pub remembered: usize,
    /// Tasks of all conversations that are remembered; beyond it the oldest that have ended are forgotten, whether they
    /// were told or not.
    pub in_all: usize,
}

impl Default for BackgroundLimits {
    fn default() -> Self {
        Self { at_once: 16, remembered: 256, in_all: 4096 }
    }
}

/// Gives the agent tools to start sub-agents that it does not wait for: `start_async_task`, `check_async_task`,
/// `update_async_task`, `cancel_async_task`, `list_async_tasks`.
///
/// Tasks belong to the agent object and to the thread (or, without one, the run) that started them. They outlive the
/// turn, are told once when they have ended, at the next model call of their thread, and are cancelled when the last
/// clone of the agent is dropped. A process that ends loses them. Files are handed to a task and what it changed comes
/// back with its result. A task spends from the budget of the run that started it, its time included, also when that run
/// has ended; one that goes on with something said to it, from that of the run that said it.
///
/// A task whose agent waits for a person's decision is [`Waiting`](TaskStatus::Interrupted), and told so. When it is checked,
/// the run that checks waits in its place: its questions are those of the task, and the answers go to the task.
pub struct BackgroundAgents {
    tasks: Arc<Tasks>,
    listing: ListingTool,
    tools: Vec<Arc<dyn DynTool>>,
}

impl BackgroundAgents {
    /// Sub-agents under limits. They may delegate in turn four deep.
    ///
    /// # Errors
    /// When there is none, two have one name, or a limit is 0.
    pub fn new(agents: Vec<Arc<dyn DynSubAgent>>, limits: BackgroundLimits) -> Result<Self, BuildError> {
        Self::on(Arc::new(Registry::fixed(agents)?), DEPTH, limits)
    }

    /// Sub-agents that may be defined elsewhere as well, and may delegate so deep.
    pub(crate) fn on(registry: Arc<Registry>, depth: usize, limits: BackgroundLimits) -> Result<Self, BuildError> {
        if registry.given().is_empty() && registry.is_fixed() {
            return Err(BuildError::Option(
                "there is no sub-agent to run in the background; describe one with `.sub_agent(...)`".to_owned(),
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

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        self.tools.clone()
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        self.listing.list(&mut request, &self.tasks.registry, cx.state());
        Ok(request)
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        let mut state = cx.state().clone();
        let mut update = Update::none();
        for news in self.tasks.news(&tasks::owner(cx)) {
            let mut text = news.text;
            if let Some(child_state) = news.child_state {
                let (joined, conflicts) = state.join(&child_state.given, &child_state.left)?;
                state.apply(&joined)?;
                update = update.and(joined);
                text.extend(conflicts.iter().map(|conflict| format!("\n[not kept: {conflict}]")));
            }
            state.apply(&news.update)?;
            update = update.and(news.update).and(Update::message(Message::harness(text)));
        }
        Ok(HookOutput::update(update))
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        // What has ended meanwhile is told before the run ends; what still runs is not waited for.
        let by_itself = matches!(cx.stop(), Some(FinishReason::Done | FinishReason::Empty));
        Ok(if by_itself && self.tasks.has_news(&tasks::owner(cx)) {
            HookOutput::go(JumpTo::Model)
        } else {
            HookOutput::next()
        })
    }
}

impl std::fmt::Debug for BackgroundAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackgroundAgents").finish_non_exhaustive()
    }
}
