//! Agents on remote servers as sub-agents.

use std::fmt;
use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::tool::{ToolContext, ToolError};
use deepagents_remote::{Protocol, RemoteAgent, RemoteConfig, RemoteTask};

use super::durable::durable;
use super::server::variables;
use super::{AgentSubAgent, Mode, ServerProtocol, SubAgent, SubAgentResult, SubAgentSpec, SubAgentTask};

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
pub struct RemoteSubAgent {
    work: RemoteWork,
    background: AgentSubAgent,
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
        let work = RemoteWork { name, description: description.into(), remote };
        let background = durable(Arc::new(work.clone()))?;
        Ok(Self { work, background })
    }
}

impl fmt::Debug for RemoteSubAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSubAgent").field("remote", &self.work.remote).finish_non_exhaustive()
    }
}

impl SubAgent for RemoteSubAgent {
    fn name(&self) -> &str {
        &self.work.name
    }

    fn description(&self) -> &str {
        &self.work.description
    }

    fn idempotent(&self) -> bool {
        true
    }

    fn background_agent(&self) -> Option<&AgentSubAgent> {
        Some(&self.background)
    }

    async fn run(&self, work: SubAgentTask, cx: ToolContext) -> Result<SubAgentResult, ToolError> {
        SubAgent::run(&self.work, work, cx).await
    }
}

/// The remote work itself.
#[derive(Clone)]
struct RemoteWork {
    name: String,
    description: String,
    remote: RemoteAgent,
}

impl SubAgent for RemoteWork {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn idempotent(&self) -> bool {
        true
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
#[derive(Clone, Default)]
#[must_use]
pub struct RemoteAccess {
    of_files: bool,
    lookup: Option<Arc<Lookup>>,
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
        self.lookup = Some(Arc::new(lookup));
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
        if let Some(seconds) = spec.budget.as_ref().and_then(|budget| budget.seconds) {
            let limit = std::time::Duration::try_from_secs_f64(seconds);
            config = config
                .deadline(limit.map_err(|_| format!("`seconds` of its budget is not a valid duration: {seconds}"))?);
        }
        RemoteSubAgent::new(&spec.name, &spec.description, config).map_err(|error| error.to_string())
    }

    /// Replaces the variables in a text with their values.
    fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = text.to_owned();
        for name in variables(text) {
            let value = self.lookup.as_ref().and_then(|lookup| lookup(name));
            let value = value.ok_or_else(|| format!("the variable `{name}` of its headers is not set"))?;
            out = out.replacen(&format!("${{{name}}}"), &value, 1);
        }
        Ok(out)
    }
}

/// Returns `true` if a header of this name holds a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|word| name.contains(word))
}

impl fmt::Debug for RemoteAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteAccess").field("of_files", &self.of_files).finish_non_exhaustive()
    }
}
