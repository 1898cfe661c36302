//! The form of `deepagents.toml`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use deepagents_server::{JwtAlgorithm, Limits};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toml_edit::{Document, Item};

use crate::args::{Approve, Effort, SandboxMode};

/// Agents that are served, and how.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProjectFile {
    pub(crate) server: ServerSection,
    pub(crate) store: StoreSection,
    pub(crate) auth: AuthSection,
    pub(crate) limits: LimitsSection,
    /// The agents, by the names that clients know them by.
    pub(crate) agents: BTreeMap<String, AgentSection>,
}

/// Where it is reached, and by whom.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerSection {
    /// The address to listen on.
    #[schemars(with = "Option<String>")]
    pub(crate) listen: Option<SocketAddr>,
    /// Hosts under whose names it is called.
    pub(crate) hosts: Vec<String>,
    /// Origins whose pages may call it, such as `https://app.example.com`; `*` is all.
    pub(crate) origins: Vec<String>,
    /// A file to which each request is noted that changes something or was refused.
    pub(crate) audit: Option<PathBuf>,
    /// The certificates to speak TLS with, as PEM.
    pub(crate) tls_cert: Option<PathBuf>,
    /// Their key, as PEM.
    pub(crate) tls_key: Option<PathBuf>,
    /// The environment variable with the secret that webhooks are signed with.
    pub(crate) webhook_secret_env: Option<String>,
}

/// Where threads are kept.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StoreSection {
    /// A file of SQLite.
    pub(crate) sqlite: Option<PathBuf>,
    /// The environment variable with the address of a Postgres.
    pub(crate) postgres_env: Option<String>,
}

/// Who is let in.
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
    /// Whom tokens must be for: one of these.
    pub(crate) audience: Vec<String>,
    /// The address of its keys, where it has no discovery document.
    pub(crate) keys: Option<String>,
    /// How tokens may be signed; all that are known if absent.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) algorithms: Option<Vec<JwtAlgorithm>>,
    /// How far its clock may be off; 60.
    pub(crate) leeway_seconds: Option<u64>,
    /// The claim that says who they are; `sub`.
    pub(crate) identity_claim: Option<String>,
    /// Who sees everything.
    pub(crate) admin: Option<AdminClaim>,
}

/// A claim and the value of it that makes an administrator.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdminClaim {
    pub(crate) claim: String,
    pub(crate) value: String,
}

/// What everybody may ask for, and some others.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsSection {
    /// Requests in a minute.
    pub(crate) requests_per_minute: Option<u32>,
    /// Runs that wait or are under way.
    pub(crate) runs_at_once: Option<usize>,
    /// US dollars that model calls may cost in a day.
    pub(crate) usd_per_day: Option<f64>,
    /// The same in a month.
    pub(crate) usd_per_month: Option<f64>,
    /// By who they are.
    pub(crate) users: BTreeMap<String, UserLimits>,
}

/// What somebody may ask for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UserLimits {
    pub(crate) requests_per_minute: Option<u32>,
    pub(crate) runs_at_once: Option<usize>,
    pub(crate) usd_per_day: Option<f64>,
    pub(crate) usd_per_month: Option<f64>,
}

/// An agent. What it does not say is as for `deepagents run`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentSection {
    /// What it is for, for those who choose among agents.
    pub(crate) description: Option<String>,
    /// A directory with an `agent.json` that describes it; then nothing else but `description`, `model`, `root`, `approve`,
    /// `questions` and `commands` is said here.
    pub(crate) layout: Option<PathBuf>,
    /// Its model, as PROVIDER:MODEL.
    pub(crate) model: Option<String>,
    /// How much it thinks before it answers.
    pub(crate) effort: Option<Effort>,
    /// The address of the model's server.
    pub(crate) base_url: Option<String>,
    /// Headers of every model call.
    pub(crate) headers: BTreeMap<String, String>,
    /// How many tokens the model reads.
    pub(crate) context_window: Option<u64>,
    /// The longest answer, in tokens.
    pub(crate) max_answer_tokens: Option<u64>,
    /// Whether calls that the model writes into its text are made, as small models need it.
    pub(crate) text_tool_calls: bool,
    /// What it is told to be and do.
    pub(crate) system_prompt: Option<String>,
    /// The same from a file.
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// The directory that it works in; the one that this file is in.
    pub(crate) root: Option<PathBuf>,
    /// What is done before files are changed and commands are run: `ask`, `auto` or `deny`.
    pub(crate) approve: Option<Approve>,
    /// Whether it may ask its user with `ask_user`, which the client answers; true where `approve` is `ask`.
    pub(crate) questions: Option<bool>,
    /// Rules about files and commands; the first one about a path or a command decides.
    pub(crate) permissions: Vec<Value>,
    /// That it runs commands, and how.
    pub(crate) commands: Option<CommandsSection>,
    /// MCP servers, as `.mcp.json` describes them.
    pub(crate) mcp_servers: BTreeMap<String, Value>,
    /// A file of MCP servers.
    pub(crate) mcp_config: Option<PathBuf>,
    /// Whether it has the MCP servers of the user and of its directory; true.
    pub(crate) mcp: Option<bool>,
    /// Whether tools of MCP servers are left out of requests until the model has looked for them.
    pub(crate) tool_search: bool,
    /// Agrees to what its directory brings that steers it: `AGENTS.md`, and what is in `.deepagents`.
    pub(crate) trust: bool,
    /// Whether it has notes, skills, sub-agents and hooks of files, and a todo list; true.
    pub(crate) memory: Option<bool>,
    pub(crate) skills: Option<bool>,
    pub(crate) sub_agents: Option<bool>,
    pub(crate) hooks: Option<bool>,
    pub(crate) todos: Option<bool>,
}

/// How commands are run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CommandsSection {
    /// What they may do to this machine; `workspace` if absent.
    pub(crate) sandbox: Option<SandboxMode>,
    /// Hosts that they may reach.
    pub(crate) allow_hosts: Vec<String>,
    /// Variables that they get, as NAME or NAME=VALUE.
    pub(crate) env: Vec<String>,
}

impl LimitsSection {
    pub(crate) fn everybody(&self) -> Limits {
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

/// What is wrong with a description of agents, and where.
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

/// A file that was read, with its text, so that what is wrong is said with its line.
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

    /// That something is wrong with what is under these keys.
    pub(crate) fn wrong(&self, keys: &[&str], why: impl fmt::Display) -> ProjectError {
        let line = Document::parse(self.text.as_str()).ok().and_then(|document| {
            let item = keys.iter().try_fold(document.as_item(), |item: &Item, key| item.get(key))?;
            item.span().map(|span| line_at(&self.text, span.start))
        });
        ProjectError { file: self.path.clone(), line, why: format!("`{}`: {why}", keys.join(".")) }
    }

    /// A path of the file, which is meant from where the file is.
    pub(crate) fn place(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
