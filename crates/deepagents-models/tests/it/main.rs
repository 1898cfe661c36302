//! Behaviour of the models through their public interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod record;
mod scripted;
