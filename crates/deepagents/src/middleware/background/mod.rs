//! Delegation that is not waited for: sub-agents that work while the conversation goes on.

mod agent;
mod task;
mod tasks;
mod tools;

use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::error::Result;
use deepagents_core::message::Message;
use deepagents_core::middleware::{Go, Middleware, Step};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::{Context, Stop};
use deepagents_core::state::Update;
use deepagents_core::tool::DynTool;

use crate::roster::{ListingTool, Roster};
use tasks::Tasks;

pub use agent::BackgroundAgent;
pub use task::TaskStatus;

const START: &str = "start_async_task";

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
/// A task whose agent waits for a person's decision is [`Waiting`](TaskStatus::Waiting), and told so. When it is checked,
/// the run that checks waits in its place: its questions are those of the task, and the answers go to the task.
pub struct BackgroundAgents {
    tasks: Arc<Tasks>,
    listing: ListingTool,
    tools: Vec<Arc<dyn DynTool>>,
}

impl BackgroundAgents {
    /// Agents under limits.
    ///
    /// # Errors
    /// When there is none, two have one name, or a limit is 0.
    pub fn new(agents: Vec<BackgroundAgent>, limits: BackgroundLimits) -> Result<Self, BuildError> {
        Self::on(Roster::fixed(agents), limits)
    }

    /// Agents that may be defined elsewhere as well.
    pub(crate) fn on(roster: Roster<BackgroundAgent>, limits: BackgroundLimits) -> Result<Self, BuildError> {
        let given = roster.given();
        if given.is_empty() && roster.is_fixed() {
            return Err(BuildError::Option(
                "there is no sub-agent to run in the background; describe one with `.sub_agent(...)`".to_owned(),
            ));
        }
        if limits.at_once == 0 || limits.remembered == 0 || limits.in_all == 0 {
            return Err(BuildError::Option("`at_once`, `remembered` and `in_all` must be at least 1".to_owned()));
        }
        let mut names = std::collections::HashSet::new();
        if let Some(twice) = given.iter().find(|agent| !names.insert(&*agent.name)) {
            return Err(BuildError::Option(format!("two background agents are named `{}`", twice.name)));
        }
        let listing = ListingTool::new(START, include_str!("../../prompts/background.md"), given);
        let tasks = Arc::new(Tasks::new(roster, limits));
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
        self.listing.list(&mut request, &self.tasks.roster, cx.state());
        Ok(request)
    }

    async fn before_model(&self, cx: &Context) -> Result<Step> {
        let mut state = cx.state().clone();
        let mut update = Update::none();
        for news in self.tasks.news(&tasks::owner(cx)) {
            let mut text = news.text;
            if let Some(handback) = news.handback {
                let (joined, conflicts) = state.join(&handback.given, &handback.left)?;
                state.apply(&joined)?;
                update = update.and(joined);
                text.extend(conflicts.iter().map(|conflict| format!("\n[not kept: {conflict}]")));
            }
            state.apply(&news.update)?;
            update = update.and(news.update).and(Update::message(Message::harness(text)));
        }
        Ok(Step::update(update))
    }

    async fn after_agent(&self, cx: &Context) -> Result<Step> {
        // What has ended meanwhile is told before the run ends; what still runs is not waited for.
        let by_itself = matches!(cx.stop(), Some(Stop::Done | Stop::Empty));
        Ok(if by_itself && self.tasks.has_news(&tasks::owner(cx)) { Step::go(Go::Model) } else { Step::next() })
    }
}

impl std::fmt::Debug for BackgroundAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackgroundAgents").finish_non_exhaustive()
    }
}
