//! The spec of a sub-agent.

use std::sync::Arc;

use deepagents_core::middleware::{DynMiddleware, Middleware};
use deepagents_core::model::{ChatModel, ModelSettings};
use deepagents_core::run::Budget;
use deepagents_core::structured::ResponseFormat;
use deepagents_core::tool::DynTool;
use deepagents_fs::Backend;
use deepagents_fs::permissions::Rule;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::agent::{DynSubAgent, SubAgent, listed_description};
use super::{BudgetSpec, DefinitionError, Headers, ModelSpec, ServerProtocol, SummarizationSpec};
use crate::approvals::InterruptPolicy;
use crate::middleware::HumanInTheLoop;
use crate::middleware::filesystem::EditTool;
use crate::middleware::subagents::{DelegationLimits, define};
use crate::shared::Shared;

/// Defines a sub-agent, in code, JSON or a file. Anything not set is inherited from the parent agent.
///
/// As JSON, an object of the public fields. `prompt` is an alias for `system_prompt`, `graph` for `runnable` and
/// `agents` for `sub_agents`; `tools` and `skills` may be one string of names; an unknown key is an error.
///
/// Code can also set parts without a JSON form: tools, middlewares, a model, or a [`SubAgent`] that does the work
/// itself. They are not serialized.
///
/// ```
/// use deepagents::json_tool;
/// use deepagents::subagents::SubAgentSpec;
/// use serde_json::json;
/// let now = json_tool("now", "Tells the time.", json!({"type": "object"}), |_args, _cx| async { Ok("noon") });
/// let researcher = SubAgentSpec::new("researcher", "Finds things out.").system_prompt("Cite sources.").tool(now);
///
/// let reviewer: SubAgentSpec = serde_json::from_value(json!({
///     "name": "reviewer",
///     "description": "Reads a change and says what is wrong with it.",
///     "prompt": "You review code.",
///     "tools": ["read_file", "grep"],
///     "model": {"model": "anthropic:claude-haiku-4-5", "temperature": 0.0},
/// }))?;
/// assert_eq!(reviewer.system_prompt.as_deref(), Some("You review code."));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SubAgentSpec {
    /// The name by which it is called.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// Its system prompt.
    #[serde(default, alias = "prompt", skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Names of the only tools it has, including those of standard middlewares; `None` for the tools that a sub-agent
    /// has by default.
    #[serde(default, rename = "tools", deserialize_with = "words", skip_serializing_if = "Option::is_none")]
    pub tool_names: Option<Vec<String>>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSpec>,
    /// Sources of its own skills.
    #[serde(default, deserialize_with = "some_words", skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// The operations that it may perform on files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Rule>>,
    /// The calls that need a person's approval, by tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_on: Option<InterruptPolicy>,
    /// The format of its result: a JSON schema, or `{"name", "schema"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
    /// The tool with which it edits files, in place of the parent agent's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_tool: Option<EditTool>,
    /// How much of the conversation it sees.
    #[serde(default, skip_serializing_if = "Mode::is_isolated")]
    pub mode: Mode,
    /// How its conversation is compacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summarization: Option<SummarizationSpec>,
    /// Its budget, including that of its descendants, in addition to the budget shared with the agents above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSpec>,
    /// How far it may delegate in turn. The depth is relative to it, and never exceeds that of the parent agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<DelegationLimits>,
    /// Its files, by a name registered with [`named_backend`](crate::DeepAgentBuilder::named_backend).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Its own sub-agents.
    #[serde(default, alias = "agents", alias = "subagents", skip_serializing_if = "Vec::is_empty")]
    pub sub_agents: Vec<SubAgentSpec>,
    /// The name of a built agent that does the work, registered with [`runnable`](crate::DeepAgentBuilder::runnable).
    /// Can be combined only with `name`, `description` and `mode`.
    #[serde(default, alias = "graph", skip_serializing_if = "Option::is_none")]
    pub runnable: Option<String>,
    /// The URL of the server whose agent does the work. Can be combined only with `name`, `description`, `graph_id`,
    /// `headers`, `protocol` and the `seconds` of `budget`. Requires the feature `remote`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The agent on that server: a graph, or the id of an assistant.
    #[serde(default, alias = "assistant", alias = "assistant_id", skip_serializing_if = "Option::is_none")]
    pub graph_id: Option<String>,
    /// Headers of the requests to it; `${NAME}` in them stands for the value of a
    /// [variable](crate::DeepAgentBuilder::remote).
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// The protocol of the server.
    #[serde(default, skip_serializing_if = "ServerProtocol::is_standard")]
    pub protocol: ServerProtocol,
    #[serde(skip)]
    pub(crate) code: CodeParts,
}

