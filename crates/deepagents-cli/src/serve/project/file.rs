//! The format of `deepagents.toml`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use deepagents_server::{JwtAlgorithm, Limits};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toml_edit::{Document, Item};

use crate::args::{Approve, EditWith, Effort, SandboxMode};

/// Agents to serve, and how to serve them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProjectFile {
    pub(crate) server: ServerSection,
    pub(crate) store: StoreSection,
    pub(crate) auth: AuthSection,
    pub(crate) limits: LimitsSection,
    /// The agents, by the names that clients use.
    pub(crate) agents: BTreeMap<String, AgentSection>,
}

/// Where the server listens, and who can reach it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerSection {
    /// The address to listen on.
    #[schemars(with = "Option<String>")]
    pub(crate) listen: Option<SocketAddr>,
    /// Host names by which clients call the server.
    pub(crate) hosts: Vec<String>,
    /// Origins whose pages may call the server, such as `https://app.example.com`; `*` allows all.
    pub(crate) origins: Vec<String>,
    /// An audit file with one line per request that changed something or was refused.
    pub(crate) audit: Option<PathBuf>,
    /// The TLS certificates, as PEM.
    pub(crate) tls_cert: Option<PathBuf>,
    /// Their key, as PEM.
    pub(crate) tls_key: Option<PathBuf>,
    /// The environment variable with the secret that webhooks are signed with.
    pub(crate) webhook_secret_env: Option<String>,
}

/// Where threads are stored.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StoreSection {
    /// A SQLite file.
    pub(crate) sqlite: Option<PathBuf>,
    /// The environment variable with the address of a Postgres database.
    pub(crate) postgres_env: Option<String>,
}

/// Who may call the server.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuthSection {
    /// A file with one `NAME TOKEN` a line.
    pub(crate) tokens: Option<PathBuf>,
    /// An issuer of tokens.
    pub(crate) jwt: Option<JwtSection>,
}

/// An issuer of tokens.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JwtSection {
    /// Its name, which for an OpenID Connect provider is its address.
    pub(crate) issuer: String,
    /// The accepted audiences: a token must be for one of them.
    pub(crate) audience: Vec<String>,
    /// The address of its keys, if it has no discovery document.
    pub(crate) keys: Option<String>,
    /// The accepted signature algorithms; all known ones if absent.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) algorithms: Option<Vec<JwtAlgorithm>>,
    /// How far its clock may be off, in seconds; 60 if absent.
    pub(crate) leeway_seconds: Option<u64>,
    /// The claim that holds the caller's identity; `sub` if absent.
    pub(crate) identity_claim: Option<String>,
    /// Which callers are administrators, who see everything.
    pub(crate) admin: Option<AdminClaim>,
}

/// A claim, and the value of it that makes the caller an administrator.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdminClaim {
    pub(crate) claim: String,
    pub(crate) value: String,
}

/// Limits for every caller, and for particular ones.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsSection {
    /// Requests per minute.
    pub(crate) requests_per_minute: Option<u32>,
    /// Runs that are pending or in progress.
    pub(crate) runs_at_once: Option<usize>,
    /// US dollars that model calls may cost per day.
    pub(crate) usd_per_day: Option<f64>,
    /// US dollars that model calls may cost per month.
    pub(crate) usd_per_month: Option<f64>,
    /// Limits of particular callers, by identity.
    pub(crate) users: BTreeMap<String, UserLimits>,
}

/// Limits of one caller.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UserLimits {
    pub(crate) requests_per_minute: Option<u32>,
    pub(crate) runs_at_once: Option<usize>,
    pub(crate) usd_per_day: Option<f64>,
    pub(crate) usd_per_month: Option<f64>,
}

