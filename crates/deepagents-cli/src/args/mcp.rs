//! The command line of MCP servers.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::{AgentArgs, Approve, Database};

const EXAMPLES: &str = "\
Examples:
  deepagents mcp add time -- uvx mcp-server-time
  deepagents mcp add docs https://docs.example.com/mcp --header \"Authorization: Bearer \\${DOCS_TOKEN}\"
  deepagents mcp list
  deepagents mcp test time
  deepagents mcp login docs

Servers are described in ~/.deepagents/.mcp.json, and in .deepagents/.mcp.json and .mcp.json of a project, from the least to
the most important. Those of a project are started with your consent alone.";

/// Where MCP servers are described.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct McpSources {
    /// A file that describes MCP servers, above those of the user and the project
    #[arg(long, value_name = "FILE", help_heading = "MCP")]
    pub(crate) mcp_config: Option<PathBuf>,

    /// Start the MCP servers that files of the project describe
    #[arg(long, help_heading = "MCP")]
    pub(crate) trust_project_mcp: bool,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: McpCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the servers, whether they answer, and what their tools cost
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        sources: McpSources,
    },
    /// Show how a server is described, without values that may be secret
    Get {
        /// The server
        name: String,
        #[command(flatten)]
        sources: McpSources,
    },
    /// Describe a server in a file
    Add(McpAddArgs),
    /// Take a server out of a file
    Remove {
        /// The server
        name: String,
        /// The file
        #[arg(long, value_enum, default_value_t)]
        scope: Scope,
    },
    /// Log in to a server that wants it, in a browser
    Login {
        /// The server
        name: String,
        #[command(flatten)]
        sources: McpSources,
    },
    /// Forget the login of a server
    Logout {
        /// The server
        name: String,
        #[command(flatten)]
        sources: McpSources,
    },
    /// Connect to a server and show its tools
    Test {
        /// The server
        name: String,
        #[command(flatten)]
        sources: McpSources,
    },
    /// Offer the agent to other programs as an MCP server
    Serve(Box<McpServeArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct McpAddArgs {
    /// What it is called
    pub(crate) name: String,

    /// An address, or the program and its arguments behind `--`
    #[arg(required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) target: Vec<String>,

    #[command(flatten)]
    pub(crate) options: McpAddOptions,
}

/// What is said of a server besides where it is.
#[derive(Debug, Default, Args)]
pub(crate) struct McpAddOptions {
    /// A variable of the program, as NAME=VALUE; may be repeated
    #[arg(short, long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,

    /// A header of every request, as NAME:VALUE; may be repeated
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = super::agent::header)]
    pub(crate) headers: Vec<(String, String)>,

    /// Let it use your model during its calls: `ask` asks you each time, `allow` does not
    #[arg(long, value_name = "HOW", value_parser = ["ask", "allow"])]
    pub(crate) sampling: Option<String>,

    /// The file [default: user]
    #[arg(long, value_enum)]
    pub(crate) scope: Option<Scope>,
}

/// What stands behind an address; behind a program it would be the program's.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, override_usage = "deepagents mcp add <NAME> <ADDRESS> [OPTIONS]")]
struct BehindAddress {
    #[command(flatten)]
    options: McpAddOptions,
}

impl McpAddArgs {
    /// Whether it is an address, not a program.
    pub(crate) fn is_address(&self) -> bool {
        let scheme = self.target.first().and_then(|first| first.split_once("://")).map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)))
    }

    /// Reads options that stand behind an address.
    pub(super) fn read_behind_address(&mut self) -> Result<(), clap::Error> {
        if !self.is_address() {
            return Ok(());
        }
        let behind = BehindAddress::try_parse_from(self.target.split_off(1))?.options;
        self.options.env.extend(behind.env);
        self.options.headers.extend(behind.headers);
        self.options.sampling = behind.sampling.or(self.options.sampling.take());
        self.options.scope = behind.scope.or(self.options.scope);
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct McpServeArgs {
    /// The address to listen on over HTTP, such as 127.0.0.1:8765; without it stdin and stdout are spoken to
    #[arg(long, value_name = "ADDRESS", value_parser = super::serve::address)]
    pub(crate) http: Option<std::net::SocketAddr>,

    /// Offer the tools for the files of the directory too
    #[arg(long)]
    pub(crate) files: bool,

    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// What is done before files are changed and commands are run; `ask` asks whoever uses the client
    #[arg(long, value_name = "HOW", value_enum, default_value_t, help_heading = "Agent")]
    pub(crate) approve: Approve,

    #[command(flatten)]
    pub(crate) database: Database,
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// Yours: ~/.deepagents/.mcp.json
    #[default]
    User,
    /// The project's: .mcp.json
    Project,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not of the form NAME=VALUE"))?;
    if name.is_empty() {
        Err(format!("`{text}` has no name before the `=`"))
    } else {
        Ok((name.to_owned(), value.to_owned()))
    }
}
