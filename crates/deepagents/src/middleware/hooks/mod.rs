//! Hooks: commands and services that run at certain events and may prevent an action.
//!
//! A [`HookRunner`] runs the [`Hooks`] of files at twelve [events](HookEvent). The file format and protocol are those
//! of Claude Code: a hook receives a JSON object on stdin; exit code 2 blocks, with stderr as the reason; stdout may
//! contain a JSON answer ([`HookAnswer`]). All matching hooks run concurrently, each with limits on time and output,
//! and are killed together with the processes they have started.
//!
//! A broken hook (it cannot be run, exits with another code, times out, or gives an invalid answer) is reported with
//! [`MiddlewareEvent::Hook`](deepagents_core::event::MiddlewareEvent::Hook), and the run continues. If its file says
//! `"failClosed": true`, whatever it could have blocked does not happen.

mod answer;
mod command;
mod config;
mod event;
mod hook;
mod http;
mod lifecycle;
mod names;
mod runner;
mod sessions;
mod tools;
mod transcript;

use serde_json::Value;

pub use answer::{HookAnswer, HookPermission};
pub use command::HookRun;
pub use config::{Hooks, HooksError};
pub use event::HookEvent;
pub use hook::Hook;
pub use http::{HookRequest, HookResponse, HookSender};
pub use runner::HookRunner;

/// Adds fields to an object, replacing existing ones.
fn with_fields(mut object: Value, fields: Value) -> Value {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    object
}
