//! The agent loop of Deep Agents, its state, and the traits others implement.
//!
//! An [`Agent`](agent::Agent) is a model, tools and middlewares. A [`Run`](run::Run) of it alternates model calls and
//! tool calls until the model has nothing left to do. What to do next is decided by a plain
//! [`Machine`](run::Machine); a driver does the waiting. The state is made of typed
//! [channels](state::Channel), changed by updates that a [journal](journal::Journal) keeps.
//!
//! This crate opens no file and no socket, prints nothing and reads no environment. Models live in
//! `deepagents-models`, files in `deepagents-fs`, the standard middlewares in `deepagents`.

/// Futures and streams, as the traits are written with.
pub use futures_core;

pub mod agent;
mod context;
pub mod env;
pub mod error;
pub mod event;
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
