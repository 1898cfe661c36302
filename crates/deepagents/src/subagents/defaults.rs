//! Defaults for all sub-agents of an agent.

use std::sync::Arc;

use deepagents_core::middleware::{DynMiddleware, Middleware};
use deepagents_core::model::ChatModel;
use deepagents_core::tool::DynTool;

use crate::approvals::InterruptPolicy;
use crate::middleware::HumanInTheLoop;
use crate::shared::Shared;
use crate::subagents::ModelSpec;

/// Defaults for sub-agents that do not set a value themselves: those defined in code, in files and by skills,
/// `general-purpose`, and their own sub-agents. Anything not set here is inherited from the parent agent. Agents that
/// are already built are not affected.
///
/// ```
/// use deepagents::models::scripted::ScriptedModel;
/// use deepagents::subagents::SubAgentDefaults;
/// use deepagents::{DeepAgent, HookOutput, before_model};
/// let counted = before_model(|_cx| async { Ok(HookOutput::next()) }).named("Counted");
/// let agent = DeepAgent::builder()
///     .model(ScriptedModel::new([]))
///     .sub_agent_defaults(SubAgentDefaults::default().model(ScriptedModel::new([])).middleware(counted))
///     .build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SubAgentDefaults {
    pub(crate) model: Option<Shared<dyn ChatModel>>,
    pub(crate) model_spec: Option<ModelSpec>,
    pub(crate) tools: Option<Vec<Shared<dyn DynTool>>>,
    pub(crate) middlewares: Vec<Shared<dyn DynMiddleware>>,
    pub(crate) interrupt_on: Option<InterruptPolicy>,
    /// Approvals in addition to those of `interrupt_on`, inherited or not.
    pub(crate) middleware_approvals: InterruptPolicy,
}

impl SubAgentDefaults {
    crate::shared::setters! {
        /// Sets their model, in place of the parent agent's.
        model(model: impl ChatModel) => model = Some(Shared(Arc::new(model)));

        /// Sets their model by name or as a map of settings; the registry given with
        /// [`models`](crate::DeepAgentBuilder::models) creates it.
        model_named(model: impl Into<ModelSpec>) => model_spec = Some(model.into());

        /// Sets their tools, in place of those given to the parent agent. The stack's file tools are not affected.
        tools(tools: impl IntoIterator<Item = Arc<dyn DynTool>>)
            => tools = Some(tools.into_iter().map(Shared).collect());

        /// Sets which calls need approval, in place of the parent agent's policy.
        interrupt_on(approvals: InterruptPolicy) => interrupt_on = Some(approvals);
    }

    /// Adds a tool for them. Like [`tools`](Self::tools), these replace the tools given to the parent agent.
    #[must_use]
    pub fn tool(mut self, tool: impl DynTool) -> Self {
        self.tools.get_or_insert_default().push(Shared(Arc::new(tool)));
        self
    }

    /// Adds a middleware to all sub-agents, before their own ones. It replaces a standard middleware of the same name,
    /// and is replaced by a sub-agent's own middleware of that name. The policy of a [`HumanInTheLoop`] is added to the
    /// sub-agents' approvals.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        if let Some(policy) = HumanInTheLoop::policy_of(&middleware) {
            self.middleware_approvals = self.middleware_approvals.and(policy);
            return self;
        }
        self.middlewares.push(Shared(Arc::new(middleware)));
        self
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.middlewares.iter().any(|middleware| middleware.name() == name)
    }
}
