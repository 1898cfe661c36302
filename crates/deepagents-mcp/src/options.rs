//! Options of the MCP client.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::ChatModel;
use deepagents_core::tool::ToolSpec;

/// What servers are told about the client, and where logs, caches and tokens are stored. The library does not read the
/// process environment, so the variables for servers are given here.
///
/// ```
/// use deepagents_mcp::{McpOptions, SAFE_VARIABLES};
/// let variables = SAFE_VARIABLES.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
/// let options = McpOptions { env: variables.collect(), root: Some("/srv/project".into()), ..McpOptions::default() };
/// assert!(!options.env.contains_key("ANTHROPIC_API_KEY"));
/// ```
#[derive(Clone, Debug)]
pub struct McpOptions {
    /// Environment variables for stdio servers, in addition to their own; see
    /// [`SAFE_VARIABLES`](crate::SAFE_VARIABLES).
    pub env: BTreeMap<String, String>,
    /// The working directory of stdio servers, reported to servers that ask for roots.
    pub root: Option<PathBuf>,
    /// Whether elicitation requests of servers are put to a person, as [interrupts](deepagents_core::interrupt) of the
    /// calls they belong to. Requires a journal, and runs with a thread. If `false`, the capability is not declared.
    pub elicitation: bool,
    /// Directory for the stderr logs of stdio servers, one file each. If `None`, stderr is not logged.
    pub log_dir: Option<PathBuf>,
    /// Directory that caches the tools of servers, so that the next agent need not wait for them. If `None`, nothing is
    /// cached.
    pub cache_dir: Option<PathBuf>,
    /// Directory of OAuth tokens, which [`login`](crate::auth::login) writes. If `None`, there are none.
    pub token_dir: Option<PathBuf>,
    /// The model for servers that [may use one](crate::ServerConfig::sampling). If `None`, no server may.
    pub sampling: Option<SamplingModel>,
    /// Decides which tools are offered.
    pub review: Option<ToolReview>,
    /// How long a model request waits for starting servers. After that it proceeds without their tools, which are
    /// offered once the server responds. If `None`, the start timeouts of the servers apply.
    pub ready_timeout: Option<Duration>,
    /// The client name sent to servers.
    pub client_name: String,
    /// The client version sent to servers.
    pub client_version: String,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            env: BTreeMap::new(),
            root: None,
            elicitation: false,
            log_dir: None,
            cache_dir: None,
            token_dir: None,
            sampling: None,
            review: None,
            ready_timeout: None,
            client_name: "deepagents".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// The model that servers may use for sampling.
///
/// ```
/// use deepagents_mcp::{McpOptions, Sampling, SamplingModel, ServerConfig};
/// # fn f(model: std::sync::Arc<dyn deepagents_core::model::ChatModel>) {
/// let options = McpOptions { sampling: Some(SamplingModel::new(model)), elicitation: true, ..McpOptions::default() };
/// let server = ServerConfig::stdio("summarizer", ["--quiet"]).sampling(Sampling::Ask);
/// # let _ = (options, server); }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct SamplingModel {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// Maximum tokens per response; 4,096 by default.
    pub max_tokens: u64,
}

impl SamplingModel {
    /// Creates a sampling model with the default limit.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self { model, max_tokens: 4_096 }
    }
}

impl fmt::Debug for SamplingModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SamplingModel")
            .field("model", &self.model.name())
            .field("max_tokens", &self.max_tokens)
            .finish()
    }
}

type Review = dyn Fn(&str, &ToolSpec) -> Result<(), String> + Send + Sync;

/// Decides whether a server's tool is offered. A server may change its tools after a person has approved them.
///
/// Called whenever a tool list is new. Must not block.
///
/// ```
/// use deepagents_mcp::ToolReview;
/// let short = ToolReview::new(|server, tool| match tool.description.len() {
///     0..=500 => Ok(()),
///     _ => Err(format!("the tool {} of {server} says too much", tool.name)),
/// });
/// # let _ = short;
/// ```
#[derive(Clone)]
pub struct ToolReview(Arc<Review>);

impl ToolReview {
    /// Creates a review from a closure that gets the server's name and the tool as the model would see it, and returns
    /// the reason for withholding the tool. The hints that are [trusted](crate::ServerConfig::trusted) (read-only,
    /// idempotent) are appended to the description.
    pub fn new(review: impl Fn(&str, &ToolSpec) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(review))
    }

    pub(crate) fn check(&self, server: &str, tool: &ToolSpec) -> Result<(), String> {
        (self.0)(server, tool)
    }
}

impl fmt::Debug for ToolReview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolReview").finish_non_exhaustive()
    }
}
