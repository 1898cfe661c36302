//! Commands, and services, that are asked at moments of a run, and may keep it from doing something.
//!
//! A [`HookRunner`] runs the [`Hooks`] of files at twelve [events](HookEvent). Files and wire are those of Claude Code: a
//! hook is given a JSON object on stdin; exit code 2 blocks, with what it says on stderr as the reason; on stdout it may
//! answer with JSON ([`HookAnswer`]). All that match run at once, each bounded in time and output, and killed with all it
//! has started.
//!
//! A hook that is broken (it cannot be run, ends otherwise, takes too long, says something that cannot be read) is told in
//! [`MiddlewareEvent::Hook`](deepagents_core::event::MiddlewareEvent::Hook), and the run goes on, unless its file says
//! `"failClosed": true`: what it could have blocked does not happen then.

mod answer;
mod command;
mod config;
mod event;
mod http;
mod lifecycle;
mod names;
mod runner;
mod tools;

use serde_json::Value;

pub use answer::{HookAnswer, HookPermission};
pub use command::HookRun;
pub use config::{Hook, Hooks, HooksError};
pub use event::HookEvent;
pub use http::{HookRequest, HookResponse, HookSender};
pub use runner::HookRunner;

/// An object with more fields, which take the place of those that it has.
fn with_fields(mut object: Value, fields: Value) -> Value {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    object
}
