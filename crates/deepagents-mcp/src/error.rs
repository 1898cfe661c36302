//! Errors of MCP servers.

use std::sync::Arc;
use std::time::Duration;

/// Maximum length of an error shown to a person, in characters.
const MAX_ERROR_CHARS: usize = 4_000;

/// Why a server cannot be used. Every message names the server; none contains the values of its headers or environment.
///
/// ```
/// use deepagents_mcp::McpError;
/// let error = McpError::Unauthorized { server: "github".to_owned() };
/// assert!(error.to_string().contains("deepagents mcp login github"));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The program could not be started.
    #[error("MCP server {server} could not be started: `{command}`: {source}")]
    Spawn {
        /// Name of the server.
        server: String,
        /// The program.
        command: String,
        /// The error of the operating system.
        source: Arc<std::io::Error>,
    },
    /// The server did not respond within its start timeout.
    #[error("MCP server {server} is not available: it did not answer within {} seconds{}", after.as_secs(), ending(stderr))]
    StartTimeout {
        /// Name of the server.
        server: String,
        /// The timeout.
        after: Duration,
        /// The end of its stderr output.
        stderr: String,
    },
    /// The server requires a login.
    #[error(
        "MCP server {server} is not available: it requires authorization (401); log in with `deepagents mcp login \
         {server}`, or check its headers"
    )]
    Unauthorized {
        /// Name of the server.
        server: String,
    },
    /// The server requires more scopes than the login has.
    #[error(
        "MCP server {server} requires more than its login covers{}; log in again with `deepagents mcp login {server}`",
        ending(scope)
    )]
    Scope {
        /// Name of the server.
        server: String,
        /// The required scopes, if the server names them.
        scope: String,
    },
    /// The connection failed, or the server does not follow the protocol.
    #[error("MCP server {server} is not available: {reason}{}", ending(stderr))]
    Connect {
        /// Name of the server.
        server: String,
        /// What went wrong.
        reason: String,
        /// The end of its stderr output.
        stderr: String,
    },
    /// The connection ended during a request.
    #[error(
        "MCP server {server} ended during the request{}; whether the request had an effect is not known",
        ending(reason)
    )]
    Ended {
        /// Name of the server.
        server: String,
        /// How it ended, if known.
        reason: String,
    },
    /// A request could not be sent, or its response could not be read.
    #[error("the request to MCP server {server} failed: {reason}")]
    Request {
        /// Name of the server.
        server: String,
        /// What went wrong.
        reason: String,
    },
    /// The server did not respond to a request in time.
    #[error("MCP server {server} did not answer within {} seconds; the request was cancelled", after.as_secs())]
    Timeout {
        /// Name of the server.
        server: String,
        /// The timeout.
        after: Duration,
    },
    /// The tool review withholds the tool.
    #[error("the call was not made: {reason}")]
    Withheld {
        /// Name of the server.
        server: String,
        /// Why the tool is withheld.
        reason: String,
    },
    /// The server returned a JSON-RPC error.
    #[error("MCP server {server} answered with an error: {message} ({code})")]
    Refused {
        /// Name of the server.
        server: String,
        /// The JSON-RPC error code.
        code: i32,
        /// The error message.
        message: String,
    },
    /// No server has this name.
    #[error("there is no MCP server `{server}`; there are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    Unknown {
        /// The name as given.
        server: String,
        /// The names of the configured servers.
        known: Vec<String>,
    },
    /// The servers were closed.
    #[error("MCP server {server} was closed")]
    Closed {
        /// Name of the server.
        server: String,
    },
}

impl McpError {
    /// Returns the error on one line. Server names may contain any character.
    pub(crate) fn line(&self) -> String {
        crate::text::line(&self.to_string(), MAX_ERROR_CHARS)
    }
}

/// Formats an optional ending of a message.
fn ending(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}
