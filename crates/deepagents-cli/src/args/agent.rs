//! The options that describe an agent, whatever the command.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommandArgs, EditWith, McpSources, RedactedKind, positive};

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Effort {
    /// Quick answers
    Low,
    /// Between the two
    Medium,
    /// Slow, careful answers
    High,
}

impl Effort {
    /// Returns the name that settings and requests have for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Returns the effort of this name.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::from_str(word, false).ok()
    }
}

/// What an agent is made of.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AgentArgs {
    /// The model, such as anthropic:claude-sonnet-4-5
    ///
    /// Otherwise the variable DEEPAGENTS_MODEL decides, or else the first provider whose key is set, in the order that
    /// `deepagents models` shows.
    #[arg(long, value_name = "PROVIDER:MODEL", help_heading = "Model")]
    pub(crate) model: Option<String>,

    /// How much the model thinks before it answers [default: up to the model]
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Model")]
    pub(crate) effort: Option<Effort>,

    /// The address of the model's server, such as http://localhost:8080/v1
    ///
    /// It replaces the provider's usual address. With a bare model name, it is a server that speaks OpenAI's Chat
    /// Completions; its key is optional and read from DEEPAGENTS_API_KEY.
    #[arg(long, value_name = "URL", help_heading = "Model")]
    pub(crate) base_url: Option<String>,

    /// The system prompt: a text, or @FILE to read it from a file
    #[arg(long, value_name = "TEXT|@FILE", help_heading = "Agent")]
    pub(crate) system: Option<String>,

    /// The directory that the agent may read and change; it cannot leave it [default: the current directory]
    ///
    /// Your home directory, those above it and /tmp have to be named explicitly. The program's own files, such as
    /// ~/.deepagents, are out of reach in any directory.
    #[arg(long, value_name = "DIR", help_heading = "Agent")]
    pub(crate) root: Option<PathBuf>,

    /// A header to send with every model call, as NAME:VALUE; may be repeated
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = header, help_heading = "Model")]
    pub(crate) headers: Vec<(String, String)>,

    /// The model's context window, in tokens; asked of its server if unknown
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = positive::<u64>, help_heading = "Model")]
    pub(crate) context_window: Option<u64>,

    /// The longest answer the model may give, in tokens
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = positive::<u64>, help_heading = "Model")]
    pub(crate) max_answer_tokens: Option<u64>,

    /// The tool with which the model edits files: edit_file, unless this or a setting says otherwise
    ///
    /// Models that are trained on patches, such as OpenAI's, may do better with apply_patch.
    #[arg(long, value_name = "TOOL", help_heading = "Agent")]
    pub(crate) edit_tool: Option<EditWith>,

    #[command(flatten)]
    pub(crate) commands: CommandArgs,

    /// A file of rules: what the agent may read, change and run, and what you are asked about
    ///
    /// A JSON list of rules about files, {"operations":["read","write"],"paths":["/docs/**"],"mode":"deny"}, and about
    /// commands, {"commands":["git push"],"mode":"ask"}. A mode is allow, deny or ask. The first rule that matches a
    /// path or a command decides; what no rule matches is allowed. A rule that can match nothing is an error.
    #[arg(long, value_name = "FILE", help_heading = "Agent")]
    pub(crate) rules: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) mcp: McpSources,

    /// Leave out all MCP servers
    #[arg(long, conflicts_with_all = ["mcp_config", "trust_project_mcp"], help_heading = "MCP")]
    pub(crate) no_mcp: bool,

    /// Leave MCP tools out of requests until the model has searched for them
    ///
    /// The model finds them by what they do, with the tool tool_search. If they take no more than 1,500 tokens
    /// together, they are all offered at once.
    #[arg(long, conflicts_with = "no_mcp", help_heading = "MCP")]
    pub(crate) tool_search: bool,

    /// Agree to what the directory brings that steers the agent: its AGENTS.md, and sub-agents, skills and notes in
    /// .deepagents
    ///
    /// Otherwise you are asked at a terminal, and elsewhere it is left out. What you agree to is remembered by
    /// directory and hash; `deepagents trust` shows and revokes it.
    #[arg(long, help_heading = "Agent")]
    pub(crate) trust: bool,

    /// Leave out the sub-agents that files in .deepagents/agents define, there and in your home directory
    ///
    /// A recorded run leaves them out too.
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_agents: bool,

    /// Leave out the notes in AGENTS.md and .deepagents/AGENTS.md, and in ~/.deepagents/AGENTS.md
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_memory: bool,

    /// Leave out the skills in .deepagents/skills, there and in your home directory
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_skills: bool,

    /// Leave out the hooks in ~/.deepagents/hooks.json and .deepagents/hooks.json
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_hooks: bool,

    /// Let the agent fetch pages of the public web, and search it with Tavily if TAVILY_API_KEY is set
    ///
    /// Requests go out directly, and only to public addresses. If approval is asked for, it is for each request.
    #[arg(long, help_heading = "Agent")]
    pub(crate) web: bool,

    /// Hide what may be secret from the model, the thread and the screen, leaving a mark in its place; may be repeated
    ///
    /// It is hidden in what you say, in answers and in tool results, so what the agent writes from what it has read
    /// contains the marks too.
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',', help_heading = "Agent")]
    pub(crate) redact: Vec<RedactedKind>,

    /// Leave out the todo list
    #[arg(long, help_heading = "Agent")]
    pub(crate) no_todos: bool,

    /// Fetch answers in one piece instead of streaming them
    #[arg(long, help_heading = "Model")]
    pub(crate) no_stream: bool,

    /// Execute tool calls that the model writes as text, as small models do
    ///
    /// These are <tool_call>{…}</tool_call>, a fenced block of JSON, or an answer that is only JSON, each with the name
    /// of a tool on offer.
    #[arg(long, help_heading = "Model")]
    pub(crate) text_tool_calls: bool,
}

impl AgentArgs {
    /// Returns the options of an agent that works in a directory.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: Some(root.to_owned()), ..Self::default() }
    }

    /// Returns the files named in the options that say what the agent is told, may do and can call.
    pub(crate) fn steering_files(&self) -> Vec<PathBuf> {
        let system = self.system.as_deref().and_then(|system| system.strip_prefix('@')).map(PathBuf::from);
        [self.mcp.mcp_config.clone(), self.rules.clone(), system].into_iter().flatten().collect()
    }

    /// Returns the directory that the agent works in.
    pub(crate) fn directory(&self) -> &Path {
        self.root.as_deref().unwrap_or(Path::new("."))
    }
}

pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as NAME:VALUE")?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return Err("the name is missing; write it as NAME:VALUE".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_split_at_its_first_colon() {
        assert_eq!(header("X-Url: http://a"), Ok(("X-Url".to_owned(), "http://a".to_owned())));
        assert!(header("nothing").is_err());
        assert!(header(": value").is_err());
    }
}
