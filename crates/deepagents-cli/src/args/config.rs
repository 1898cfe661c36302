//! The command lines of `deepagents config` and `deepagents auth`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  deepagents config list                      all settings, and where each comes from
  deepagents config set theme light
  deepagents config get model
  deepagents config schema > config.schema.json

Sources, highest precedence first: /etc/deepagents/config.toml, the command line, the environment, .deepagents/config.toml of
the directory once you have agreed to it, ~/.deepagents/config.toml, the default.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,

    /// The directory whose own settings apply [default: the current directory]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// List all settings with their values and sources
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a setting's value, and its source on stderr; without a name, all settings
    Get {
        /// The setting, such as model or notify.bell
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Set a setting in your own file
    Set {
        /// The setting
        name: String,
        /// Its value
        value: String,
    },
    /// Remove a setting from your own file
    Unset {
        /// The setting
        name: String,
    },
    /// Print the path of your own file
    Path,
    /// Open your own file in your editor
    Edit,
    /// Print the JSON Schema of settings files
    Schema,
}

const AUTH_EXAMPLES: &str = "\
Examples:
  deepagents auth set anthropic               prompts for the key without showing it
  pass show anthropic | deepagents auth set anthropic
  deepagents auth list

Keys are stored in ~/.deepagents/auth.json, which only you can read. An environment variable takes precedence over it.";

#[derive(Debug, Args)]
#[command(after_help = AUTH_EXAMPLES, arg_required_else_help = true)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    pub(crate) command: AuthCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Store a provider's key, read from stdin
    Set {
        /// The provider, such as anthropic
        provider: String,
    },
    /// List the providers whose keys are set, and where
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a provider's stored key
    Remove {
        /// The provider
        provider: String,
    },
}
