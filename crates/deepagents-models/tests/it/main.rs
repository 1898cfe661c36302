//! Tests of the public interface of the models.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]
#![allow(clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail the test")]
#![allow(clippy::disallowed_methods, reason = "tests look at real files and have servers")]

mod anthropic_answers;
mod anthropic_requests;
mod bedrock;
mod chat_answers;
mod chat_requests;
mod credentials;
mod ends;
mod fallback;
mod framing;
mod gemini;
mod hedge;
mod hooks;
mod hosts;
mod interactions;
mod names;
mod ollama;
mod other_models;
mod provider_errors;
mod provider_tools;
mod recording;
mod responses;
mod scripted;
mod server;
mod sizes;
mod text_calls;
mod token_count;
mod tolerance;
mod transport;
mod window;
mod wires;
mod written;
