//! Chat model clients for the Deep Agents harness.
//!
//! * [`Registry`] creates models from names such as `anthropic:claude-sonnet-4-5` or `ollama:llama3:8b`
//! * [`OpenAiResponses`] implements the Responses API, [`Anthropic`] the Messages API (also on Vertex and Bedrock),
//!   [`Gemini`] Google's API (also on Vertex), [`Bedrock`] Amazon's Converse API, [`Ollama`] Ollama's own, and
//!   [`OpenAiChat`] Chat Completions in the [`Dialect`] of many services
//! * [`Credentials`] are API keys, tokens fetched on demand, or keys that sign requests
//! * [`scripted`] and [`recording`] provide models without a network
//!
//! Clients encode requests directly from the messages, and send a provider's own output back to that provider
//! unchanged. They retry failures that may be transient, within [`RetryPolicy`], and never read the environment.

pub mod anthropic;
mod args;
pub mod bedrock;
mod blocks;
mod body;
pub mod catalogue;
mod chain;
mod client;
mod config;
pub mod credentials;
mod decoded;
mod discovery;
mod events;
mod exact;
mod fallback;
pub mod gemini;
mod hedge;
mod hook;
mod http;
pub mod interactions;
mod json;
pub mod ollama;
pub mod openai;
pub mod recording;
mod registry;
pub mod responses;
mod retry;
mod schema;
pub mod scripted;
mod text_calls;
mod window;

pub use anthropic::Anthropic;
pub use bedrock::Bedrock;
pub use catalogue::Catalogue;
pub use client::HttpModel;
pub use config::{ConfigError, ModelConfig, Timeouts};
pub use credentials::Credentials;
pub use decoded::Decoded;
pub use discovery::{DiscoveryError, ServedModel, served_models};
pub use fallback::Fallback;
pub use gemini::Gemini;
pub use hedge::Hedged;
pub use hook::{Answered, Attempt, CallHook};
pub use http::{ClientPool, PostAnswer, http_client};
pub use interactions::Interactions;
pub use ollama::Ollama;
pub use openai::{Dialect, OpenAiChat};
pub use registry::{Provider, Registry, providers};
pub use responses::OpenAiResponses;
pub use retry::{RetryPolicy, SharedBackoff};
pub use text_calls::TextToolCalls;
