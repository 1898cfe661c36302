//! The one description of a sub-agent.

use std::any::Any;
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
use crate::middleware::subagents::{DelegationLimits, define};
use crate::shared::Shared;

/// Describes a sub-agent, in code, JSON or a file. What is not said is inherited from the agent that has it.
///
/// As JSON an object of the public fields. `prompt` is read as `system_prompt`, `graph` as `runnable`, `tools` and `skills`
/// may be one text of names, `agents` is read as `sub_agents`, and a key that is none of these is an error. Code can also give what has no JSON form: tools,
/// middlewares, a model, or a [`SubAgent`] that does the work by itself. Those parts are not written to JSON.
///
/// ```
/// use deepagents::subagents::SubAgentSpec;
/// let researcher = SubAgentSpec::new("researcher", "Finds things out.").system_prompt("You cite your sources.");
///
/// let reviewer: SubAgentSpec = serde_json::from_value(serde_json::json!({
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
    /// The name it is called by.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it is told to be and do.
    #[serde(default, alias = "prompt", skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Names of all the tools it has, those of the standard middlewares too; none stands for what a sub-agent has anyway.
    #[serde(default, rename = "tools", deserialize_with = "words", skip_serializing_if = "Option::is_none")]
    pub tool_names: Option<Vec<String>>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSpec>,
    /// Sources of its own skills.
    #[serde(default, deserialize_with = "some_words", skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// What it may do with which files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Rule>>,
    /// What a person is asked about, by tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_on: Option<InterruptPolicy>,
    /// The shape of its result: a JSON schema, or `{"name", "schema"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
    /// What it sees of the conversation.
    #[serde(default, skip_serializing_if = "Mode::is_isolated")]
    pub mode: Mode,
    /// How its conversation is compacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summarization: Option<SummarizationSpec>,
    /// What it may spend with all below it, beside what it shares with the agents above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSpec>,
    /// How far it may delegate in turn; its depth is counted from it and never leads beyond that of the agent above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<DelegationLimits>,
    /// Where its files are, by a name registered with [`named_backend`](crate::DeepAgentBuilder::named_backend).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Sub-agents that it has in turn.
    #[serde(default, alias = "agents", alias = "subagents", skip_serializing_if = "Vec::is_empty")]
    pub sub_agents: Vec<SubAgentSpec>,
    /// The name of a built agent that does the work, registered with
    /// [`runnable`](crate::DeepAgentBuilder::runnable). Only `name`, `description` and `mode` go with it.
    #[serde(default, alias = "graph", skip_serializing_if = "Option::is_none")]
    pub runnable: Option<String>,
    /// The address of the server whose agent does the work. Only `name`, `description`, `graph_id`, `headers`, `protocol`
    /// and `seconds` of `budget` go with it. Needs the feature `remote`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Which agent of that server: a graph, or the id of an assistant.
    #[serde(default, alias = "assistant", alias = "assistant_id", skip_serializing_if = "Option::is_none")]
    pub graph_id: Option<String>,
    /// Headers of the requests to it; `${NAME}` in them is the value of a
    /// [variable](crate::DeepAgentBuilder::remote).
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// What the server speaks.
    #[serde(default, skip_serializing_if = "ServerProtocol::is_standard")]
    pub protocol: ServerProtocol,
    #[serde(skip)]
    pub(crate) code: CodeParts,
}

/// Parts of a description that have no JSON form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CodeParts {
    /// Does the work in the place of an agent that is built from the description.
    pub(crate) agent: Option<Shared<dyn DynSubAgent>>,
    pub(crate) model: Option<Shared<dyn ChatModel>>,
    pub(crate) settings: Option<ModelSettings>,
    pub(crate) budget: Option<Budget>,
    pub(crate) backend: Option<Shared<dyn Backend>>,
    pub(crate) tools: Option<Vec<Shared<dyn DynTool>>>,
    pub(crate) middlewares: Vec<Shared<dyn DynMiddleware>>,
    pub(crate) response_format: Option<Shared<ResponseFormat>>,
    /// Approvals beside those of `interrupt_on`, inherited or not.
    pub(crate) more_approvals: InterruptPolicy,
    /// Without skills of its own it has those of the agent above.
    pub(crate) inherits_skills: bool,
    /// Its prompt stands in the place of the base prompt, the library's or a profile's.
    pub(crate) without_base: bool,
}

impl CodeParts {
    /// The name of a part that cannot go with an agent that is built already, if there is one.
    fn beside_agent(&self) -> Option<&'static str> {
        let parts = [
            ("model", self.model.is_some()),
            ("settings", self.settings.is_some()),
            ("tools", self.tools.is_some()),
            ("middleware", !self.middlewares.is_empty() || !self.more_approvals.is_empty()),
            ("response_format", self.response_format.is_some()),
            ("budget", self.budget.is_some()),
            ("backend", self.backend.is_some()),
        ];
        parts.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// What a sub-agent sees of the conversation.
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
    /// The task alone.
    #[default]
    Isolated,
    /// The whole conversation, and then the task.
    Fork,
}

impl Mode {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_isolated(&self) -> bool {
        *self == Self::Isolated
    }
}

