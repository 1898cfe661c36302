//! Putting a deep agent together.

mod assemble;
mod delegates;
mod options;
mod stack;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deepagents_core::agent::{Agent, AgentOptions};
use deepagents_core::error::Result;
use deepagents_core::middleware::DynMiddleware;
use deepagents_core::model::ChatModel;
use deepagents_core::run::{Outcome, Run, RunError, RunInput};
use deepagents_core::state::State;
use deepagents_core::tool::DynTool;
use deepagents_fs::StateBackend;
use deepagents_fs::permissions::Permissions;
use deepagents_models::Registry;

use crate::approvals::Approvals;
use crate::explain::Explanation;
use crate::middleware::PromptCaching;
use crate::middleware::filesystem::FilesystemOptions;
use crate::middleware::skills::SkillSource;
use crate::middleware::subagents::{AgentSource, DelegationLimits};
use crate::middleware::summarization::SummarizationOptions;
use crate::middleware::todo::{DynPlanner, TodoPolicy};
use crate::profile::{HarnessProfile, Profiles};
use crate::workspace::Workspace;
use delegates::Delegate;

/// An agent with the standard stack. Cloning it costs a reference count.
///
/// See the [crate documentation](crate) for an example.
#[derive(Clone, Debug)]
pub struct DeepAgent {
    agent: Agent,
    /// Names of tools that it has but does not offer at first.
    withheld: Arc<BTreeSet<String>>,
}

/// Which standard stack to begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// Todo list, files, sub-agents, compaction, caching, repair, and a short prompt on how to work.
    #[default]
    Standard,
    /// Without todo list and without a prompt of our own.
    Lean,
}

/// Names of all middlewares that a standard stack may have: a profile for many agents may exclude one that this agent
/// happens not to have.
const STANDARD: [&str; 11] = [
    "TodoList",
    "Memory",
    "Skills",
    "Filesystem",
    "SubAgents",
    "BackgroundAgents",
    "Summarization",
    "PromptCaching",
    "PatchToolCalls",
    "HumanInTheLoop",
    "UnsupportedContent",
];

/// The name of the middleware that keeps the todo list.
const TODOS: &str = "TodoList";

/// The name of the middleware that asks.
const HUMAN: &str = "HumanInTheLoop";
/// The name of the middleware that has the file tools.
const FILESYSTEM: &str = "Filesystem";
/// Why rules are refused beside file tools that they would not bind.
const UNBOUND: &str = "permission rules do not bind a `Filesystem` of your own: give its files with `.backend(...)` and \
                       its options with `.files(...)`, or put `Guarded` around its backend instead";

/// Puts a [`DeepAgent`] together.
#[derive(Clone)]
#[must_use]
pub struct DeepAgentBuilder {
    preset: Preset,
    model: Option<Arc<dyn ChatModel>>,
    system_prompt: Option<Arc<str>>,
    workspace: Workspace,
    files: FilesystemOptions,
    todos: TodoPolicy,
    planner: Option<Arc<dyn DynPlanner>>,
    summarization: SummarizationOptions,
    caching: PromptCaching,
    memory: Option<Vec<String>>,
    skills: Option<Vec<SkillSource>>,
    skill_tools: Vec<Arc<dyn DynTool>>,
    profiles: Profiles,
    profile: Option<HarnessProfile>,
    permissions: Permissions,
    approvals: Approvals,
    delegates: Vec<Delegate>,
    agent_sources: Vec<AgentSource>,
    runnables: BTreeMap<String, Agent>,
    models: Option<Registry>,
    general_purpose: bool,
    /// Whether the `general-purpose` among the delegates is the standard one.
    gives_way: bool,
    background: bool,
    is_sub_agent: bool,
    /// Has no sub-agents of its own, whatever its skills define.
    is_leaf: bool,
    limits: DelegationLimits,
    task_description: Option<String>,
    own: Vec<Arc<dyn DynMiddleware>>,
    without: Vec<String>,
    tools: Vec<Arc<dyn DynTool>>,
    options: AgentOptions,
}

impl DeepAgent {
    /// Begins a deep agent.
    pub fn builder() -> DeepAgentBuilder {
        DeepAgentBuilder {
            preset: Preset::Standard,
            model: None,
            system_prompt: None,
            workspace: Workspace::One(Arc::new(StateBackend::new())),
            files: FilesystemOptions::default(),
            todos: TodoPolicy::default(),
            planner: None,
            summarization: SummarizationOptions::default(),
            caching: PromptCaching::default(),
            memory: None,
            skills: None,
            skill_tools: Vec::new(),
            profiles: Profiles::builtin(),
            profile: None,
            permissions: Permissions::default(),
            approvals: Approvals::new(),
            delegates: Vec::new(),
            agent_sources: Vec::new(),
            runnables: BTreeMap::new(),
            models: None,
            general_purpose: true,
            gives_way: false,
            background: false,
            is_sub_agent: false,
            is_leaf: false,
            limits: DelegationLimits::default(),
            task_description: None,
            own: Vec::new(),
            without: Vec::new(),
            tools: Vec::new(),
            options: AgentOptions::default(),
        }
    }

    /// Starts a run on the current Tokio runtime. Dropping the handle cancels it.
    pub fn run(&self, input: impl Into<RunInput>) -> Run {
        self.agent.run(input)
    }

    /// Runs to the end, without events.
    ///
    /// # Errors
    /// When the run fails; the error holds what it had finished.
    pub async fn invoke(&self, input: impl Into<RunInput>) -> Result<Outcome, Box<RunError>> {
        self.agent.invoke(input).await
    }

    /// The state of a thread; empty for an unknown one.
    ///
    /// # Errors
    /// When the agent has no journal or the log cannot be read.
    pub async fn state(&self, thread: &str) -> Result<State> {
        self.agent.state(thread).await
    }

    /// What the agent is made of, and what the part of its requests costs that is always the same.
    pub fn explain(&self) -> Explanation {
        Explanation::of(&self.agent, &self.withheld)
    }

    /// The agent below.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }
}

impl std::fmt::Debug for DeepAgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeepAgentBuilder")
            .field("preset", &self.preset)
            .field("model", &self.model.as_ref().map(|m| m.name().to_owned()))
            .field("own", &self.own.iter().map(|m| m.name()).collect::<Vec<_>>())
            .field("without", &self.without)
            .finish_non_exhaustive()
    }
}
