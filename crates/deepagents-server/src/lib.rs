//! Agents over HTTP, compatible with the LangGraph server: its official clients, `RemoteGraph` and the front ends made
//! for it work with this server unchanged.
//!
//! A [`Server`] takes agents that share a journal and becomes an [`axum::Router`]. A client's graph is an agent, a
//! thread is a thread of the journal, and a checkpoint is a position in its log.
//!
//! ```
//! use std::sync::Arc;
//! use deepagents::models::scripted::{ScriptedModel, Turn};
//! use deepagents::{DeepAgent, MemoryJournal};
//! use deepagents_core::store::MemoryStore;
//! use deepagents_server::Server;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let journal = Arc::new(MemoryJournal::new());
//! let model = ScriptedModel::new([Turn::text("Hello.")]);
//! let agent = DeepAgent::builder().model(model).journal(journal.clone()).build()?;
//! let router = Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent)?.router().await?;
//! # let _ = router;
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod a2a;
mod app;
mod assistants;
mod auth;
mod body;
mod crons;
mod deserialize;
mod drain;
mod error;
mod guard;
mod ids;
mod items;
mod json;
mod mcp;
mod meta;
mod metrics;
mod openapi;
mod page;
mod protocol;
mod records;
mod render;
mod reservation;
mod rpc;
mod runs;
mod serve;
mod server;
mod stream;
mod threads;
mod webhooks;
mod wire;

pub use auth::{
    AuditEntry, Authenticate, Identity, JwtAlgorithm, JwtError, JwtTokens, Limits, Presented, Refusal, StaticTokens,
};
pub use runs::ServedRun;
pub use serve::RunningServer;
pub use server::{Server, ServerError};
pub use webhooks::WebhookPolicy;
