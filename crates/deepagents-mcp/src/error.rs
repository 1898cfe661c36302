//! Why a server cannot be used.

use std::sync::Arc;
use std::time::Duration;

/// Characters of an error that a person is shown.
const LINE: usize = 4_000;

/// Why a server cannot be used. Every message names the server; values of its headers and environment are never part of
/// one.
///
/// ```
/// use deepagents_mcp::McpError;
/// let error = McpError::Unauthorized { server: "github".to_owned() };
/// assert!(error.to_string().contains("deepagents mcp login github"));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// Its program could not be started.
    #[error("MCP server {server} could not be started: `{command}`: {source}")]
    Spawn {
        /// The server.
        server: String,
        /// The program.
        command: String,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
    /// It did not answer in time when it was started.
    #[error("MCP server {server} is not available: it did not answer within {} seconds{}", after.as_secs(), ending(stderr))]
    StartTimeout {
        /// The server.
        server: String,
        /// The limit.
        after: Duration,
        /// The end of what it printed to stderr.
        stderr: String,
    },
    /// It wants a login.
    #[error(
        "MCP server {server} is not available: it requires authorization (401); log in with `deepagents mcp login \
         {server}`, or check its headers"
    )]
    Unauthorized {
        /// The server.
        server: String,
    },
    /// It wants more than its login covers.
    #[error(
        "MCP server {server} requires more than its login covers{}; log in again with `deepagents mcp login {server}`",
        ending(scope)
    )]
    Scope {
        /// The server.
        server: String,
        /// What it wants, as far as it says so.
        scope: String,
    },
    /// The connection could not be made, or not as the protocol says.
    #[error("MCP server {server} is not available: {reason}{}", ending(stderr))]
    Connect {
        /// The server.
        server: String,
        /// What went wrong.
        reason: String,
        /// The end of what it printed to stderr.
        stderr: String,
    },
    /// The connection ended under a request.
    #[error(
        "MCP server {server} ended during the request{}; whether the request had an effect is not known",
        ending(reason)
    )]
    Ended {
        /// The server.
        server: String,
        /// How it ended, as far as that is known.
        reason: String,
    },
    /// A request could not be sent, or its answer not be read.
    #[error("the request to MCP server {server} failed: {reason}")]
    Request {
        /// The server.
        server: String,
        /// What went wrong.
        reason: String,
    },
    /// It did not answer a request in time.
    #[error("MCP server {server} did not answer within {} seconds; the request was cancelled", after.as_secs())]
    Timeout {
        /// The server.
        server: String,
        /// The limit.
        after: Duration,
    },
    /// A tool of it is not what somebody has agreed to any more.
    #[error("the call was not made: {reason}")]
    Withheld {
        /// The server.
        server: String,
        /// Why the tool is not offered.
        reason: String,
    },
    /// It answered a request with an error.
    #[error("MCP server {server} answered with an error: {message} ({code})")]
    Refused {
        /// The server.
        server: String,
        /// The JSON-RPC code.
        code: i32,
        /// Its words.
        message: String,
    },
    /// No server has this name.
    #[error("there is no MCP server `{server}`; there are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    Unknown {
        /// The name as given.
        server: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The servers were closed.
    #[error("MCP server {server} was closed")]
    Closed {
        /// The server.
        server: String,
    },
}

impl McpError {
    /// The server it is about.
    pub fn server(&self) -> &str {
        match self {
            Self::Spawn { server, .. }
            | Self::StartTimeout { server, .. }
            | Self::Unauthorized { server }
            | Self::Scope { server, .. }
            | Self::Connect { server, .. }
            | Self::Ended { server, .. }
            | Self::Request { server, .. }
            | Self::Timeout { server, .. }
            | Self::Withheld { server, .. }
            | Self::Refused { server, .. }
            | Self::Unknown { server, .. }
            | Self::Closed { server } => server,
        }
    }
}

impl McpError {
    /// The error on one line: names of servers may hold anything.
    pub(crate) fn line(&self) -> String {
        crate::text::line(&self.to_string(), LINE)
    }
}

/// Words at the end of a sentence, if there are any.
fn ending(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}
