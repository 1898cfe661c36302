//! Sub-agents described by data.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use deepagents_core::middleware::{DynMiddleware, Middleware};
use deepagents_core::model::{ChatModel, ModelSettings};
use deepagents_core::structured::ResponseFormat;
use deepagents_core::tool::DynTool;
use deepagents_fs::permissions::Permissions;

use crate::approvals::Approvals;
use crate::definition::{Mode, SummarizationDefinition};
use crate::middleware::HumanInTheLoop;

/// A sub-agent described by data. What is not said is inherited from the agent that has it: its model and its own
/// tools.
///
/// ```
/// use deepagents::middleware::subagents::SubAgentSpec;
/// let researcher = SubAgentSpec::new("researcher", "Finds things out.").system_prompt("You cite your sources.");
/// ```
#[derive(Clone)]
pub struct SubAgentSpec {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) system_prompt: Option<Arc<str>>,
    pub(crate) model: Option<Arc<dyn ChatModel>>,
    pub(crate) tools: Option<Vec<Arc<dyn DynTool>>>,
    pub(crate) middlewares: Vec<Arc<dyn DynMiddleware>>,
    pub(crate) skills: Vec<String>,
    /// Without skills of its own it has those of the agent above.
    pub(crate) inherits_skills: bool,
    /// Whether its prompt stands in the place of the base prompt, the library's or a profile's.
    pub(crate) without_base: bool,
    pub(crate) permissions: Option<Permissions>,
    pub(crate) approvals: Option<Approvals>,
    /// Beside those, inherited or not.
    pub(crate) more_approvals: Approvals,
    pub(crate) format: Option<ResponseFormat>,
    pub(crate) settings: Option<ModelSettings>,
    pub(crate) summarization: Option<SummarizationDefinition>,
    pub(crate) mode: Mode,
    /// All the tools it has, if not those that come of the rest.
    pub(crate) only: Option<BTreeSet<String>>,
    /// What it says of permissions and approvals is added to what the agent above has, and takes nothing of it away.
    pub(crate) bound: bool,
}

impl SubAgentSpec {
    /// A sub-agent with a name and what it is for.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            system_prompt: None,
            model: None,
            tools: None,
            middlewares: Vec::new(),
            skills: Vec::new(),
            inherits_skills: false,
            without_base: false,
            permissions: None,
            approvals: None,
            more_approvals: Approvals::new(),
            format: None,
            settings: None,
            summarization: None,
            mode: Mode::Isolated,
            only: None,
            bound: false,
        }
    }

    /// What it is told to be and do. One that shares the conversation is told so with its task, since its system prompt is
    /// that of the agent above.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// Another word for [`system_prompt`](Self::system_prompt).
    #[must_use]
    pub fn prompt(self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt(text)
    }

    /// A model of its own.
    #[must_use]
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Sampling and the like, in place of the settings of the agent above.
    #[must_use]
    pub fn settings(mut self, settings: ModelSettings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Tools in place of those of the agent above; file tools come with its stack anyway.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Self {
        self.tools = Some(tools.into_iter().collect());
        self
    }

    /// A middleware of its own. What a [`HumanInTheLoop`] asks about is added to what the sub-agent is asked about
    /// anyway.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        if let Some(human) = (&middleware as &dyn Any).downcast_ref::<HumanInTheLoop>() {
            self.more_approvals = self.more_approvals.and(human.approvals().clone());
            return self;
        }
        self.middlewares.push(Arc::new(middleware));
        self
    }

    /// Folders of skills.
    #[must_use]
    pub fn skills(mut self, sources: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.skills = sources.into_iter().map(Into::into).collect();
        self
    }

    /// What it may do with which files, in place of the rules of the agent above.
    #[must_use]
    pub fn permissions(mut self, rules: Permissions) -> Self {
        self.permissions = Some(rules);
        self
    }

    /// What a person is asked about, in place of what the agent above has; `Approvals::new()` for nothing.
    #[must_use]
    pub fn interrupt_on(mut self, approvals: Approvals) -> Self {
        self.approvals = Some(approvals);
        self
    }

    /// The shape of its report.
    #[must_use]
    pub fn response_format(mut self, format: ResponseFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// Says whether it sees the conversation.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

impl std::fmt::Debug for SubAgentSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubAgentSpec")
            .field("name", &self.name)
            .field("model", &self.model.as_ref().map(|m| m.name().to_owned()))
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
