//! What an agent is, apart from its model and its files.

use std::fs;

use anyhow::{Result, bail};
use deepagents::core::model::ChatModel;
use deepagents::fs::LocalBackend;
use deepagents::fs::sandbox::SandboxPolicy;
use deepagents::fs::shell::{Confinement, SessionOptions};
use deepagents::mcp::PREFIX;
use deepagents::middleware::filesystem::{BackgroundCommands, FilesystemOptions};
use deepagents::middleware::tool_search::ToolSearch;
use deepagents::middleware::web::{Tavily, Web};
use deepagents::{
    DeepAgent, DeepAgentBuilder, Effect, InterruptOn, InterruptPolicy, Middleware, ModelSettings, ToolNext,
    ToolRequest, ToolResponse,
};
use serde::{Deserialize, Serialize};

use super::confined;
use crate::args::{self, AgentArgs, Approve, EditWith, RedactedKind};
use crate::context_files::{ContextFiles, FileContents};
use crate::exit::WrongUsage;
use crate::model_choice::env;
use crate::own_files::OwnFiles;
use crate::proxy;
use crate::rules::Rules;
use crate::small_file::without_mark;

/// What makes an agent what it is, apart from its model and its files; stored in recordings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Shape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    no_todos: bool,
    pub(crate) execute: bool,
    /// Whether commands may run in the background.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    background_commands: bool,
    /// Whether commands share a shell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shell_session: bool,
    /// Whether files may be edited without having been read.
    #[serde(skip)]
    pub(crate) edits_unread: bool,
    /// How long background commands live; those of a recorded run end with the run.
    #[serde(skip)]
    background: BackgroundCommands,
    /// If set, calls that change something are refused for this reason.
    #[serde(skip)]
    pub(crate) refuses: Option<&'static str>,
    /// What is hidden from the model and the thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redact: Vec<RedactedKind>,
    /// Whether the agent can fetch web pages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    web: bool,
    /// Whether the agent can search the web.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    web_search: bool,
    /// Whether the model has to search for MCP tools before they are offered to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tool_search: bool,
    /// The tool with which the model edits files, if it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edit_tool: Option<EditWith>,
    /// Whether calls that change something wait for a decision.
    pub(crate) asks: ModeAsks,
    /// Rules for reading and changing files, and for running commands.
    #[serde(default, skip_serializing_if = "Rules::is_empty")]
    pub(crate) rules: Rules,
    /// Limit on model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_turns: Option<u32>,
    /// Memory and skills.
    #[serde(rename = "sources", default, skip_serializing_if = "ContextFiles::is_empty")]
    pub(crate) context_files: ContextFiles,
    /// Contents of their files, in a recording.
    #[serde(default, skip_serializing_if = "FileContents::is_empty")]
    pub(crate) carried: FileContents,
}

/// Whether the mode interrupts calls that change something. A recording, which has no hooks, stores only a `bool`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub(crate) enum ModeAsks {
    #[default]
    Never,
    /// A hook may answer instead of the user.
    UnlessHooksAllow,
    /// The mode gives the answer, and a hook cannot.
    Always,
}

impl From<bool> for ModeAsks {
    fn from(asks: bool) -> Self {
        if asks { Self::UnlessHooksAllow } else { Self::Never }
    }
}

impl From<ModeAsks> for bool {
    fn from(asks: ModeAsks) -> Self {
        asks != ModeAsks::Never
    }
}

impl ModeAsks {
    /// Returns what a mode of `run` asks about.
    pub(crate) fn of(mode: Approve) -> Self {
        match mode {
            Approve::Auto => Self::Never,
            Approve::Ask => Self::UnlessHooksAllow,
            Approve::Deny | Approve::AllowList => Self::Always,
        }
    }
}

/// The rule named in interrupts that are due to the mode.
pub(crate) const MODE_ASKS: &str = "--approve: what changes something is asked about";

/// Tools that change something outside the conversation, or send something there.
const GATED: [&str; 7] = ["write_file", "edit_file", "apply_patch", "delete", "execute", "fetch_url", "web_search"];

impl Shape {
    /// Returns the shape that the options describe, without looking for memory and skills.
    pub(crate) fn from_args(args: &AgentArgs) -> Result<Self> {
        let rules = args.rules.as_deref().map(Rules::read).transpose()?.unwrap_or_default();
        Ok(Self {
            rules,
            system: args.system.as_deref().map(system).transpose()?,
            max_tokens: args.max_answer_tokens,
            no_todos: args.no_todos,
            execute: args.commands.are_run(),
            background_commands: args.commands.are_run(),
            shell_session: args.commands.shell_session,
            background: args.commands.background(),
            redact: args.redact.clone(),
            web: args.web,
            web_search: args.web && env(TAVILY_KEY).is_some(),
            tool_search: args.tool_search,
            edit_tool: args.edit_tool,
            ..Self::default()
        })
    }

