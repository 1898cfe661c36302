//! Chat model clients for the Deep Agents harness.
//!
//! * [`Registry`] makes models from names such as `anthropic:claude-sonnet-4-5` or `ollama:llama3:8b`
//! * [`Anthropic`] speaks the Messages API, [`OpenAiChat`] Chat Completions in the [`Dialect`] of many services
//! * [`scripted`] and [`recording`] are models without a network
//!
//! Clients write requests straight from the messages and replay what a provider said to the same provider unchanged.
//! They retry what is worth retrying, within [`RetryPolicy`], and never read the environment.

pub mod anthropic;
mod args;
pub mod catalogue;
mod client;
mod config;
mod decoded;
mod events;
mod extra;
mod http;
pub mod openai;
mod parts;
pub mod recording;
mod registry;
mod retry;
mod schema;
pub mod scripted;
mod window;

pub use anthropic::Anthropic;
pub use client::HttpModel;
pub use config::{ConfigError, ModelConfig, Timeouts};
pub use decoded::Decoded;
pub use http::ClientPool;
pub use openai::{Dialect, OpenAiChat};
pub use registry::{Provider, Registry, providers};
pub use retry::{RetryPolicy, SharedBackoff};