impl SubAgentSpec {
    /// A sub-agent with a name and what it is for.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), ..Self::default() }
    }

    /// Reads a file as those of [`agents_from`](crate::DeepAgentBuilder::agents_from) are read: front matter, and the prompt
    /// below it. `name` is its name unless it says another. A description that is too long is cut.
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
    /// When it defines no sub-agent.
    pub fn from_markdown(text: &str, name: &str) -> Result<Self, DefinitionError> {
        define(text, name).map(|(spec, _)| spec).map_err(DefinitionError)
    }

    /// What it is told to be and do. One that shares the conversation is told so with its task, since its system prompt is
    /// that of the agent above.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// A model of its own.
    #[must_use]
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.code.model = Some(Shared(Arc::new(model)));
        self
    }

    /// Sampling and the like, in place of the settings of the agent above.
    #[must_use]
    pub fn settings(mut self, settings: ModelSettings) -> Self {
        self.code.settings = Some(settings);
        self
    }

    /// Tools in place of those given to the agent above; file tools come with its stack anyway, unless
    /// [`tool_names`](Self::tool_names) says otherwise.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Self {
        self.code.tools = Some(tools.into_iter().map(Shared).collect());
        self
    }

    /// A middleware of its own. What a [`HumanInTheLoop`] asks about is added to what the sub-agent is asked about
    /// anyway.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        if let Some(human) = (&middleware as &dyn Any).downcast_ref::<HumanInTheLoop>() {
            self.code.more_approvals = self.code.more_approvals.and(human.approvals().clone());
            return self;
        }
        self.code.middlewares.push(Shared(Arc::new(middleware)));
        self
    }

    /// A sub-agent that it has in turn: a description, or what does the work by itself. How deep that may go, the
    /// [limits](crate::DeepAgentBuilder::delegation_limits) of the main agent say.
    #[must_use]
    pub fn sub_agent(mut self, agent: impl Into<SubAgentSpec>) -> Self {
        self.sub_agents.push(agent.into());
        self
    }

    /// Files of its own, in place of those of the agent above. What it writes there does not come back.
    #[must_use]
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.code.backend = Some(Shared(Arc::new(backend)));
        self
    }

    /// What it may spend with all below it, beside what it shares with the agents above.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.code.budget = Some(budget);
        self
    }

    crate::shared::setters! {
        /// How far it may delegate in turn; its depth is counted from it.
        limits(limits: DelegationLimits) => limits = Some(limits);

        /// How its conversation is compacted.
        summarization(summarization: SummarizationSpec) => summarization = Some(summarization);

        /// Folders of skills.
        skills(sources: impl IntoIterator<Item = impl Into<String>>)
            => skills = sources.into_iter().map(Into::into).collect();

        /// What it may do with which files, in place of the rules of the agent above.
        permissions(rules: impl IntoIterator<Item = Rule>) => permissions = Some(rules.into_iter().collect());

        /// What a person is asked about, in place of what the agent above has; `InterruptPolicy::new()` for nothing.
        interrupt_on(approvals: InterruptPolicy) => interrupt_on = Some(approvals);
    }

    /// The shape of its result.
    #[must_use]
    pub fn response_format(mut self, format: ResponseFormat) -> Self {
        self.code.response_format = Some(Shared(Arc::new(format)));
        self
    }

    /// Says whether it sees the conversation.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The description that the model reads.
    pub(crate) fn listed_description(&self) -> String {
        listed_description(&self.description, self.mode)
    }

    /// The shape of its result, if it says so.
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

    /// The key of something that cannot go with an agent that is built already, if there is one.
    pub(crate) fn beside_runnable(&self) -> Option<String> {
        self.beside(&["name", "description", "mode", "runnable"])
    }

    /// The key of something that cannot go with an agent of another server, if there is one.
    #[cfg(feature = "remote")]
    pub(crate) fn beside_server(&self) -> Option<String> {
        let keys = ["name", "description", "mode", "url", "graph_id", "headers", "protocol", "budget"];
        let limits = self.budget.clone().map(|budget| BudgetSpec { seconds: None, ..budget });
        let more = limits.is_some_and(|limits| limits != BudgetSpec::default());
        self.beside(&keys).or_else(|| more.then(|| "budget, but for its seconds".to_owned()))
    }

    /// The first key that was given and is none of these.
    fn beside(&self, fine: &[&str]) -> Option<String> {
        let Ok(Value::Object(given)) = serde_json::to_value(self) else { return Some("interrupt_on".to_owned()) };
        let mut keys = given.into_iter().map(|(key, _)| key);
        let key = keys.find(|key| !fine.contains(&&**key));
        key.or_else(|| self.code.beside_agent().map(str::to_owned))
    }
}

impl<A: SubAgent> From<A> for SubAgentSpec {
    /// Describes what does its work by itself: a built agent, a closure, a type of one's own.
    fn from(agent: A) -> Self {
        let mut spec = Self::new(SubAgent::name(&agent), SubAgent::description(&agent));
        spec.code.agent = Some(Shared(Arc::new(agent)));
        spec
    }
}

/// A list of names, or one text of names between blanks and commas.
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
