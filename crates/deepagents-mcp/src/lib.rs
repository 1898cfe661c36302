//! MCP: the tools of other programs for agents, and agents for other programs.
//!
//! [`McpServers`] connects to servers, over the pipes of a process or over HTTP, in either of the two protocols that there
//! are (2025-11-25 and before, with sessions; 2026-07-28, without), and is the middleware that offers their tools to an
//! agent. [`serve`] goes the other way. [`ConfigFile`] reads the `mcpServers` files of the field. Names and behaviour follow the specification of MCP and
//! what clients of it have in common.
//!
//! What comes from a server is not trusted: its texts lose what cannot be seen, its results are bounded and marked as
//! foreign in the events, its annotations count where its owner says so, and it gets a small environment and no keys. A
//! run never waits for a server without a limit, and never fails because of one.

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
mod text;
mod tool;

pub use crate::http::shown_address;
pub use config::{
    ClientProof, ConfigFile, Entry, EntryError, FileError, FilterError, GrantKind, HttpConfig, IdentityProvider,
    OAuthConfig, OAuthEntry, OAuthGrant, Sampling, SecretSource, ServerConfig, StdioConfig, ToolFilter,
    TransportConfig,
};
pub use error::McpError;
pub use names::{PREFIX, tool_name};
pub use options::{McpOptions, SamplingModel, ToolReview};
pub use resources::McpPrompt;
pub use servers::{McpServers, ServerState, ServerStatus};
pub use stdio::SAFE_VARIABLES;
