//! Behaviour of the models through their public interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]
#![allow(clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail the test")]

mod anthropic_answers;
mod anthropic_requests;
mod chat_answers;
mod chat_requests;
mod names;
mod record;
mod scripted;
mod server;
mod transport;
mod written;
