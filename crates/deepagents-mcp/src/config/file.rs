//! `mcpServers` files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expand::Variables;
use super::{
    FilterError, HttpConfig, HttpTransport, OAuthEntry, Sampling, ServerConfig, StdioConfig, ToolFilter,
    TransportConfig,
};
use crate::http::is_page;

/// The entries of a file of the form `{"mcpServers": {NAME: {...}}}`, in file order. An invalid entry does not affect
/// the others.
///
/// ```
/// use deepagents_mcp::ConfigFile;
/// let file = ConfigFile::parse(r#"{"mcpServers": {
///     "time": {"command": "uvx", "args": ["mcp-server-time"]},
///     "docs": {"type": "http", "url": "https://docs.example.com/mcp", "headers": {"X-Key": "${DOCS_KEY:-none}"}}
/// }}"#)?;
/// for (name, entry) in &file.servers {
///     let config = entry.as_ref().unwrap().config(&|variable| std::env::var(variable).ok());
///     assert!(config.is_ok(), "{name}");
/// }
/// # Ok::<(), deepagents_mcp::FileError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigFile {
    /// The servers by name, in file order.
    pub servers: Vec<(String, Result<Entry, EntryError>)>,
}

/// A server as described in a file, before variables are replaced. Unknown keys are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Entry {
    /// `stdio`, `http`, or `sse` (the transport before streamable HTTP). If absent, the other fields decide.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Its working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How to obtain tokens, if dynamic client registration and a browser login do not suffice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthEntry>,
    /// Globs of the tools to offer. If absent, all tools are offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Globs of the tools not to offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled_tools: Vec<String>,
    /// Maximum time that a call may go without a response or progress, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Whether the server may use the model. Off if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Whether the server is disabled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
}

/// Why a file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file is not JSON.
    #[error("it is not JSON: {reason}")]
    Json {
        /// The parse error, with line and column.
        reason: String,
    },
    /// The JSON has another structure.
    #[error("it is not of the form {{\"mcpServers\": {{NAME: {{...}}}}}}")]
    Shape,
    /// The servers are under another key.
    #[error("its servers are under `{key}`, but belong under `mcpServers`")]
    Key {
        /// The key.
        key: String,
    },
}

/// Why an entry is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A field has the wrong type.
    #[error("{0}")]
    Field(String),
    /// Neither a program nor a URL is given.
    #[error("it has neither `command` nor `url`")]
    Nothing,
    /// Both a program and a URL are given.
    #[error("it has both `command` and `url`")]
    Both,
    /// The type is unknown.
    #[error("its type `{0}` is not known; it is stdio, http or sse")]
    Kind(String),
    /// The type requires a field that is missing.
    #[error("its type is `{kind}`, but it has no `{missing}`")]
    Missing {
        /// The type.
        kind: String,
        /// The missing field.
        missing: &'static str,
    },
    /// A variable is not set.
    #[error("the variable {0} is not set; set it, or give a default as in ${{{0}:-default}}")]
    Variable(String),
    /// Several variables are not set.
    #[error("the variables {} are not set; set them, or give defaults as in ${{NAME:-default}}", .0.join(", "))]
    Variables(Vec<String>),
    /// The URL is not `http` or `https`.
    #[error("`{0}` is not the address of a server; it must begin with http:// or https://, followed by a host")]
    Url(String),
    /// The OAuth settings are inconsistent.
    #[error("`oauth`: {0}")]
    OAuth(String),
    /// A tool filter is not a valid glob.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

