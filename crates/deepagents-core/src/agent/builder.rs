//! The agent builder.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::Agent;
use crate::context::{AgentDefinition, MAX_MODEL_CALLS, Observers};
use crate::env::{Clock, Ids};
use crate::error::{BoxError, BudgetError};
use crate::interrupt::{ActionRequests, PausedChildren};
use crate::journal::{Journal, ProcessIdentity};
use crate::machine::Budget;
use crate::middleware::DynMiddleware;
use crate::model::{ChatModel, ModelSettings, ProviderTool, SystemBlock};
use crate::state::{ChannelSpec, MessagesChannel, Schema, SchemaError, StructuredResponse, Undelivered};
use crate::store::Store;
use crate::structured::ResponseFormat;
use crate::tool::{DynTool, ToolSet, ToolSetError, check_spec};

/// The options of an agent other than its model, prompt, middlewares and tools; for builders that produce an
/// [`AgentBuilder`].
#[derive(Clone, Default)]
pub struct AgentOptions {
    /// See [`AgentBuilder::name`].
    pub name: Option<String>,
    /// See [`AgentBuilder::description`].
    pub description: Option<String>,
    /// See [`AgentBuilder::settings`].
    pub settings: ModelSettings,
    /// See [`AgentBuilder::response_format`].
    pub format: Option<ResponseFormat>,
    /// See [`AgentBuilder::max_model_calls`].
    pub max_model_calls: Option<u32>,
    /// See [`AgentBuilder::budget`].
    pub budget: Budget,
    /// See [`AgentBuilder::journal`].
    pub journal: Option<Arc<dyn Journal>>,
    /// See [`AgentBuilder::process`].
    pub process: Option<Arc<dyn ProcessIdentity>>,
    /// See [`AgentBuilder::store`].
    pub store: Option<Arc<dyn Store>>,
    /// See [`AgentBuilder::clock`].
    pub clock: Option<Arc<dyn Clock>>,
    /// See [`AgentBuilder::ids`].
    pub ids: Option<Arc<dyn Ids>>,
    /// See [`AgentBuilder::observe_runs`].
    pub observers: Option<Observers>,
    /// See [`AgentBuilder::provider_tool`].
    pub provider_tools: Vec<Arc<ProviderTool>>,
    /// See [`AgentBuilder::channel`].
    pub channels: Vec<ChannelSpec>,
}

/// Builds an [`Agent`].
#[must_use]
pub struct AgentBuilder {
    model: Arc<dyn ChatModel>,
    system: Vec<SystemBlock>,
    middlewares: Vec<Arc<dyn DynMiddleware>>,
    tools: Vec<Arc<dyn DynTool>>,
    options: AgentOptions,
}

