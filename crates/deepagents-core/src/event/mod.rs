//! What happens during a run, as it happens, and how any number of readers follow it.
//!
//! An [`Event`] is given out without waiting: a run never stands still because somebody does not read. Every
//! subscriber of a run sees the same events in the same order. One that falls behind misses pieces of answers, where an
//! [`EventKind::Lagged`] stands, and never a [durable](EventKind::is_durable) event.

mod from_log;
mod hub;
mod kind;
mod live;
mod log;
mod middleware;
mod stream;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::env::Timestamp;
use crate::ids::LogPosition;

pub(crate) use from_log::LogEvents;
pub(crate) use hub::EventHub;
pub use kind::EventKind;
pub use live::{OpenCall, PartialAnswer, PartialCall, RunSnapshot};
pub use middleware::{LimitScope, LoadedFile, LoopPattern, MiddlewareEvent, ReachedLimit, RedactedPlace};
pub use stream::{EventStream, Subscribe};

/// Version of the JSON form of [`Event`]. It grows when a field changes its meaning or goes away, not when one is added.
pub const EVENT_VERSION: u32 = 1;

/// Something that happened. As JSON it is one flat object:
/// `{"v":1,"seq":7,"run":"run_1","path":[],"time":"2026-11-22T16:04:18Z","run_attempt":0,"type":"text_delta","turn":0,"attempt":0,"text":"Hel"}`.
///
/// ```
/// use deepagents_core::event::{Event, EventKind};
/// let line = r#"{"v":1,"seq":4,"run":"run_1","path":[],"type":"text_delta","turn":0,"attempt":0,"text":"Hel"}"#;
/// let event: Event = serde_json::from_str(line)?;
/// assert!(matches!(event.kind, EventKind::TextDelta { text, .. } if text == "Hel"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// [`EVENT_VERSION`].
    pub v: u32,
    /// Counts the events of a run from 0, sub-agents included, without gaps. That of an [`EventKind::Lagged`] is the
    /// number of the last event it stands for.
    pub seq: u64,
    /// The run.
    pub run: Arc<str>,
    /// The agent: empty for the main one, `["task:<call>"]` for a sub-agent.
    pub path: Arc<[String]>,
    /// When it happened, by the agent's clock; `time` in JSON. Events of earlier versions have none and are read as of 1970.
    #[serde(rename = "time", default)]
    pub at: Timestamp,
    /// Which process works on the run: 0 for the first, counted up when the run is resumed; `run_attempt` in JSON.
    #[serde(rename = "run_attempt", default)]
    pub attempt: u32,
    /// The position after the record that it stems from, where the journal tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<LogPosition>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}