impl ConfigFile {
    /// Parses a file. A file without servers, or an empty one, is valid.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON, or the servers are not an object or are under a key that other
    /// programs use.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        // Some editors write a byte order mark.
        let text = text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let file: Value = serde_json::from_str(text).map_err(|error| FileError::Json { reason: error.to_string() })?;
        let servers = match file.as_object().map(|file| file.get("mcpServers")) {
            Some(Some(Value::Object(servers))) => servers,
            Some(None) => {
                return match file.as_object().and_then(|file| file.keys().find(|key| is_misspelt(key))) {
                    Some(key) => Err(FileError::Key { key: key.clone() }),
                    None => Ok(Self::default()),
                };
            }
            _ => return Err(FileError::Shape),
        };
        let read = |entry: &Value| {
            let entry: Result<Entry, _> = serde_path_to_error::deserialize(entry);
            entry.map_err(|error| EntryError::Field(format!("`{}`: {}", error.path(), error.inner())))
        };
        Ok(Self { servers: servers.iter().map(|(name, entry)| (name.clone(), read(entry))).collect() })
    }
}

/// Whether another program would look for servers under this key.
fn is_misspelt(key: &str) -> bool {
    let letters: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    ["mcpservers", "mcpserver", "servers"].iter().any(|other| letters.eq_ignore_ascii_case(other))
}

impl Entry {
    /// Returns the configuration of the server, with variables looked up by `lookup`.
    ///
    /// # Errors
    /// Returns an error if the entry is invalid.
    pub fn config(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<ServerConfig, EntryError> {
        let variables = Variables::new(lookup);
        let made = |text: &String| variables.expand(text);
        let all = |texts: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            texts.iter().map(|(name, text)| (name.clone(), made(text))).collect()
        };
        // Other programs spell the types differently.
        let plain = self.kind.as_ref().map(|kind| kind.to_ascii_lowercase().replace(['-', '_'], ""));
        let (kind, written) = (plain.as_deref(), self.kind.as_deref());
        let missing = |missing| EntryError::Missing { kind: written.unwrap_or_default().to_owned(), missing };
        let transport = match (kind, &self.command, &self.url) {
            (Some(other), ..) if !["stdio", "http", "sse", "streamablehttp"].contains(&other) => {
                return Err(EntryError::Kind(written.unwrap_or_default().to_owned()));
            }
            (None, None, None) => return Err(EntryError::Nothing),
            (None, Some(_), Some(_)) => return Err(EntryError::Both),
            (Some("stdio") | None, Some(command), _) => TransportConfig::Stdio(StdioConfig {
                command: made(command),
                args: self.args.iter().map(made).collect(),
                env: all(&self.env),
                cwd: self.cwd.as_ref().map(made).map(PathBuf::from),
            }),
            (Some("stdio"), None, _) => return Err(missing("command")),
            (_, _, Some(written)) => {
                let (url, headers) = (made(written), all(&self.headers));
                let oauth = self.oauth.as_ref().map(|oauth| oauth.config(&made));
                if variables.missing().is_empty() && !is_page(&url) {
                    // The unexpanded URL, because a variable may hold a secret.
                    return Err(EntryError::Url(written.clone()));
                }
                let oauth = match oauth.transpose() {
                    Ok(oauth) => oauth,
                    Err(error) if variables.missing().is_empty() => return Err(error),
                    Err(_) => None,
                };
                let transport = if kind == Some("sse") { HttpTransport::Sse } else { HttpTransport::Streamable };
                TransportConfig::Http(HttpConfig { url, transport, headers, oauth })
            }
            (_, _, None) => return Err(missing("url")),
        };
        let mut unset = variables.missing();
        match unset.len() {
            0 => {}
            1 => return Err(EntryError::Variable(unset.remove(0))),
            _ => return Err(EntryError::Variables(unset)),
        }
        let tools = ToolFilter::new(self.allowed_tools.as_deref(), &self.disabled_tools)?;
        let (sampling, hidden) = (self.sampling.unwrap_or_default(), variables.secrets());
        let mut config = ServerConfig { tools, sampling, hidden, ..ServerConfig::over(transport) };
        if let Some(milliseconds) = self.timeout {
            config.call_timeout = Duration::from_millis(milliseconds);
        }
        Ok(config)
    }
}
