//! Streaming of runs: one event log per run, written in the format that each client reads.

mod answer;
mod checkpoint;
mod event;
mod feed;
mod log;
mod metadata;
mod past;
mod projector;
mod runnable;
mod sse;
mod task;
mod thread;
mod v1;
mod whole;

pub(crate) use checkpoint::At;
pub(crate) use event::{AgentInfo, Delta, EventId, Kind, OpenBlock, RunEnd, RunIdentity, StreamEvent};
pub(crate) use feed::Feed;
pub(crate) use log::{EventCursor, EventLog, Final};
pub(crate) use past::{end, past};
pub(crate) use projector::Projector;
pub(crate) use sse::{From, HEARTBEAT_COMMENT, HEARTBEAT_INTERVAL, Leaving, Reader, STREAM_HEADERS};
pub(crate) use thread::{StateUpdate, ThreadStreamMode, all_runs};
pub(crate) use v1::Writer;
