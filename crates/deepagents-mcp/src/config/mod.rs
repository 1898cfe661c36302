//! Configuration of servers, in code and in `mcpServers` files.

mod expand;
mod file;
mod filter;
mod oauth;
mod reads;
mod shown;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use file::{ConfigFile, Entry, EntryError, FileError};
pub use filter::{FilterError, ToolFilter};
pub use oauth::{ClientProof, GrantKind, IdentityProvider, OAuthConfig, OAuthEntry, OAuthGrant, SecretSource};

/// Default start timeout.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(20);
/// Default time that a call may go without a response or progress.
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// The configuration of a server.
///
/// ```
/// use std::time::Duration;
/// use deepagents_mcp::ServerConfig;
/// let local = ServerConfig::stdio("npx", ["-y", "@modelcontextprotocol/server-memory"]).env("MEMORY_FILE_PATH", "/tmp/memory");
/// let remote = ServerConfig::http("https://mcp.example.com/mcp").header("Authorization", "Bearer token").call_timeout(Duration::from_secs(60));
/// // Values may be secrets, so they are not shown.
/// assert!(!format!("{remote:?}").contains("token"));
/// # let _ = local;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// How to reach the server.
    pub transport: TransportConfig,
    /// Which of its tools to offer.
    pub tools: ToolFilter,
    /// Whether to trust its annotations that a tool is read-only or idempotent. If `false`, the default, every call
    /// counts as having side effects.
    pub trusted: bool,
    /// Whether it may use the model of [`McpOptions::sampling`](crate::McpOptions::sampling).
    pub sampling: Sampling,
    /// How long it may take to connect and list its tools; 20 seconds by default.
    pub start_timeout: Duration,
    /// How long a call may go without a response or progress; 5 minutes by default.
    pub call_timeout: Duration,
    /// Further values to redact.
    hidden: Vec<String>,
}

/// Whether a server may use the model during its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sampling {
    /// Not allowed. The capability is not declared.
    #[default]
    Off,
    /// A person is asked each time. If nobody can be asked, the same as `Off`.
    Ask,
    /// Allowed.
    Allow,
}

/// How to reach a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TransportConfig {
    /// Start a program and use its stdin and stdout.
    Stdio(StdioConfig),
    /// Connect to an address over HTTP.
    Http(HttpConfig),
}

/// A program to start. Its environment consists of these variables and those of
/// [`McpOptions::env`](crate::McpOptions::env).
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioConfig {
    /// The program: a path, or a name to be found in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its own environment variables.
    pub env: BTreeMap<String, String>,
    /// Its working directory. If `None`, [`McpOptions::root`](crate::McpOptions::root).
    pub cwd: Option<PathBuf>,
}

/// The transport of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpTransport {
    /// Streamable HTTP. Falls back to [`Sse`](Self::Sse) if `initialize` is answered with 400, 404 or 405, as older
    /// servers do.
    #[default]
    Streamable,
    /// HTTP+SSE of the protocol 2024-11-05: one event stream, whose first event names the address for messages. Falls
    /// back to [`Streamable`](Self::Streamable) if there is no such stream.
    Sse,
}

/// A URL, with the headers of every request to it.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The URL.
    pub url: String,
    /// Its protocol.
    pub transport: HttpTransport,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// How to obtain tokens, if dynamic client registration and a browser login do not suffice.
    pub oauth: Option<OAuthConfig>,
}

impl ServerConfig {
    fn over(transport: TransportConfig) -> Self {
        Self {
            transport,
            tools: ToolFilter::default(),
            trusted: false,
            sampling: Sampling::Off,
            start_timeout: DEFAULT_START_TIMEOUT,
            call_timeout: DEFAULT_CALL_TIMEOUT,
            hidden: Vec::new(),
        }
    }

    /// Configures a program to start.
    pub fn stdio<A: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::over(TransportConfig::Stdio(StdioConfig { command: command.into(), args, ..StdioConfig::default() }))
    }

    /// Configures a server at a URL.
    pub fn http(url: impl Into<String>) -> Self {
        Self::over(TransportConfig::Http(HttpConfig { url: url.into(), ..HttpConfig::default() }))
    }

    /// Creates the configuration of a server that speaks HTTP+SSE, the transport before streamable HTTP.
    /// [`http`](Self::http) detects it too, with one more request.
    pub fn sse(url: impl Into<String>) -> Self {
        let transport = HttpTransport::Sse;
        Self::over(TransportConfig::Http(HttpConfig { url: url.into(), transport, ..HttpConfig::default() }))
    }

    /// Sets an environment variable of a program. No-op for a URL.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.env.insert(name.into(), value.into());
        }
        self
    }

    /// Adds a header to every request. No-op for a program.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let TransportConfig::Http(http) = &mut self.transport {
            http.headers.insert(name.into(), value.into());
        }
        self
    }

    /// Sets which tools to offer.
    #[must_use]
    pub fn tools(mut self, tools: ToolFilter) -> Self {
        self.tools = tools;
        self
    }

    /// Sets whether to trust its annotations.
    #[must_use]
    pub fn trusted(mut self, trusted: bool) -> Self {
        self.trusted = trusted;
        self
    }

    /// Lets it use the model of [`McpOptions::sampling`](crate::McpOptions::sampling), within the budget of the run.
    #[must_use]
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Limits how long it may take to connect and list its tools.
    #[must_use]
    pub fn start_timeout(mut self, limit: Duration) -> Self {
        self.start_timeout = limit;
        self
    }

    /// Limits how long a call may go without a response or progress.
    #[must_use]
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = limit;
        self
    }
}
