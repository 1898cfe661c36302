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

Servers are defined in ~/.deepagents/.mcp.json, and in .deepagents/.mcp.json and .mcp.json of a project, from the least to
the most important. Those of a project are started only with your consent.";

/// Where MCP servers are described.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct McpSources {
    /// A file that describes MCP servers; it takes precedence over those of the user and the project
    #[arg(long, value_name = "FILE", help_heading = "MCP")]
    pub(crate) mcp_config: Option<PathBuf>,

    /// Start the MCP servers that the project's files describe
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
    /// Show a server's description, without values that may be secret
    Get(McpServerArgs),
    /// Add a server to a file
    Add(McpAddArgs),
    /// Remove a server from a file
    Remove {
        /// The server
        name: String,
        /// The file
        #[arg(long, value_enum, default_value_t)]
        scope: Scope,
    },
    /// Log in to a server that requires it, in a browser
    Login(McpServerArgs),
    /// Remove the login to a server
    Logout(McpServerArgs),
    /// Connect to a server and show its tools
    Test(McpServerArgs),
    /// Offer the agent to other programs as an MCP server
    Serve(Box<McpServeArgs>),
}

/// One of the servers.
#[derive(Debug, Args)]
pub(crate) struct McpServerArgs {
    /// The server
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) sources: McpSources,
}

#[derive(Debug, Args)]
pub(crate) struct McpAddArgs {
    /// Its name
    pub(crate) name: String,

    /// An address, or the program and its arguments behind `--`
    #[arg(required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) target: Vec<String>,

    #[command(flatten)]
    pub(crate) options: McpAddOptions,
}

/// Options of a server besides its address or command.
#[derive(Debug, Default, Args)]
pub(crate) struct McpAddOptions {
    /// An environment variable for the program, as NAME=VALUE; may be repeated
    #[arg(short, long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,

    /// A header to send with every request, as NAME:VALUE; may be repeated
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = super::agent::header)]
    pub(crate) headers: Vec<(String, String)>,

    /// Let it use your model during its calls: `ask` asks you each time, `allow` does not
    #[arg(long, value_name = "HOW", value_parser = ["ask", "allow"])]
    pub(crate) sampling: Option<String>,

    /// The file [default: user]
    #[arg(long, value_enum)]
    pub(crate) scope: Option<Scope>,
}

/// Options given after an address. After a program, they would be the program's arguments.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, override_usage = "deepagents mcp add <NAME> <ADDRESS> [OPTIONS]")]
struct BehindAddress {
    #[command(flatten)]
    options: McpAddOptions,
}

impl McpAddArgs {
    /// Whether the target is an address, not a program.
    pub(crate) fn is_address(&self) -> bool {
        let scheme = self.target.first().and_then(|first| first.split_once("://")).map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)))
    }

    /// Parses options given after an address.
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
    /// The address for HTTP, such as 127.0.0.1:8765; without it, stdin and stdout are used
    #[arg(long, value_name = "ADDRESS", value_parser = super::serve::address)]
    pub(crate) http: Option<std::net::SocketAddr>,

    /// Also offer the tools for the directory's files
    #[arg(long)]
    pub(crate) files: bool,

    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// What happens before files are changed and commands are run; `ask` asks the user of the client
    #[arg(long, value_name = "HOW", value_enum, default_value_t, help_heading = "Agent")]
    pub(crate) approve: Approve,

    #[command(flatten)]
    pub(crate) database: Database,
}

/// Which file a server is described in.
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
