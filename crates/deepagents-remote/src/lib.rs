//! Remote agents to delegate to, over the LangGraph API, which includes the Agent Protocol, and over A2A.
//!
//! A [`RemoteAgent`] does a piece of work in the [scope](deepagents_core::agent::ChildScope) of a tool call, as a local
//! sub-agent does. Remote events appear below the call, usage is charged to the budgets above it, questions go to the
//! local user and the answers back, and cancelling the call cancels the remote run.
//!
//! The local thread's log records a remote run before it is started. A call that is made again after a crash finds its
//! run and resumes reading it, so nothing is done twice. An interrupted stream resumes after its last event. If a
//! server cannot be reached within the [time limit](RemoteConfig::retry_timeout), the call returns a single error.
//!
//! Headers are sent only to the configured origin, and redirects to other origins are not followed. Neither headers nor
//! the queries of addresses appear in errors or `Debug` output.

#![forbid(unsafe_code)]

mod a2a;
mod agent;
mod config;
mod error;
mod http;
mod langgraph;
mod progress;
mod questions;
mod sse;

pub use agent::{RemoteAgent, RemoteTask};
pub use config::{Protocol, RemoteConfig};
pub use error::RemoteError;