/// Error from building an agent.
///
/// ```
/// use deepagents_core::agent::{Agent, BuildError};
/// # fn f(model: std::sync::Arc<dyn deepagents_core::model::ChatModel>) {
/// match Agent::builder(model).max_model_calls(0).build() {
///     Err(BuildError::Option(reason)) => assert_eq!(reason, "max_model_calls must be at least 1"),
///     other => panic!("{other:?}"),
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two middlewares have the same name.
    #[error("two middlewares are named `{0}`; rename one of them")]
    MiddlewareTwice(String),
    /// Two tools have the same name, and neither may replace the other.
    #[error("two tools are named `{name}`, {}; rename one or leave it out", from(first, second))]
    ToolTwice {
        /// The name.
        name: String,
        /// The source of the first.
        first: String,
        /// The source of the second.
        second: String,
    },
    /// A tool cannot be offered to a model.
    #[error(transparent)]
    Tool(#[from] ToolSetError),
    /// Two types use the same channel name.
    #[error(transparent)]
    Channels(#[from] SchemaError),
    /// The budget is not valid.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// An option is not valid because of another error.
    #[error("{option}: {source}")]
    Invalid {
        /// The option, as text for people.
        option: String,
        /// The cause.
        source: BoxError,
    },
    /// An option is missing or not valid.
    #[error("{0}")]
    Option(String),
}

/// Describes the sources of two tools.
fn from(first: &str, second: &str) -> String {
    if first == second { format!("both from {first}") } else { format!("from {first} and {second}") }
}

/// The option methods shared by all agent builders. The builder must have a field `options: AgentOptions`.
#[doc(hidden)]
#[macro_export]
macro_rules! agent_option_methods {
    () => {
        /// Sets the agent's name, used in events and usage, and as the name of its answers. Without one, it is `agent`
        /// in events and usage, and its answers have no name.
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.options.name = Some(name.into());
            self
        }

        /// Describes the agent's purpose for people who read its traces. The model does not see it.
        pub fn description(mut self, description: impl Into<String>) -> Self {
            self.options.description = Some(description.into());
            self
        }

        /// Sets the model settings, such as sampling, of every model call.
        pub fn settings(mut self, settings: $crate::model::ModelSettings) -> Self {
            self.options.settings = settings;
            self
        }

        /// Requests a structured answer in this format.
        pub fn response_format(mut self, format: $crate::structured::ResponseFormat) -> Self {
            self.options.format = Some(format);
            self
        }

        /// Limits the model calls of this agent in a run; 9999 by default. Sub-agents have their own limits. A
        /// [`budget`](Self::budget) counts the calls of all of them.
        pub fn max_model_calls(mut self, limit: u32) -> Self {
            self.options.max_model_calls = Some(limit);
            self
        }

        /// Limits what a run of this agent and its sub-agents may spend. The run's own budget takes precedence.
        pub fn budget(mut self, budget: $crate::run::Budget) -> Self {
            self.options.budget = budget;
            self
        }

        /// Sets the journal that stores threads.
        pub fn journal(mut self, journal: impl $crate::journal::Journal) -> Self {
            self.options.journal = Some(::std::sync::Arc::new(journal));
            self
        }

        /// Identifies the process that works on the threads of this agent and of its background agents. The next run in
        /// a thread takes it over if the owning process is gone. Without this, the thread stays locked until the lease
        /// expires.
        pub fn process(mut self, process: impl $crate::journal::ProcessIdentity) -> Self {
            self.options.process = Some(::std::sync::Arc::new(process));
            self
        }

        /// Sets the store for long-term memory.
        pub fn store(mut self, store: impl $crate::store::Store) -> Self {
            self.options.store = Some(::std::sync::Arc::new(store));
            self
        }

        /// Sets the clock.
        pub fn clock(mut self, clock: impl $crate::env::Clock) -> Self {
            self.options.clock = Some(::std::sync::Arc::new(clock));
            self
        }

        /// Adds a tool that the provider runs itself, in the provider's own format.
        pub fn provider_tool(mut self, tool: $crate::model::ProviderTool) -> Self {
            self.options.provider_tools.push(::std::sync::Arc::new(tool));
            self
        }

        /// Declares an application channel: state that no middleware or tool declares, or that must exist without them.
        pub fn channel<C: $crate::state::Channel>(mut self) -> Self {
            self.options.channels.push($crate::state::ChannelSpec::new::<C>());
            self
        }

        /// Sets the id generator.
        pub fn ids(mut self, ids: impl $crate::env::Ids) -> Self {
            self.options.ids = Some(::std::sync::Arc::new(ids));
            self
        }

        /// Sets a factory for the observer of each run of this agent. It is nested inside the observers of the run's
        /// own input.
        pub fn observe_runs(
            mut self,
            observers: impl Fn() -> ::std::sync::Arc<dyn $crate::run::RunObserver> + Send + Sync + 'static,
        ) -> Self {
            self.options.observers = Some(::std::sync::Arc::new(observers));
            self
        }
    };
}

impl AgentBuilder {
    pub(super) fn new(model: Arc<dyn ChatModel>) -> Self {
        Self { model, system: Vec::new(), middlewares: Vec::new(), tools: Vec::new(), options: AgentOptions::default() }
    }

    /// Sets all options at once, replacing those set before.
    pub fn options(mut self, options: AgentOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a section to the system prompt, before those of the middlewares.
    pub fn system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system.push(SystemBlock::new(text));
        self
    }

    /// Adds a block to the system prompt, before those of the middlewares: text or media, optionally with a cache mark.
    pub fn system_block(mut self, block: impl Into<SystemBlock>) -> Self {
        self.system.push(block.into());
        self
    }

    /// Appends a middleware to the stack.
    pub fn middleware(mut self, middleware: impl DynMiddleware) -> Self {
        self.middlewares.push(Arc::new(middleware));
        self
    }

