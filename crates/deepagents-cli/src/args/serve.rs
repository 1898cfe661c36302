//! The command line of `deepagents serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{AgentArgs, Approve, Database};

const EXAMPLES: &str = "\
Clients of the LangGraph server work with it: langgraph-sdk in Python and JavaScript, RemoteGraph, agent-chat-ui.

  deepagents serve --root ~/project
  deepagents serve agents/deepagents.toml --watch
  curl -s http://127.0.0.1:8123/runs/wait -H 'content-type: application/json' \\
       -d '{\"assistant_id\": \"agent\", \"input\": {\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}}'

Threads are those of `deepagents threads list`. Runs still in progress when it stops are resumed by the next one.";

#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// What describes the agents: a deepagents.toml, or a directory with one or with an agent.json
    ///
    /// Without it, one agent is served, described by the options.
    #[arg(value_name = "DIR|FILE")]
    pub(crate) project: Option<PathBuf>,

    /// Reload agents when their descriptions change; runs in progress continue unchanged
    #[arg(long, requires = "project")]
    pub(crate) watch: bool,

    /// Print the JSON Schema of deepagents.toml
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,

    /// The address to listen on; one that others can reach needs --tokens [default: 127.0.0.1:8123]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Open the page in a browser
    #[arg(long)]
    pub(crate) open: bool,

    /// The agent's name for clients [default: agent, or the name in its description]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// A host name by which clients and their pages may call the server; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,

    /// A file of callers, one `NAME TOKEN` a line; each sees only what they created
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,

    /// An audit file for requests that changed something or were refused, as lines of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,

    /// The TLS certificates, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// The environment variable with the secret that webhooks are signed with
    #[arg(long, value_name = "NAME")]
    pub(crate) webhook_secret_env: Option<String>,

    #[command(flatten)]
    pub(crate) agent: AgentArgs,

    /// What happens before files are changed and commands are run; `ask`, the default, asks the user of the client
    #[arg(long, value_name = "HOW", value_enum, help_heading = "Agent")]
    pub(crate) approve: Option<Approve>,

    #[command(flatten)]
    pub(crate) database: Database,
}

/// Parses an address to listen on.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let hint = "give an IP address of this machine and a port, such as 127.0.0.1:8123";
    text.trim().parse().map_err(|_| hint.to_owned())
}
