//! The agent loop of Deep Agents, its state, and the traits others implement.
//!
//! An [`Agent`](agent::Agent) is a model, tools and middlewares. A [`Run`](run::Run) of it alternates model calls and
//! tool calls until the model has nothing left to do. What to do next is decided by a plain
//! [`Machine`](run::Machine); a driver does the waiting. The state is made of typed
//! [channels](state::Channel), changed by updates that a [journal](journal::Journal) keeps.
//!
//! This crate opens no file and no socket, prints nothing and reads no environment. Models live in
//! `deepagents-models`, files in `deepagents-fs`, the standard middlewares in `deepagents`.

pub mod agent;
pub mod ask;
pub mod env;
pub mod error;
pub mod event;
pub mod journal;
pub mod message;
pub mod middleware;
pub mod model;
pub mod run;
pub mod state;
pub mod store;
pub mod structured;
pub mod tool;
