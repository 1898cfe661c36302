//! Options for running commands.

use clap::{Args, ValueEnum};
use deepagents::fs::sandbox::HostPattern;
use deepagents::middleware::filesystem::BackgroundCommands;
use deepagents::remembered::CommandReach;
use schemars::JsonSchema;
use serde::Deserialize;

/// Whether and how the agent runs commands.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CommandArgs {
    /// Let the agent run commands in the directory, in a sandbox; if there is no sandbox they are refused
    #[arg(long, help_heading = "Commands")]
    execute: bool,

    /// What commands may do to this machine; --execute is then implied
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Commands")]
    sandbox: Option<SandboxMode>,

    /// A host that commands may reach; without one they have no network; *.HOST is all below it; may be repeated
    ///
    /// The default ports are 80 and 443. For names of this machine and of private networks, except localhost, list the
    /// address too.
    #[arg(long = "allow-host", value_name = "HOST[:PORT]", help_heading = "Commands")]
    pub(crate) allow_hosts: Vec<HostPattern>,

    /// A variable of your environment to pass to commands, or NAME=VALUE; may be repeated
    ///
    /// Otherwise they get only PATH, the places of your tool chains, LANG and TERM.
    #[arg(long = "env", value_name = "NAME[=VALUE]", value_parser = variable, help_heading = "Commands")]
    pub(crate) env: Vec<(String, Option<String>)>,

    /// Keep what commands write to the caches of cargo, npm, pip, go and others
    ///
    /// Otherwise each command gets a copy that ends with it. What is kept may be run outside the sandbox later.
    #[arg(long, help_heading = "Commands")]
    pub(crate) share_caches: bool,

    /// Let background commands continue from one turn to the next, until the program ends
    ///
    /// Otherwise they end with the run that started them.
    #[arg(long, help_heading = "Commands")]
    keep_commands: bool,

    /// Run all commands of a run in one shell: directory, variables and what it starts with & persist
    ///
    /// The shell ends with the run, and with a command that takes too long. What a command means depends on those
    /// before it, so it excludes rules about commands and what you have always allowed, and you are asked about each
    /// command.
    #[arg(long, conflicts_with = "keep_commands", help_heading = "Commands")]
    pub(crate) shell_session: bool,
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
    /// Anything that you may do: no sandbox at all
    Unconfined,
}

impl CommandArgs {
    /// Returns the options for running commands in this mode.
    pub(crate) fn in_mode(sandbox: SandboxMode, allow_hosts: Vec<HostPattern>) -> Self {
        Self { sandbox: Some(sandbox), allow_hosts, ..Self::default() }
    }

    /// Whether commands are run at all.
    pub(crate) fn are_run(&self) -> bool {
        self.execute || self.sandbox.is_some()
    }

    /// Returns the same options with commands enabled, unconfined if there is no sandbox.
    pub(crate) fn run_in(&self, has_sandbox: bool) -> Self {
        let sandbox = if has_sandbox { self.sandbox } else { Some(SandboxMode::Unconfined) };
        Self { execute: true, sandbox, ..self.clone() }
    }

    /// Returns how long background commands live.
    pub(crate) fn background(&self) -> BackgroundCommands {
        if self.keep_commands { BackgroundCommands::EndWithAgent } else { BackgroundCommands::EndWithRun }
    }

    pub(crate) fn mode(&self) -> SandboxMode {
        self.sandbox.unwrap_or_default()
    }

    /// Returns what commands can reach.
    pub(crate) fn reach(&self) -> CommandReach {
        CommandReach {
            unconfined: self.mode() == SandboxMode::Unconfined,
            read_only: self.mode() == SandboxMode::ReadOnly,
            hosts: self.allow_hosts.iter().map(ToString::to_string).collect(),
            shared_caches: self.share_caches,
        }
    }

    /// Returns an error message if an option has no effect in combination with the others.
    pub(super) fn idle_option(&self, are_run: bool) -> Option<String> {
        let of_sandbox = [("--allow-host", !self.allow_hosts.is_empty()), ("--share-caches", self.share_caches)];
        let others = [
            ("--env", !self.env.is_empty()),
            ("--keep-commands", self.keep_commands),
            ("--shell-session", self.shell_session),
        ];
        if !are_run {
            let (idle, _) = of_sandbox.into_iter().chain(others).find(|(_, is_given)| *is_given)?;
            return Some(format!("{idle} only affects commands, which are off; give --execute as well"));
        }
        let (bounds, _) = of_sandbox.into_iter().find(|(_, is_given)| *is_given)?;
        (self.mode() == SandboxMode::Unconfined).then(|| {
            format!("{bounds} only affects a sandbox; commands without one can reach the whole network and all files")
        })
    }
}

pub(crate) fn variable(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_owned())));
    if name.is_empty() || name.contains(|c: char| c.is_whitespace()) {
        return Err("the name is missing; write it as NAME or NAME=VALUE".to_owned());
    }
    Ok((name.to_owned(), value))
}