    /// Applies a mode where no user sits at a terminal: questions go to the client.
    ///
    /// # Errors
    /// Returns an error for `allow-list`, which has no meaning there.
    pub(crate) fn decide_for_clients(&mut self, mode: Approve) -> Result<()> {
        match mode {
            Approve::Ask => self.asks = ModeAsks::UnlessHooksAllow,
            Approve::Auto => {}
            Approve::Deny => self.refuses = Some("--approve deny"),
            Approve::AllowList => bail!(
                "--approve allow-list works only with `deepagents run`, which remembers rules; use ask, auto or deny here"
            ),
        }
        Ok(())
    }

    /// Returns the confinement of the directory's hooks, which are commands like the agent's own.
    pub(crate) fn confinement(&self, files: &LocalBackend, own: &OwnFiles) -> Confinement {
        Confinement::Sandboxed(SandboxPolicy { rules: vec![self.rules.permissions()], ..confined(files, own) })
    }

    /// Returns an error if there are rules about commands, but commands are not run.
    pub(crate) fn check(&self) -> Result<()> {
        self.rules.check_commands(self.execute)
    }

    /// Returns a builder for an agent of this shape, without its files.
    pub(crate) fn builder(&self, model: impl ChatModel) -> DeepAgentBuilder {
        let mut settings = ModelSettings::default();
        settings.max_tokens = self.max_tokens;
        let mut builder = DeepAgent::builder().model(model).settings(settings);
        if let Some(text) = &self.system {
            builder = builder.system_prompt(text.as_str());
        }
        if self.no_todos {
            builder = builder.without("TodoList");
        }
        let mut files = FilesystemOptions::default();
        files.read_before_edit &= !self.edits_unread;
        files.edit_tool = self.edit_tool.map(Into::into);
        if self.background_commands {
            files.background_commands = match self.background {
                BackgroundCommands::Off => BackgroundCommands::EndWithRun,
                chosen => chosen,
            };
            files.shell_session = self.shell_session.then(SessionOptions::default);
        }
        builder = builder.files(files);
        if let Some(redaction) = args::redaction(&self.redact) {
            builder = builder.redaction(redaction);
        }
        if self.web {
            builder = builder.shared_middleware(web(self.web_search));
        }
        if self.tool_search {
            builder = builder.shared_middleware(ToolSearch::default());
        }
        if let Some(why) = self.refuses {
            builder = builder.shared_middleware(RefuseChanges(why));
        }
        if self.asks != ModeAsks::Never {
            let ask = InterruptOn::any().rule(MODE_ASKS);
            let ask = if self.asks == ModeAsks::Always { ask.required() } else { ask };
            let approvals = GATED.iter().fold(InterruptPolicy::new(), |all, tool| all.before(*tool, ask.clone()));
            // The effect of an MCP tool is unknown, unless the server's owner vouches that it only reads.
            let changes =
                ask.when(|call, cx| cx.tool(&call.name).is_some_and(|tool| tool.effect(&call.args) != Effect::Read));
            builder = builder.interrupt_on(approvals.before(format!("{PREFIX}*"), changes));
        }
        self.context_files.give(builder.permissions(self.rules.permissions()))
    }
}

/// Refuses calls that change something, for runs in which nobody can decide about them.
#[derive(Debug)]
struct RefuseChanges(&'static str);

impl Middleware for RefuseChanges {
    fn name(&self) -> &str {
        "RefuseChanges"
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> deepagents::Result<ToolResponse> {
        let (name, args) = (&request.call.name, &request.call.args);
        let reads = || request.tool.as_ref().is_some_and(|tool| tool.effect(args) == Effect::Read);
        if GATED.contains(&name.as_str()) || (name.starts_with(PREFIX) && !reads()) {
            let text = format!("Error: {name} was not called: nothing may be changed or run here ({})", self.0);
            return Ok(ToolResponse::error(&text).denied_by(self.0, text));
        }
        next.run(request).await
    }
}

/// The variable with the Tavily key.
const TAVILY_KEY: &str = "TAVILY_API_KEY";

/// Returns the web tools. A replayed recording has no key and needs none.
fn web(searches: bool) -> Web {
    if !searches {
        return Web::default();
    }
    let tavily = Tavily::new(env(TAVILY_KEY).unwrap_or_default());
    Web::default().search(tavily.proxy(proxy::for_address("https://api.tavily.com", &env)))
}

/// Reads a system prompt given as text, or as `@` and a file name.
fn system(text: &str) -> Result<String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    match fs::read_to_string(file) {
        Ok(text) if without_mark(&text).trim().is_empty() => {
            bail!(WrongUsage::new(format!("the file `{file}` given with --system is empty")))
        }
        Ok(text) => Ok(without_mark(&text).trim_end().to_owned()),
        Err(error) => bail!(WrongUsage::new(format!("the file `{file}` given with --system cannot be read: {error}"))),
    }
}
