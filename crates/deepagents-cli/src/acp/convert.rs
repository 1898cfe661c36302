//! What editors say, in the words of the program.

use deepagents::mcp::ServerConfig;
use deepagents_acp::{McpServer, McpTransport, Mode};

use crate::args::Approve;

/// Converts an MCP server given by the editor; `None` for a transport that was not advertised.
pub(super) fn config_of(server: &McpServer) -> Option<ServerConfig> {
    match &server.transport {
        McpTransport::Stdio { command, args, env } => {
            let config = ServerConfig::stdio(command.to_string_lossy(), args.iter().cloned());
            Some(env.iter().fold(config, |config, (name, value)| config.env(name, value)))
        }
        McpTransport::Http { url, headers } => Some(with_headers(ServerConfig::http(url), headers)),
        McpTransport::Sse { url, headers } => Some(with_headers(ServerConfig::sse(url), headers)),
        _ => None,
    }
}

fn with_headers(config: ServerConfig, headers: &[(String, String)]) -> ServerConfig {
    headers.iter().fold(config, |config, (name, value)| config.header(name, value))
}

/// Returns a mode as threads note it.
pub(super) fn approve(mode: Mode) -> Approve {
    match mode {
        Mode::Auto => Approve::Auto,
        Mode::Plan => Approve::Deny,
        _ => Approve::Ask,
    }
}

/// Returns a mode as hooks know it.
pub(super) fn permission_mode(mode: Mode) -> &'static str {
    if mode == Mode::Ask { "default" } else { mode.as_str() }
}