/// Parts of a spec without a JSON form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CodeParts {
    /// A worker to use instead of an agent built from the spec.
    pub(crate) agent: Option<Shared<dyn DynSubAgent>>,
    pub(crate) model: Option<Shared<dyn ChatModel>>,
    pub(crate) settings: Option<ModelSettings>,
    pub(crate) budget: Option<Budget>,
    pub(crate) backend: Option<Shared<dyn Backend>>,
    pub(crate) tools: Option<Vec<Shared<dyn DynTool>>>,
    pub(crate) middlewares: Vec<Shared<dyn DynMiddleware>>,
    pub(crate) response_format: Option<Shared<ResponseFormat>>,
    /// Approvals in addition to those of `interrupt_on`, inherited or not.
    pub(crate) middleware_approvals: InterruptPolicy,
    /// Whether it inherits the parent agent's skills if it has none.
    pub(crate) inherits_skills: bool,
    /// Whether its prompt replaces the base prompt of the library or the profile.
    pub(crate) without_base: bool,
}

impl CodeParts {
    /// Returns the name of a part that cannot be combined with a built agent, if there is one.
    fn conflict_with_agent(&self) -> Option<&'static str> {
        let parts = [
            ("model", self.model.is_some()),
            ("settings", self.settings.is_some()),
            ("tools", self.tools.is_some()),
            ("middleware", !self.middlewares.is_empty() || !self.middleware_approvals.is_empty()),
            ("response_format", self.response_format.is_some()),
            ("budget", self.budget.is_some()),
            ("backend", self.backend.is_some()),
        ];
        parts.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// How much of the conversation a sub-agent sees.
///
/// ```
/// use deepagents::subagents::{Mode, SubAgentSpec};
/// let spec: SubAgentSpec =
///     serde_json::from_value(serde_json::json!({"name": "aside", "description": "Thinks aloud.", "mode": "fork"}))?;
/// assert_eq!(spec.mode, Mode::Fork);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// Only the task.
    #[default]
    Isolated,
    /// The whole conversation, followed by the task.
    Fork,
}

impl Mode {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_isolated(&self) -> bool {
        *self == Self::Isolated
    }
}

