//! The builder of deep agents.

mod asked;
mod assemble;
mod below;
mod checks;
mod compact;
mod inherit;
mod nesting;
mod options;
mod order;
mod stack;
mod sub_agents;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use deepagents_core::agent::{Agent, AgentOptions};
use deepagents_core::middleware::DynMiddleware;
use deepagents_core::model::{ChatModel, SystemBlock};
use deepagents_core::tool::DynTool;
use deepagents_fs::Backend;
use deepagents_fs::permissions::Permissions;
#[cfg(feature = "mcp")]
use deepagents_mcp::McpServers;
#[cfg(feature = "models")]
use deepagents_models::Registry;

use crate::approvals::InterruptPolicy;
use crate::artifacts::FindArtifacts;
use crate::explain::Explanation;
use crate::middleware::background::BackgroundLimits;
use crate::middleware::filesystem::FilesystemOptions;
use crate::middleware::hooks::HookRunner;
use crate::middleware::loop_detection::LoopPolicy;
use crate::middleware::skills::SkillSource;
use crate::middleware::subagents::{AgentSource, DelegationLimits};
use crate::middleware::summarization::SummarizationOptions;
use crate::middleware::todo::{DynPlanner, TodoPolicy};
use crate::middleware::{PromptCaching, Redaction, Summarization};
use crate::profile::{HarnessProfile, Profiles};
use crate::shared::Shared;
#[cfg(feature = "remote")]
use crate::subagents::RemoteAccess;
use crate::subagents::{SubAgentDefaults, SubAgentSpec};
use crate::workspace::Workspace;
use nesting::Nesting;

/// An agent with the standard stack. It dereferences to [`Agent`], which provides [`run`](Agent::run),
/// [`invoke`](Agent::invoke), [`resume`](Agent::resume), [`state`](Agent::state), [`history`](Agent::history),
/// [`rewind`](Agent::rewind) and more. Cloning it only increments reference counts.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Four.")])).build()?;
/// assert_eq!(agent.invoke("What is two and two?").await?.text(), "Four.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeepAgent {
    agent: Agent,
    /// Names of tools that the agent has but does not offer at first.
    withheld: Arc<BTreeSet<String>>,
    /// Names of tools that need approval and may appear later.
    asked_later: Arc<[String]>,
    /// The middleware that compacts conversations; `None` if the caller has removed or replaced it.
    summarization: Option<Summarization>,
}

/// Selects the standard stack to start from.
///
/// ```
/// use deepagents::models::scripted::ScriptedModel;
/// use deepagents::{DeepAgent, Preset};
/// let lean = DeepAgent::builder().model(ScriptedModel::new([])).preset(Preset::Lean).build()?;
/// assert!(lean.explain().tools.iter().all(|tool| tool.name != "write_todos"));
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// Todo list, files, sub-agents, compaction, caching, repair, and a short prompt on how to work.
    #[default]
    Standard,
    /// Like `Standard`, but without a todo list and without the library's base prompt.
    Lean,
}

/// Names of all middlewares that a standard stack may have: a profile for many agents may exclude one that this agent
/// lacks.
const STANDARD: [&str; 15] = [
    "LoopDetection",
    "TodoList",
    "Memory",
    "Skills",
    "Filesystem",
    "SubAgents",
    "BackgroundAgents",
    "Mcp",
    "Summarization",
    "PromptCaching",
    "PatchToolCalls",
    "HumanInTheLoop",
    "UnsupportedContent",
    "Hooks",
    "Redaction",
];

/// Name of the middleware through which the agent asks questions.
const ASK_USER: &str = "AskUser";
/// Name of the middleware that maintains the todo list.
const TODOS: &str = "TodoList";

/// Name of the middleware that asks for approval.
const HUMAN: &str = "HumanInTheLoop";
/// Name of the middleware that provides the file tools.
const FILESYSTEM: &str = "Filesystem";
/// Error for rules that would not bind a custom `Filesystem`.
const UNBOUND: &str = "permission rules do not apply to a `Filesystem` of your own: give its files with \
    `.backend(...)` and its options with `.files(...)`, or wrap its backend in `PermissionedBackend`";

/// Builds a [`DeepAgent`].
///
/// ```
/// use deepagents::models::scripted::ScriptedModel;
/// use deepagents::{BuildError, DeepAgent, DeepAgentBuilder};
/// let careful: DeepAgentBuilder = DeepAgent::builder()
///     .model(ScriptedModel::new([]))
///     .system_prompt("You look after the files of a small office.")
///     .memory(["/AGENTS.md"])
///     .without("SubAgents");
/// careful.build()?;
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct DeepAgentBuilder {
    preset: Preset,
    model: Option<Arc<dyn ChatModel>>,
    system_prompt: Option<Arc<str>>,
    system_blocks: Vec<SystemBlock>,
    workspace: Workspace,
    /// Files with memory, skills and sub-agent files, if not the workspace.
    definitions: Option<Workspace>,
    /// Where the directories of the harness are kept, if not in the workspace.
    artifact_files: Option<Shared<FindArtifacts>>,
    files: FilesystemOptions,
    loops: LoopPolicy,
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
    approvals: InterruptPolicy,
    sub_agents: Vec<SubAgentSpec>,
    agent_sources: Vec<AgentSource>,
    runnables: BTreeMap<String, Agent>,
    #[cfg(feature = "models")]
    models: Option<Registry>,
    #[cfg(feature = "mcp")]
    mcp: Option<McpServers>,
    #[cfg(feature = "remote")]
    remote: RemoteAccess,
    no_general_purpose: bool,
    background: bool,
    background_limits: BackgroundLimits,
    limits: DelegationLimits,
    task_description: Option<String>,
    delegation_prompt: Option<Arc<str>>,
    sub_agent_defaults: SubAgentDefaults,
    named_backends: BTreeMap<String, Shared<dyn Backend>>,
    own: Vec<Arc<dyn DynMiddleware>>,
    /// Middlewares that sub-agents have too.
    shared: Vec<Arc<dyn DynMiddleware>>,
    hooks: Option<HookRunner>,
    redaction: Option<Redaction>,
    without: Vec<String>,
    tools: Vec<Arc<dyn DynTool>>,
    options: AgentOptions,
    nesting: Nesting,
}

impl DeepAgent {
    /// Creates a builder.
    pub fn builder() -> DeepAgentBuilder {
        DeepAgentBuilder::default()
    }

    /// Describes the parts of the agent and the cost of the fixed part of its requests.
    pub fn explain(&self) -> Explanation {
        Explanation::new(&self.agent, &self.withheld, &self.asked_later)
    }
}

impl Deref for DeepAgent {
    type Target = Agent;

    fn deref(&self) -> &Agent {
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
