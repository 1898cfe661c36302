//! What servers are told of whoever uses them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::ChatModel;
use deepagents_core::tool::ToolSpec;

/// What servers are told of whoever uses them, and where traces of them go. The library reads no environment, so what
/// servers get of it is given here.
///
/// ```
/// use deepagents_mcp::{McpOptions, SAFE_VARIABLES};
/// let variables = SAFE_VARIABLES.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
/// let options = McpOptions { env: variables.collect(), root: Some("/srv/project".into()), ..McpOptions::default() };
/// assert!(!options.env.contains_key("ANTHROPIC_API_KEY"));
/// ```
#[derive(Clone, Debug)]
pub struct McpOptions {
    /// The environment of programs, beside their own; see [`SAFE_VARIABLES`](crate::SAFE_VARIABLES).
    pub env: BTreeMap<String, String>,
    /// The directory of the work: programs start in it, and servers that ask for roots are told it.
    pub root: Option<PathBuf>,
    /// Whether questions of servers are put to a person, as [interrupts](deepagents_core::interrupt) of the calls that
    /// they are about. Needs a journal, and runs with a thread. Otherwise servers are told that nobody can be asked.
    pub elicitation: bool,
    /// A folder for what programs print to stderr, a file each; nowhere without one.
    pub log_dir: Option<PathBuf>,
    /// A folder that remembers the tools of servers, so that the next agent need not wait for them; none without one.
    pub cache_dir: Option<PathBuf>,
    /// A folder with the tokens of logins, which [`login`](crate::auth::login) makes; none without one.
    pub token_dir: Option<PathBuf>,
    /// The model that servers may use which are [allowed to](crate::ServerConfig::sampling); none without one.
    pub sampling: Option<SamplingModel>,
    /// Looks at tools before they are offered.
    pub review: Option<ToolReview>,
    /// How long a request of the model waits for servers that are starting: it goes on without their tools then, and they
    /// are offered once they answer. As long as their own limits say where it is left out.
    pub patience: Option<Duration>,
    /// How the client calls itself.
    pub client_name: String,
    /// Its version.
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
            patience: None,
            client_name: "deepagents".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// A model that servers may use.
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
    /// Tokens that an answer may have at most; 4,096.
    pub max_tokens: u64,
}

impl SamplingModel {
    /// A model.
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

/// Looks at a tool of a server before it is offered, and says why it is not: a server may say something else of its tools
/// than it did when somebody agreed to it. Called whenever a list is new; it must not block.
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
    /// A closure of the server's name and what a model would be told; below the description stands what is
    /// [believed](crate::ServerConfig::trusted) of what the server says beside: that the tool only reads, or may be called again.
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
