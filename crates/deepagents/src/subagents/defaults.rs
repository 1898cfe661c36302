//! What all sub-agents of an agent have in common.

use std::any::Any;
use std::sync::Arc;

use deepagents_core::middleware::{DynMiddleware, Middleware};
use deepagents_core::model::ChatModel;
use deepagents_core::tool::DynTool;

use crate::approvals::InterruptPolicy;
use crate::middleware::HumanInTheLoop;
use crate::shared::Shared;
use crate::subagents::ModelSpec;

/// What sub-agents have that do not say otherwise: those described in code, in files and by skills, `general-purpose`,
/// and the sub-agents of sub-agents. What is not said here is inherited from the agent that has them. Agents that are built
/// already are what they are.
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
    /// Approvals beside those of `interrupt_on`, inherited or not.
    pub(crate) more_approvals: InterruptPolicy,
}

impl SubAgentDefaults {
    crate::shared::setters! {
        /// Their model, in place of that of the agent above.
        model(model: impl ChatModel) => model = Some(Shared(Arc::new(model)));

        /// The same by its name, or as a map of settings: made by the registry given with
        /// [`models`](crate::DeepAgentBuilder::models).
        model_named(model: impl Into<ModelSpec>) => model_spec = Some(model.into());

        /// Their tools, in place of those given to the agent above; file tools come with the stack anyway.
        tools(tools: impl IntoIterator<Item = Arc<dyn DynTool>>)
            => tools = Some(tools.into_iter().map(Shared).collect());

        /// What a person is asked about, in place of what the agent above has.
        interrupt_on(approvals: InterruptPolicy) => interrupt_on = Some(approvals);
    }

    /// Adds a middleware that all of them have, before their own. One with the name of a standard middleware takes its
    /// place, and one of a sub-agent's own with its name takes its place there. What a [`HumanInTheLoop`] asks about is
    /// added to what they are asked about anyway.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        if let Some(human) = (&middleware as &dyn Any).downcast_ref::<HumanInTheLoop>() {
            self.more_approvals = self.more_approvals.and(human.approvals().clone());
            return self;
        }
        self.middlewares.push(Shared(Arc::new(middleware)));
        self
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.middlewares.iter().any(|middleware| middleware.name() == name)
    }
}
