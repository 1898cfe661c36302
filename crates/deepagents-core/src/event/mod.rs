//! The events of a run, and subscriptions to them.
//!
//! Sending an [`Event`] never waits, so a slow reader does not hold up the run. All subscribers of a run see the same
//! events in the same order. A lagging subscriber misses pieces of answers, marked by an [`EventKind::Lagged`], but
//! never a [durable](EventKind::is_durable) event.

mod from_log;
mod hub;
mod kind;
mod live;
mod middleware;
mod middleware_data;
mod stream;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::env::Timestamp;
use crate::ids::LogPosition;

pub(crate) use from_log::LogEvents;
pub(crate) use hub::EventHub;
pub use kind::EventKind;
pub use live::{OpenCall, PartialAnswer, PartialCall, RunSnapshot};
pub use middleware::MiddlewareEvent;
pub use middleware_data::{LimitScope, LoadedFile, LoopPattern, ReachedLimit, RedactedPlace};
pub use stream::{EventStream, Subscribe};

/// Version of the JSON form of [`Event`]. It is incremented when a field changes meaning or is removed, not when one is
/// added.
pub const EVENT_VERSION: u32 = 1;

/// An event of a run. In JSON it is one flat object:
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
    /// Sequence number of the event within its run, including sub-agents, starting at 0 without gaps. An
    /// [`EventKind::Lagged`] has the number of the last event it replaces.
    pub seq: u64,
    /// The run's id.
    pub run: Arc<str>,
    /// The agent's path: empty for the main agent, `["task:<call>"]` for a sub-agent.
    pub path: Arc<[String]>,
    /// When it happened, by the agent's clock; `time` in JSON. Missing in events of earlier versions, which are read as
    /// 1970.
    #[serde(rename = "time", default)]
    pub at: Timestamp,
    /// Which process works on the run: 0 for the first, incremented each time the run is resumed; `run_attempt` in
    /// JSON.
    #[serde(rename = "run_attempt", default)]
    pub attempt: u32,
    /// The position after the record that the event stems from, if the journal provides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<LogPosition>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}
