//! The command line of `deepagents serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{AgentArgs, Approve, Database};

const EXAMPLES: &str = "\
Clients of the LangGraph server speak with it: langgraph-sdk in Python and JavaScript, RemoteGraph, agent-chat-ui.

  deepagents serve --root ~/project
  curl -s http://127.0.0.1:8123/runs/wait -H 'content-type: application/json' \\
       -d '{\"assistant_id\": \"agent\", \"input\": {\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}}'

Threads are those of `deepagents threads list`. Runs that are under way when it ends are gone on with by the next one.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// The address to listen on; one that others reach needs --tokens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8123")]
    pub(crate) listen: SocketAddr,

    /// The name that clients know the agent by
    #[arg(long, value_name = "NAME", default_value = "agent")]
    pub(crate) name: String,

    /// A host under whose name it is called, and whose pages may call it; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,

    /// A file with who may call, one `NAME TOKEN` a line; what somebody makes is theirs alone
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,

    /// A file to which each request is noted that changes something or was refused, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,

    /// The certificates to speak TLS with, as PEM
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

    /// What is done before files are changed and commands are run; `ask` asks whoever uses the client
    #[arg(long, value_name = "HOW", value_enum, default_value = "ask", help_heading = "Agent")]
    pub(crate) approve: Approve,

    #[command(flatten)]
    pub(crate) database: Database,
}