/// An agent. Everything left out is as for `deepagents run`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentSection {
    /// What it is for, shown to those who choose an agent.
    pub(crate) description: Option<String>,
    /// A directory with an `agent.json` that describes it. Besides this, only `description`, `model`, `root`,
    /// `approve`, `questions` and `commands` may then be given here.
    pub(crate) layout: Option<PathBuf>,
    /// Its model, as PROVIDER:MODEL.
    pub(crate) model: Option<String>,
    /// How much it thinks before it answers.
    pub(crate) effort: Option<Effort>,
    /// The address of the model's server.
    pub(crate) base_url: Option<String>,
    /// Headers added to every model call.
    pub(crate) headers: BTreeMap<String, String>,
    /// The model's context window, in tokens.
    pub(crate) context_window: Option<u64>,
    /// The longest answer, in tokens.
    pub(crate) max_answer_tokens: Option<u64>,
    /// Whether tool calls that the model writes as text are executed, as small models need.
    pub(crate) text_tool_calls: bool,
    /// Its system prompt.
    pub(crate) system_prompt: Option<String>,
    /// A file with its system prompt.
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// The directory that it works in; that of this file if absent.
    pub(crate) root: Option<PathBuf>,
    /// What happens before files are changed and commands are run: `ask`, `auto` or `deny`.
    pub(crate) approve: Option<Approve>,
    /// Whether it may ask its user with `ask_user`, which the client answers; by default true if `approve` is `ask`.
    pub(crate) questions: Option<bool>,
    /// Rules about files and commands; the first that matches a path or a command decides.
    pub(crate) permissions: Vec<Value>,
    /// Allows it to run commands, and says how.
    pub(crate) commands: Option<CommandsSection>,
    /// MCP servers, as `.mcp.json` describes them.
    pub(crate) mcp_servers: BTreeMap<String, Value>,
    /// A file that describes MCP servers.
    pub(crate) mcp_config: Option<PathBuf>,
    /// Whether it gets the MCP servers of the user and of its directory; true if absent.
    pub(crate) mcp: Option<bool>,
    /// Whether MCP tools are left out of requests until the model has searched for them.
    pub(crate) tool_search: bool,
    /// The tool with which the model edits files; `edit_file` if absent.
    pub(crate) edit_tool: Option<EditWith>,
    /// Agrees to everything in its directory that steers it: `AGENTS.md`, and the contents of `.deepagents`.
    pub(crate) trust: bool,
    /// Whether it gets memory from files; true if absent. `skills`, `sub_agents`, `hooks` and `todos` work alike.
    pub(crate) memory: Option<bool>,
    pub(crate) skills: Option<bool>,
    pub(crate) sub_agents: Option<bool>,
    pub(crate) hooks: Option<bool>,
    pub(crate) todos: Option<bool>,
}

/// How commands are run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CommandsSection {
    /// What they may do to this machine; `workspace` if absent.
    pub(crate) sandbox: Option<SandboxMode>,
    /// Hosts that they may reach.
    pub(crate) allow_hosts: Vec<String>,
    /// Environment variables for them, as NAME or NAME=VALUE.
    pub(crate) env: Vec<String>,
}

impl LimitsSection {
    pub(crate) fn default_limits(&self) -> Limits {
        limits(self.requests_per_minute, self.runs_at_once, self.usd_per_day, self.usd_per_month)
    }
}

impl UserLimits {
    pub(crate) fn limits(&self) -> Limits {
        limits(self.requests_per_minute, self.runs_at_once, self.usd_per_day, self.usd_per_month)
    }
}

fn limits(
    requests_per_minute: Option<u32>,
    runs_at_once: Option<usize>,
    usd_per_day: Option<f64>,
    usd_per_month: Option<f64>,
) -> Limits {
    Limits { requests_per_minute, runs_at_once, usd_per_day, usd_per_month }
}

/// An error in a description of agents, and where it is.
#[derive(Debug, thiserror::Error)]
pub(crate) struct ProjectError {
    file: PathBuf,
    line: Option<usize>,
    why: String,
}

impl fmt::Display for ProjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl ProjectError {
    pub(crate) fn new(file: &Path, why: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), line: None, why: why.to_string() }
    }
}

/// A file and its text, so that errors can name a line.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    text: String,
}

impl Source {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<(Self, ProjectFile), ProjectError> {
        let text = fs::read_to_string(path).map_err(|error| ProjectError::new(path, error))?;
        let parsed = toml_edit::de::from_str(&text).map_err(|error: toml_edit::de::Error| ProjectError {
            file: path.to_owned(),
            line: error.span().map(|span| line_at(&text, span.start)),
            why: error.message().trim().to_owned(),
        })?;
        Ok((Self { path: path.to_owned(), text }, parsed))
    }

    /// Returns an error about the value under these keys.
    pub(crate) fn wrong(&self, keys: &[&str], why: impl fmt::Display) -> ProjectError {
        let line = Document::parse(self.text.as_str()).ok().and_then(|document| {
            let item = keys.iter().try_fold(document.as_item(), |item: &Item, key| item.get(key))?;
            item.span().map(|span| line_at(&self.text, span.start))
        });
        ProjectError { file: self.path.clone(), line, why: format!("`{}`: {why}", keys.join(".")) }
    }

    /// Resolves a path relative to the file.
    pub(crate) fn place(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
