//! MCP client and server: gives agents the tools of MCP servers, and offers agents to MCP clients.
//!
//! [`McpServers`] connects to servers over the pipes of a child process or over HTTP, in both protocols in use (up to
//! 2025-11-25, with sessions; 2026-07-28, stateless). It is the middleware that offers their tools to an agent.
//! [`serve`] is the server side. [`ConfigFile`] reads the `mcpServers` files that other MCP clients use. Names and
//! behaviour follow the MCP specification and the conventions of existing clients.
//!
//! Servers are not trusted. Invisible characters are removed from their text, results are bounded and reported as
//! foreign in the events, annotations count only where the configuration trusts the server, and a server gets a minimal
//! environment without API keys. A run never waits for a server without a limit, and never fails because of one.

pub mod auth;
mod cache;
mod config;
mod connection;
mod error;
mod http;
mod names;
mod options;
mod resources;
mod results;
mod schema;
pub mod serve;
mod servers;
mod stdio;
mod sync;
mod text;
mod tool;

pub use crate::http::shown_address;
pub use config::{
    ClientProof, ConfigFile, Entry, EntryError, FileError, FilterError, GrantKind, HttpConfig, HttpTransport,
    IdentityProvider, OAuthConfig, OAuthEntry, OAuthGrant, Sampling, SecretSource, ServerConfig, StdioConfig,
    ToolFilter, TransportConfig,
};
pub use error::McpError;
pub use names::{PREFIX, tool_name};
pub use options::{McpOptions, SamplingModel, ToolReview};
pub use resources::McpPrompt;
pub use servers::{McpServers, ServerState, ServerStatus};
pub use stdio::SAFE_VARIABLES;
