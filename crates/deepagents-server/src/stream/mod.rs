//! What of a run is streamed to clients.

mod log;
mod projector;
mod sse;

pub(crate) use log::PartLog;
pub(crate) use projector::Projector;
pub(crate) use sse::{Leaving, body};
