//! Deep agents in editors: the agent side of the [Agent Client Protocol](https://agentclientprotocol.com) (ACP),
//! version 1.
//!
//! An application implements [`AgentHost`], which provides the journal and builds the agent of a session. It passes the
//! host to [`serve`] with the two ends of a connection, such as stdin and stdout. This crate does the rest: sessions,
//! the display of runs, approvals, modes, and the editor's files and terminals.
//!
//! A session is a thread of the host's journal with the same ID. A conversation started in an editor can be continued
//! elsewhere, and the other way round.
//!
//! ```no_run
//! use deepagents::core::journal::{Journal, MemoryJournal};
//! use deepagents::fs::LocalBackend;
//! use deepagents::models::scripted::{ScriptedModel, Turn};
//! use deepagents_acp::{AgentHost, HostError, ModelOption, SessionAgent, SessionSetup, serve};
//! use std::sync::Arc;
//!
//! struct Host(Arc<MemoryJournal>);
//!
//! impl AgentHost for Host {
//!     fn journal(&self) -> Arc<dyn Journal> {
//!         self.0.clone()
//!     }
//!
//!     fn models(&self) -> Vec<ModelOption> {
//!         vec![ModelOption::new("scripted")]
//!     }
//!
//!     async fn new_thread(&self) -> Result<String, HostError> {
//!         Ok("thread-1".to_owned())
//!     }
//!
//!     async fn build(&self, setup: &SessionSetup) -> Result<SessionAgent, HostError> {
//!         let files = LocalBackend::open(setup.cwd()).map_err(HostError::invalid)?;
//!         let workspace = setup.workspace(Arc::new(files), None);
//!         let builder = deepagents::DeepAgent::builder().model(ScriptedModel::new([Turn::text("Hello.")]));
//!         let agent = setup.equip(builder.backend(workspace.clone()), self.journal(), []);
//!         Ok(SessionAgent::new(agent.build().map_err(HostError::failed)?, workspace))
//!     }
//! }
//!
//! # async fn f(stdin: tokio::io::DuplexStream, stdout: tokio::io::DuplexStream) -> Result<(), deepagents_acp::ServeError> {
//! serve(Host(Arc::new(MemoryJournal::new())), stdin, stdout).await
//! # }
//! ```

mod backlog;
mod editor;
mod host;
mod lines;
mod policy;
mod prompt;
mod queue;
mod serve;
mod session;
mod setup;
mod show;
mod wire;

pub use host::{AgentHost, HostError, McpServer, McpSupport, McpTransport, ModelOption, SessionAgent, SlashCommand};
pub use policy::Mode;
pub use serve::{ServeError, serve};
pub use setup::{OwnShell, SessionSetup};
