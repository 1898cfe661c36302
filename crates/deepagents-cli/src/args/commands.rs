//! How commands are run.

use clap::{Args, ValueEnum};
use deepagents::fs::sandbox::HostPattern;
use deepagents::fs::shell::SessionOptions;
use deepagents::middleware::filesystem::BackgroundCommands;
use deepagents::remembered::CommandReach;
use schemars::JsonSchema;
use serde::Deserialize;

/// Whether and how the agent runs commands.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommandArgs {
    /// Let the agent run commands in the directory, in a sandbox; without a sandbox they are refused
    #[arg(long, help_heading = "Commands")]
    execute: bool,

    /// What commands may do to this machine; lets the agent run them as --execute does
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Commands")]
    sandbox: Option<SandboxMode>,

    /// A host that commands may reach, otherwise they have no network; *.HOST is all below it; may be repeated
    ///
    /// Without a port it is 80 and 443. Names of this machine and of private networks need their address on the list
    /// too, except localhost.
    #[arg(long = "allow-host", value_name = "HOST[:PORT]", help_heading = "Commands")]
    pub(crate) allow_hosts: Vec<HostPattern>,

    /// A variable of your environment that commands get too, or one with a value of its own; may be repeated
    ///
    /// They have PATH, the places of your tool chains, LANG and TERM, and no others.
    #[arg(long = "env", value_name = "NAME[=VALUE]", value_parser = variable, help_heading = "Commands")]
    pub(crate) env: Vec<(String, Option<String>)>,

    /// Let what commands put into the caches of cargo, npm, pip, go and others stay there
    ///
    /// Otherwise they have a copy that ends with the command. What stays may be run outside of the sandbox later.
    #[arg(long, help_heading = "Commands")]
    pub(crate) share_caches: bool,

    /// Let commands in the background go on from one turn to the next, until the program ends
    ///
    /// Otherwise they end with the run that started them.
    #[arg(long, help_heading = "Commands")]
    keep_commands: bool,

    /// Run all commands of a run in one shell: directory, variables and what it starts with & stay
    ///
    /// It ends with the run, and with a command that takes too long. What a command means depends on those before it, so
    /// neither rules about commands nor what was always allowed go with it, and each command is asked about.
    #[arg(long, conflicts_with = "keep_commands", help_heading = "Commands")]
    shell_session: bool,
}

/// What commands may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SandboxMode {
    /// In a sandbox: read the directory and the system, write to a /tmp of their own
    ReadOnly,
    /// In a sandbox: change the directory as well
    #[default]
    Workspace,
    /// Whatever you may do: no sandbox at all
    Unconfined,
}

impl CommandArgs {
    /// Commands that are run in this way.
    pub(crate) fn in_mode(sandbox: SandboxMode, allow_hosts: Vec<HostPattern>) -> Self {
        Self { sandbox: Some(sandbox), allow_hosts, ..Self::default() }
    }

    /// Whether commands are run at all.
    pub(crate) fn are_run(&self) -> bool {
        self.execute || self.sandbox.is_some()
    }

    /// The same with commands that are run, without a sandbox where there is none.
    pub(crate) fn run_in(&self, has_sandbox: bool) -> Self {
        let sandbox = if has_sandbox { self.sandbox } else { Some(SandboxMode::Unconfined) };
        Self { execute: true, sandbox, ..self.clone() }
    }

    /// How long commands in the background go on.
    pub(crate) fn background(&self) -> BackgroundCommands {
        if self.keep_commands { BackgroundCommands::EndWithAgent } else { BackgroundCommands::EndWithRun }
    }

    /// The shell that commands share, if they do.
    pub(crate) fn session(&self) -> Option<SessionOptions> {
        self.shell_session.then(SessionOptions::default)
    }

    pub(crate) fn mode(&self) -> SandboxMode {
        self.sandbox.unwrap_or_default()
    }

    /// What commands can reach.
    pub(crate) fn reach(&self) -> CommandReach {
        CommandReach {
            unconfined: self.mode() == SandboxMode::Unconfined,
            read_only: self.mode() == SandboxMode::ReadOnly,
            hosts: self.allow_hosts.iter().map(ToString::to_string).collect(),
            shared_caches: self.share_caches,
        }
    }

    /// An option that means nothing with the others, if there is one.
    pub(super) fn idle_option(&self, are_run: bool) -> Option<String> {
        let given = [
            ("--allow-host", !self.allow_hosts.is_empty()),
            ("--env", !self.env.is_empty()),
            ("--share-caches", self.share_caches),
            ("--keep-commands", self.keep_commands),
            ("--shell-session", self.shell_session),
        ];
        let given = |name: &str| given.iter().any(|(own, given)| *own == name && *given);
        let all = ["--allow-host", "--env", "--share-caches", "--keep-commands", "--shell-session"];
        if !are_run {
            let idle = all.into_iter().find(|name| given(name))?;
            return Some(format!("{idle} is for commands, and none are run; give --execute as well"));
        }
        let bounds = ["--allow-host", "--share-caches"].into_iter().find(|name| given(name));
        let bounds = bounds.filter(|_| self.mode() == SandboxMode::Unconfined)?;
        Some(format!("{bounds} is for a sandbox; commands without one have the whole network and all files"))
    }
}

pub(crate) fn variable(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_owned())));
    if name.is_empty() || name.contains(|c: char| c.is_whitespace()) {
        return Err("it has no name; write it as NAME or NAME=VALUE".to_owned());
    }
    Ok((name.to_owned(), value))
}