impl SubAgentSpec {
    /// Creates a spec with a name and a description.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), ..Self::default() }
    }

    /// Parses a file as [`agents_from`](crate::DeepAgentBuilder::agents_from) does: front matter followed by the
    /// prompt. `name` is the default for its name. A description that is too long is truncated.
    ///
    /// ```
    /// use deepagents::subagents::SubAgentSpec;
    /// let text = "---\ndescription: Finds faults.\ntools: read_file, grep\n---\nYou review code.\n";
    /// let critic = SubAgentSpec::from_markdown(text, "critic")?;
    /// assert_eq!((critic.name.as_str(), critic.system_prompt.as_deref()), ("critic", Some("You review code.")));
    /// # Ok::<(), deepagents::subagents::DefinitionError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the text does not define a sub-agent.
    pub fn from_markdown(text: &str, name: &str) -> Result<Self, DefinitionError> {
        define(text, name).map(|(spec, _)| spec).map_err(DefinitionError)
    }

    crate::shared::setters! {
        /// Sets its role and instructions. If it shares the conversation, they are sent with its task, because its
        /// system prompt is the parent agent's.
        system_prompt(text: impl Into<String>) => system_prompt = Some(text.into());

        /// Sets its model.
        model(model: impl ChatModel) => code.model = Some(Shared(Arc::new(model)));

        /// Sets its sampling and other model settings, in place of the parent agent's.
        settings(settings: ModelSettings) => code.settings = Some(settings);

        /// Sets its tools, in place of those given to the parent agent. It keeps the file tools of the stack, unless
        /// [`tool_names`](Self::tool_names) excludes them.
        tools(tools: impl IntoIterator<Item = Arc<dyn DynTool>>)
            => code.tools = Some(tools.into_iter().map(Shared).collect());
    }

    /// Adds a tool of its own. Like [`tools`](Self::tools), these replace the tools given to the parent agent.
    #[must_use]
    pub fn tool(mut self, tool: impl DynTool) -> Self {
        self.code.tools.get_or_insert_default().push(Shared(Arc::new(tool)));
        self
    }

    /// Adds a middleware. The policy of a [`HumanInTheLoop`] is added to the sub-agent's approvals.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        if let Some(policy) = HumanInTheLoop::policy_of(&middleware) {
            self.code.middleware_approvals = self.code.middleware_approvals.and(policy);
            return self;
        }
        self.code.middlewares.push(Shared(Arc::new(middleware)));
        self
    }

    /// Adds a sub-agent of its own: a spec, or a worker. The [limits](crate::DeepAgentBuilder::delegation_limits) of
    /// the main agent determine the maximum depth.
    #[must_use]
    pub fn sub_agent(mut self, agent: impl Into<SubAgentSpec>) -> Self {
        self.sub_agents.push(agent.into());
        self
    }

    crate::shared::setters! {
        /// Sets its own files, in place of the parent agent's. What it writes there is not handed back.
        backend(backend: impl Backend) => code.backend = Some(Shared(Arc::new(backend)));

        /// Sets its budget, including that of its descendants, in addition to the budget shared with the agents above.
        budget(budget: Budget) => code.budget = Some(budget);

        /// Sets how far it may delegate in turn; the depth is relative to it.
        limits(limits: DelegationLimits) => limits = Some(limits);

        /// Sets how its conversation is compacted.
        summarization(summarization: SummarizationSpec) => summarization = Some(summarization);

        /// Sets the directories of its skills.
        skills(sources: impl IntoIterator<Item = impl Into<String>>)
            => skills = sources.into_iter().map(Into::into).collect();

        /// Sets the permission rules for its files, in place of the parent agent's.
        permissions(rules: impl IntoIterator<Item = Rule>) => permissions = Some(rules.into_iter().collect());

        /// Sets which calls need approval, in place of the parent agent's policy; `InterruptPolicy::new()` for none.
        interrupt_on(approvals: InterruptPolicy) => interrupt_on = Some(approvals);

        /// Sets the format of its result.
        response_format(format: ResponseFormat) => code.response_format = Some(Shared(Arc::new(format)));

        /// Sets whether it sees the conversation.
        mode(mode: Mode) => mode = mode;
    }

    /// Returns the description that the model is shown.
    pub(crate) fn listed_description(&self) -> String {
        listed_description(&self.description, self.mode)
    }

    /// Returns the format of its result, if it has one.
    pub(crate) fn format(&self) -> Result<Option<ResponseFormat>, String> {
        if let Some(format) = &self.code.response_format {
            return Ok(Some(ResponseFormat::clone(format)));
        }
        let Some(given) = &self.response_format else { return Ok(None) };
        let (name, schema) = match given.get("schema") {
            Some(schema) if given.get("type").is_none() => (given.get("name"), schema),
            _ => (given.get("title"), given),
        };
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("`response_format` is not a JSON schema of type object".to_owned());
        }
        let name = name.and_then(Value::as_str).unwrap_or("report");
        Ok(Some(ResponseFormat::json(name, schema.clone())))
    }

    /// Returns a key that cannot be combined with a built agent, if there is one.
    pub(crate) fn conflict_with_runnable(&self) -> Option<String> {
        self.first_key_except(&["name", "description", "mode", "runnable"])
    }

    /// Returns a key that cannot be combined with a remote agent, if there is one.
    #[cfg(feature = "remote")]
    pub(crate) fn conflict_with_server(&self) -> Option<String> {
        let keys = ["name", "description", "mode", "url", "graph_id", "headers", "protocol", "budget"];
        let limits = self.budget.clone().map(|budget| BudgetSpec { seconds: None, ..budget });
        let more = limits.is_some_and(|limits| limits != BudgetSpec::default());
        self.first_key_except(&keys).or_else(|| more.then(|| "budget, but for its seconds".to_owned()))
    }

    /// Returns the first key that is set and not among these.
    fn first_key_except(&self, fine: &[&str]) -> Option<String> {
        let Ok(Value::Object(given)) = serde_json::to_value(self) else { return Some("interrupt_on".to_owned()) };
        let mut keys = given.into_iter().map(|(key, _)| key);
        let key = keys.find(|key| !fine.contains(&&**key));
        key.or_else(|| self.code.conflict_with_agent().map(str::to_owned))
    }
}

impl<A: SubAgent> From<A> for SubAgentSpec {
    /// Wraps a worker: a built agent, a closure, or your own type.
    fn from(agent: A) -> Self {
        let mut spec = Self::new(SubAgent::name(&agent), SubAgent::description(&agent));
        spec.code.agent = Some(Shared(Arc::new(agent)));
        spec
    }
}

/// A list of names, or one string of names separated by whitespace and commas.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a list of names, or one text of them")]
enum Words {
    List(Vec<String>),
    Text(String),
}

fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let given = Option::<Words>::deserialize(deserializer)?;
    Ok(given.map(|words| match words {
        Words::List(list) => list,
        Words::Text(text) => {
            let names = text.split(|c: char| c.is_whitespace() || c == ',').filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        }
    }))
}

fn some_words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    words(deserializer).map(Option::unwrap_or_default)
}
