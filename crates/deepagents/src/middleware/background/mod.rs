//! Delegation that is not waited for: sub-agents that work while the conversation goes on.

mod task;
mod tasks;
mod tools;

use std::sync::Arc;

use deepagents_core::agent::{Agent, BuildError};
use deepagents_core::error::Result;
use deepagents_core::message::Message;
use deepagents_core::middleware::{Go, Middleware, Step};
use deepagents_core::run::{Context, Stop};
use deepagents_core::state::Update;
use deepagents_core::tool::DynTool;

use tasks::Tasks;

pub use task::TaskStatus;

/// An agent that may be started in the background.
#[derive(Clone, Debug)]
pub struct BackgroundAgent {
    /// The name it is called by.
    pub name: String,
    /// What it is for, for the model.
    pub description: String,
    /// The agent. It sees its task alone, and has no thread: a call that would wait for a decision fails its task.
    pub agent: Agent,
}

/// How much may go on in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundLimits {
    /// Tasks of one conversation that run at once; more are refused.
    pub at_once: usize,
    /// Tasks of one conversation that are remembered; the oldest whose result was told are forgotten.
    pub remembered: usize,
}

impl Default for BackgroundLimits {
    fn default() -> Self {
        Self { at_once: 16, remembered: 256 }
    }
}

/// Gives the agent tools to start sub-agents that it does not wait for: `start_async_task`, `check_async_task`,
/// `update_async_task`, `cancel_async_task`, `list_async_tasks`.
///
/// Tasks belong to the agent object and to the thread (or, without one, the run) that started them. They outlive the
/// turn, are told once when they have ended, at the next model call of their thread, and are cancelled when the last
/// clone of the agent is dropped. A process that ends loses them. Files are handed to a task and what it changed comes
/// back with its result; its tokens are not part of the usage of any run.
pub struct BackgroundAgents {
    tasks: Arc<Tasks>,
    tools: Vec<Arc<dyn DynTool>>,
}

impl BackgroundAgents {
    /// Agents under limits.
    ///
    /// # Errors
    /// When there is none, two have one name, or a limit is 0.
    pub fn new(agents: Vec<BackgroundAgent>, limits: BackgroundLimits) -> Result<Self, BuildError> {
        if agents.is_empty() {
            return Err(BuildError::Option(
                "there is no sub-agent to run in the background; describe one with `.sub_agent(...)`".to_owned(),
            ));
        }
        if limits.at_once == 0 || limits.remembered == 0 {
            return Err(BuildError::Option("`at_once` and `remembered` must be at least 1".to_owned()));
        }
        let mut names = std::collections::HashSet::new();
        if let Some(twice) = agents.iter().find(|agent| !names.insert(agent.name.as_str())) {
            return Err(BuildError::Option(format!("two background agents are named `{}`", twice.name)));
        }
        let tasks = Arc::new(Tasks::new(agents, limits));
        Ok(Self { tools: tools::all(&tasks), tasks })
    }
}

impl Middleware for BackgroundAgents {
    fn name(&self) -> &str {
        "BackgroundAgents"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        self.tools.clone()
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
            update = update.and(Update::message(Message::harness(text)));
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
