//! Agents of other servers, to delegate to: behind the LangGraph API or the Agent Protocol, which is a part of it, and
//! behind A2A.
//!
//! A [`RemoteAgent`] does a piece of work in the [scope](deepagents_core::agent::ChildScope) of a tool call, as a local
//! sub-agent does: what happens over there are events below the call, what is spent is charged to the budgets above,
//! questions are asked of our person and the answers handed back, and cancelling the call cancels the run over there.
//!
//! What is begun over there is in the log of our thread before it is begun: a call that is made again after a crash finds
//! its run and reads on where it was, so nothing is done twice. A stream that was cut is read on from its last event. A
//! server that cannot be reached for as long as the [patience](RemoteConfig::patience) lasts is one error.
//!
//! Secrets: headers are sent to the configured origin alone, redirects to others are not followed, and neither headers nor
//! queries of addresses are part of any error or `Debug` text.

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
