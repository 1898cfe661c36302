//! Agents on remote servers as sub-agents.

use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::tool::{ToolContext, ToolError};
use deepagents_remote::{Protocol, RemoteAgent, RemoteConfig, RemoteTask};

use super::durable::durable;
use super::server::{next_variable, variables};
use super::{AgentSubAgent, BudgetSpec, Mode, ServerProtocol, SubAgent, SubAgentResult, SubAgentSpec, SubAgentTask};
use crate::shared::Shared;

/// An agent on a remote server as a sub-agent, for `task` and for background work.
///
/// Its events appear under the path of the call, its usage is charged to the budgets above, its questions are put to
/// the local user, and cancellation is forwarded to it. Work interrupted by a crash is found again and continued, never
/// started a second time. In the background, a new message supersedes its current work. It sees only the task, and no
/// files.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// use deepagents::remote::RemoteConfig;
/// use deepagents::subagents::RemoteSubAgent;
///
/// let there = RemoteConfig::langgraph("https://agents.example.com", "researcher")?.header("x-api-key", "secret")?;
/// let researcher = RemoteSubAgent::new("researcher", "Finds things out.", there)?;
/// let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Hi.")])).sub_agent(researcher).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RemoteSubAgent {
    name: String,
    description: String,
    remote: RemoteAgent,
    /// The agent that forwards background work to it.
    background: Option<AgentSubAgent>,
}

impl RemoteSubAgent {
    /// Creates a sub-agent with a name and a description.
    ///
    /// # Errors
    /// Returns an error if the HTTP client cannot be created.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        config: RemoteConfig,
    ) -> Result<Self, BuildError> {
        let name = name.into();
        let remote = RemoteAgent::new(name.as_str(), config).map_err(|error| BuildError::Option(error.to_string()))?;
        let work = Self { name, description: description.into(), remote, background: None };
        let background = Some(durable(Arc::new(work.clone()))?);
        Ok(Self { background, ..work })
    }
}

impl SubAgent for RemoteSubAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn idempotent(&self) -> bool {
        true
    }

    fn background_agent(&self) -> Option<&AgentSubAgent> {
        self.background.as_ref()
    }

    async fn run(&self, work: SubAgentTask, cx: ToolContext) -> Result<SubAgentResult, ToolError> {
        let task = RemoteTask::new(work.description.as_str());
        let task = work.conversation().into_iter().fold(task, RemoteTask::conversation);
        Ok(self.remote.run(task, &cx).await?.into())
    }
}

/// Returns the value of a variable.
type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Defines what specs of remote sub-agents may use, for [`DeepAgentBuilder::remote`](crate::DeepAgentBuilder::remote).
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::subagents::RemoteAccess;
/// let access = RemoteAccess::new().variables(|name| (name == "RESEARCH_KEY").then(|| "secret".to_owned()));
/// let builder = DeepAgent::builder().remote(access);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RemoteAccess {
    of_files: bool,
    lookup: Option<Shared<Lookup>>,
}

impl RemoteAccess {
    /// Allows servers named in code, and no variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also allows servers named by files and skills. Use it only for files that a person has approved: their authors
    /// decide where the work and the variables are sent.
    pub fn from_files(mut self) -> Self {
        self.of_files = true;
        self
    }

    /// Sets the source of the variables that headers refer to as `${NAME}`.
    pub fn variables(mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.lookup = Some(Shared(Arc::new(lookup)));
        self
    }

    /// Creates the sub-agent of a spec that names a server.
    pub(crate) fn make(&self, spec: &SubAgentSpec, url: &str, bound: bool) -> Result<RemoteSubAgent, String> {
        if let Some(key) = spec.conflict_with_server() {
            return Err(format!("`{key}` cannot be combined with `url`: the agent there has its own"));
        }
        if spec.mode != Mode::Isolated {
            return Err("an agent on another server does not see the conversation; leave out `mode`".to_owned());
        }
        if bound && !self.of_files {
            return Err(format!(
                "it is on the server {url}, but files may name servers only where that is allowed with `.remote(...)`"
            ));
        }
        let protocol = match spec.protocol {
            ServerProtocol::LangGraph => Protocol::LangGraph,
            ServerProtocol::A2a => Protocol::A2a,
        };
        let config = RemoteConfig::new(url, protocol, spec.graph_id.as_deref()).map_err(|error| error.to_string())?;
        let mut config = spec.headers.0.iter().try_fold(config, |config, (name, value)| {
            if bound && is_secret(name) && variables(value).is_empty() {
                return Err(format!(
                    "the value of the header `{name}` is in the file and would end up in the logs of threads; write \
                     `${{NAME}}` and set that variable"
                ));
            }
            config.header(name, &self.expand(value)?).map_err(|error| error.to_string())
        })?;
        let limit = spec.budget.as_ref().map(BudgetSpec::time).transpose()?.flatten();
        config = limit.into_iter().fold(config, RemoteConfig::deadline);
        RemoteSubAgent::new(&spec.name, &spec.description, config).map_err(|error| error.to_string())
    }

    /// Replaces the variables in a text with their values.
    fn expand(&self, text: &str) -> Result<String, String> {
        let (mut out, mut rest) = (String::new(), text);
        // A value may look like a variable itself.
        while let Some((before, name, behind)) = next_variable(rest) {
            let value = self.lookup.as_ref().and_then(|lookup| lookup(name));
            let value = value.ok_or_else(|| format!("the variable `{name}` of its headers is not set"))?;
            out.extend([before, &*value]);
            rest = behind;
        }
        Ok(out + rest)
    }
}

/// Returns `true` if a header of this name holds a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_variable_is_not_searched_for_variables() {
        let access = RemoteAccess::new().variables(|name| Some(if name == "A" { "${B}" } else { "b" }.to_owned()));
        assert_eq!(access.expand("${A} ${B} ${").unwrap(), "${B} b ${");
    }
}
