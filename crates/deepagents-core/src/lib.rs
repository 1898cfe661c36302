//! The agent loop of Deep Agents, its state, and the traits that other crates implement.
//!
//! An [`Agent`](agent::Agent) is a model with tools and middlewares. A [`Run`](run::Run) of it alternates model calls
//! and tool calls until the model makes no further tool calls. A pure state machine, [`Machine`](run::Machine), decides
//! each next step; a driver performs the I/O. The state consists of typed [channels](state::Channel), changed by
//! updates that a [journal](journal::Journal) stores.
//!
//! This crate opens no files or sockets, prints nothing and does not read the environment. Models are in
//! `deepagents-models`, file access is in `deepagents-fs`, and the standard middlewares are in `deepagents`.

/// The `Future` and `Stream` types that the traits use.
pub use futures_core;
/// The JSON values in the signatures of tools and stores.
pub use serde_json;

pub mod agent;
mod context;
pub mod env;
pub mod error;
pub mod escape;
pub mod event;
mod forward;
mod ids;
pub mod interrupt;
pub mod journal;
pub mod json;
mod machine;
pub mod message;
pub mod middleware;
pub mod model;
mod panics;
pub mod run;
mod schema;
pub mod state;
mod status;
pub mod store;
pub mod structured;
pub mod tool;
