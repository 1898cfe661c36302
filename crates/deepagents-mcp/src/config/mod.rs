//! Configuration of servers, in code and in `mcpServers` files.

mod expand;
mod file;
mod filter;
mod oauth;
mod reads;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use file::{ConfigFile, Entry, EntryError, FileError};
pub use filter::{FilterError, ToolFilter};
pub use oauth::{ClientProof, GrantKind, IdentityProvider, OAuthConfig, OAuthEntry, OAuthGrant, SecretSource};

use crate::text::redact;

/// Default start timeout.
const START: Duration = Duration::from_secs(20);
/// Default time that a call may go without a response or progress.
const CALL: Duration = Duration::from_secs(300);

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
#[derive(Clone)]
#[non_exhaustive]
pub enum TransportConfig {
    /// Start a program and use its stdin and stdout.
    Stdio(StdioConfig),
    /// Connect to a URL over streamable HTTP.
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

/// A URL, with the headers of every request to it.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The URL.
    pub url: String,
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
            start_timeout: START,
            call_timeout: CALL,
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

    /// Adds values to redact.
    fn hiding(mut self, values: Vec<String>) -> Self {
        self.hidden = values;
        self
    }

    /// Returns the values to redact: those of its headers, environment and inserted variables, and the secrets in its
    /// URL.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let (in_address, beside_path) = match &self.transport {
            TransportConfig::Stdio(_) => (Vec::new(), Vec::new()),
            TransportConfig::Http(http) => (in_address(&http.url), beside_path(&http.url)),
        };
        let values = match &self.transport {
            TransportConfig::Stdio(stdio) => stdio.env.values().collect::<Vec<_>>(),
            TransportConfig::Http(http) => {
                http.headers.values().chain(http.oauth.iter().flat_map(OAuthConfig::secrets)).collect()
            }
        };
        let values = values.into_iter().chain(&self.hidden).chain(&in_address);
        longest_first(beside_path.into_iter().chain(parts(values)).collect())
    }
}

/// Returns the parts of secrets to search for.
fn parts<'a>(values: impl Iterator<Item = &'a String>) -> Vec<String> {
    // In `Bearer TOKEN`, the token alone is a secret too. Parts under 8 bytes are skipped: they would match everywhere.
    let parts = values.flat_map(|value| std::iter::once(value.as_str()).chain(value.split_whitespace()));
    longest_first(parts.filter(|part| part.len() >= 8).map(str::to_owned).collect())
}

/// Sorts the longest first, so that a secret which contains another is replaced as a whole.
fn longest_first(mut secrets: Vec<String>) -> Vec<String> {
    secrets.sort_by_key(|part| std::cmp::Reverse(part.len()));
    secrets
}

/// Returns the query and user info of a URL, with their delimiters. As parts of a URL they are found even if short.
fn beside_path(address: &str) -> Vec<String> {
    let mut found = Vec::new();
    let parsed = reqwest::Url::parse(address);
    for address in [Some(address), parsed.as_ref().ok().map(reqwest::Url::as_str)].into_iter().flatten() {
        let whole = address.split('#').next().unwrap_or(address);
        let (place, query) = whole.split_once('?').unwrap_or((whole, ""));
        let host = place.split_once("://").and_then(|(_, rest)| rest.split('/').next());
        let who = host.and_then(|host| host.rsplit_once('@')).map(|(who, _)| format!("{who}@"));
        found.extend(who);
        found.extend((!query.is_empty()).then(|| format!("?{query}")));
    }
    found
}

/// Returns what to redact from a URL for display.
fn address_secrets(address: &str) -> Vec<String> {
    longest_first(beside_path(address).into_iter().chain(parts(in_address(address).iter())).collect())
}

/// Returns the possible secrets in a URL: the user info and the values of the query, raw and decoded.
fn in_address(url: &str) -> Vec<String> {
    let Ok(url) = reqwest::Url::parse(url) else { return Vec::new() };
    let written =
        url.query().unwrap_or_default().split('&').filter_map(|pair| Some(pair.split_once('=')?.1.to_owned()));
    let meant = url.query_pairs().map(|(_, value)| value.into_owned());
    let who = [Some(url.username()), url.password()].into_iter().flatten().map(str::to_owned);
    written.chain(meant).chain(who).collect()
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each of these may contain inserted variables.
        let secrets = self.secrets();
        let mut transport = self.transport.clone();
        match &mut transport {
            TransportConfig::Stdio(stdio) => {
                let texts = std::iter::once(&mut stdio.command).chain(&mut stdio.args);
                texts.for_each(|text| *text = redact(text, &secrets));
            }
            TransportConfig::Http(http) => http.url = redact(&http.url, &secrets),
        }
        f.debug_struct("ServerConfig")
            .field("transport", &transport)
            .field("tools", &self.tools)
            .field("trusted", &self.trusted)
            .field("sampling", &self.sampling)
            .field("start_timeout", &self.start_timeout)
            .field("call_timeout", &self.call_timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(stdio) => stdio.fmt(f),
            Self::Http(http) => http.fmt(f),
        }
    }
}

impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.env.keys().collect();
        let mut shown = f.debug_struct("StdioConfig");
        shown
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.keys().collect();
        f.debug_struct("HttpConfig")
            .field("url", &redact(&self.url, &address_secrets(&self.url)))
            .field("headers", &names)
            .field("oauth", &self.oauth)
            .finish()
    }
}
