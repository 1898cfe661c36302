//! Sub-agents as data: what files, skills and configurations say of them.

mod approval;
mod model;
mod read;
mod summarization;

use std::collections::BTreeMap;

use deepagents_core::structured::ResponseFormat;
use deepagents_fs::permissions::Rule;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use approval::ApprovalDefinition;
pub use model::{ModelDefinition, ModelMap};
pub use summarization::SummarizationDefinition;

pub(crate) use read::{MAX_NAME, one_line, read, shorten};

use crate::approvals::Approvals;

/// A sub-agent as data. What is not said is inherited from the agent that has it.
///
/// As JSON an object of its fields. `prompt` is read as `system_prompt`, `graph` as `runnable`, `tools` and `skills` may
/// be one text of names, and a key that is none of these is an error.
///
/// ```
/// use deepagents::definition::AgentDefinition;
/// let json = serde_json::json!({
///     "name": "reviewer",
///     "description": "Reads a change and says what is wrong with it.",
///     "prompt": "You review code.",
///     "tools": ["read_file", "grep"],
///     "model": {"model": "anthropic:claude-haiku-4-5", "temperature": 0.0},
/// });
/// let reviewer: AgentDefinition = serde_json::from_value(json)?;
/// assert_eq!(reviewer.system_prompt.as_deref(), Some("You review code."));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AgentDefinition {
    /// The name it is called by.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it is told to be and do.
    #[serde(default, alias = "prompt", skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Names of all the tools it has, those of the standard middlewares too; none stands for what a sub-agent has
    /// anyway.
    #[serde(default, deserialize_with = "words", skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelDefinition>,
    /// Sources of its own skills.
    #[serde(default, deserialize_with = "some_words", skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// What it may do with which files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Rule>>,
    /// What a person is asked about, by tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_on: Option<BTreeMap<String, ApprovalDefinition>>,
    /// The shape of its report: a JSON schema, or `{"name", "schema"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
    /// What it sees of the conversation.
    #[serde(default, skip_serializing_if = "is_isolated")]
    pub mode: Mode,
    /// How its conversation is compacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summarization: Option<SummarizationDefinition>,
    /// The name of a built agent that does the work, registered with
    /// [`runnable`](crate::DeepAgentBuilder::runnable). Only `name`, `description` and `mode` go with it.
    #[serde(default, alias = "graph", skip_serializing_if = "Option::is_none")]
    pub runnable: Option<String>,
}

/// What a sub-agent sees of the conversation.
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

impl AgentDefinition {
    /// A sub-agent with a name and what it is for.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), ..Self::default() }
    }

    /// What a person is asked about, if it says so.
    pub(crate) fn approvals(&self) -> Option<Approvals> {
        let asks = self.interrupt_on.as_ref()?.iter();
        Some(asks.fold(Approvals::new(), |all, (tool, ask)| match ask.ask() {
            Some(ask) => all.before(tool, ask),
            None => all.never(tool),
        }))
    }

    /// The shape of its report, if it says so.
    pub(crate) fn format(&self) -> Result<Option<ResponseFormat>, String> {
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

    /// What cannot go with a built agent, if something of it is given.
    pub(crate) fn beside_runnable(&self) -> Option<&'static str> {
        let given = [
            ("system_prompt", self.system_prompt.is_some()),
            ("tools", self.tools.is_some()),
            ("model", self.model.is_some()),
            ("skills", !self.skills.is_empty()),
            ("permissions", self.permissions.is_some()),
            ("interrupt_on", self.interrupt_on.is_some()),
            ("response_format", self.response_format.is_some()),
            ("summarization", self.summarization.is_some()),
        ];
        given.into_iter().find(|(_, there)| *there).map(|(key, _)| key)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_isolated(mode: &Mode) -> bool {
    *mode == Mode::Isolated
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