    /// Adds a tool. It replaces a middleware's tool of the same name.
    pub fn tool(mut self, tool: impl DynTool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    agent_option_methods!();

    /// Builds the agent.
    ///
    /// # Errors
    /// Returns an error if names clash or a tool cannot be offered to a model.
    pub fn build(self) -> Result<Agent, BuildError> {
        let max_model_calls = self.options.max_model_calls.unwrap_or(MAX_MODEL_CALLS);
        if max_model_calls == 0 {
            return Err(BuildError::Option("max_model_calls must be at least 1".to_owned()));
        }
        self.options.budget.check()?;
        if let Some(format) = &self.options.format {
            format.check.compile().map_err(|why| {
                BuildError::Option(format!("the schema of response format `{}` is not valid: {why}", format.name()))
            })?;
        }
        let mut names = HashSet::new();
        for middleware in &self.middlewares {
            if middleware.name().trim().is_empty() {
                return Err(BuildError::Option(
                    "a middleware has an empty name; errors and `explain` need one".to_owned(),
                ));
            }
            if !names.insert(middleware.name()) {
                return Err(BuildError::MiddlewareTwice(middleware.name().to_owned()));
            }
        }
        let channels = [
            ChannelSpec::new::<MessagesChannel>(),
            ChannelSpec::new::<StructuredResponse>(),
            ChannelSpec::new::<ActionRequests>(),
            ChannelSpec::new::<PausedChildren>(),
            ChannelSpec::new::<Undelivered>(),
        ];
        let tools = self.collect_tools()?;
        let of_middlewares = self.middlewares.iter().flat_map(|m| m.channels());
        let of_tools = tools.names().filter_map(|name| tools.get(name)).flat_map(|tool| tool.channels());
        let own = self.options.channels.iter().copied();
        let schema = Schema::new(channels.into_iter().chain(of_middlewares).chain(of_tools).chain(own))?;
        let options = self.options;
        let mut system = self.system;
        system.extend(self.middlewares.iter().filter_map(|m| m.system_prompt()).map(SystemBlock::new));
        let default = AgentDefinition::default();
        Ok(Agent {
            definition: Arc::new(AgentDefinition {
                name: options.name.clone().unwrap_or(default.name),
                given_name: options.name,
                description: options.description.map(Into::into),
                model: self.model,
                stack: self.middlewares.into(),
                tools,
                provider_tools: options.provider_tools,
                system,
                schema: Arc::new(schema),
                settings: options.settings,
                format: options.format,
                max_model_calls,
                budget: options.budget,
                journal: options.journal,
                process: options.process,
                store: options.store,
                clock: options.clock.unwrap_or(default.clock),
                ids: options.ids.unwrap_or(default.ids),
                observers: options.observers,
                background: default.background,
            }),
            live: Arc::default(),
        })
    }

    fn collect_tools(&self) -> Result<ToolSet, BuildError> {
        const CALLER: &str = "the caller";
        let mut entries: BTreeMap<String, (String, Arc<dyn DynTool>)> = BTreeMap::new();
        let of_middlewares = self.middlewares.iter().flat_map(|m| {
            let source = format!("middleware `{}`", m.name());
            m.tools().into_iter().map(move |tool| (source.clone(), tool))
        });
        let of_caller = self.tools.iter().map(|tool| (CALLER.to_owned(), tool.clone()));
        for (source, tool) in of_middlewares.chain(of_caller) {
            let spec = tool.spec();
            check_spec(&spec)?;
            let replaces = source == CALLER;
            match entries.insert(spec.name.clone(), (source.clone(), tool)) {
                Some((first, _)) if first == CALLER || !replaces => {
                    return Err(BuildError::ToolTwice { name: spec.name, first, second: source });
                }
                _ => {}
            }
        }
        if let Some(format) = &self.options.format
            && let Some((first, _)) = entries.remove(format.name())
        {
            let (name, second) = (format.name().to_owned(), "the response format".to_owned());
            return Err(BuildError::ToolTwice { name, first, second });
        }
        Ok(ToolSet::new(entries.into_values().map(|(_, tool)| tool))?)
    }
}

impl std::fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentOptions").field("name", &self.name).field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("name", &self.options.name)
            .field("model", &self.model.name())
            .finish_non_exhaustive()
    }
}
