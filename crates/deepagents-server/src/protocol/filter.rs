//! Subscriptions: which events of a thread a client wants.

use deepagents_core::journal::LogPosition;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::encode::{CHANNELS, CUSTOM};
use crate::deserialize::from_ref;
use crate::error::{ApiError, Result};
use crate::stream::EventId;

/// The body of a subscription request.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Subscription {
    channels: Vec<String>,
    /// Only agents at or below one of these.
    #[serde(default, deserialize_with = "readable")]
    namespaces: Option<Vec<Vec<String>>>,
    /// At most this many levels below.
    #[serde(default, deserialize_with = "readable")]
    depth: Option<usize>,
    /// Only events after the one with this number.
    #[serde(default, deserialize_with = "readable")]
    pub(super) since: Option<u64>,
}

/// Deserialises a filter, ignoring one that is invalid: clients then expect all events.
fn readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

impl Subscription {
    pub(super) fn read(value: &Value) -> Result<Self> {
        let read: Result<Self, _> = from_ref(value);
        let read = read.map_err(|error| ApiError::bad_request(format!("The subscription cannot be read: {error}")))?;
        let unknown = read.channels.iter().find(|channel| {
            let named = channel.strip_prefix("custom:").is_some_and(|name| !name.is_empty());
            !named && !CHANNELS.contains(&channel.as_str())
        });
        match unknown {
            Some(channel) => Err(ApiError::bad_request(format!(
                "`{channel}` is not a channel; the channels are {} and custom:NAME",
                CHANNELS.join(", ")
            ))),
            None if read.channels.is_empty() => Err(ApiError::bad_request("a subscription needs a channel")),
            None => Ok(read),
        }
    }

    /// Returns the log position to read from, or `None` if the buffered events suffice.
    pub(super) fn position(&self) -> Option<LogPosition> {
        self.since.filter(|since| *since > 0).map(EventId::position_of)
    }

    /// Whether the subscription includes events of this channel and agent.
    pub(super) fn includes(&self, channel: &str, custom: Option<&str>, namespace: &[String]) -> bool {
        let named =
            |wanted: &str| channel == CUSTOM && wanted.strip_prefix("custom:").is_some_and(|name| Some(name) == custom);
        self.channels.iter().any(|wanted| wanted == channel || named(wanted)) && self.includes_agent(namespace)
    }

    fn includes_agent(&self, namespace: &[String]) -> bool {
        let Some(prefixes) = self.namespaces.as_ref().filter(|prefixes| !prefixes.is_empty()) else { return true };
        prefixes.iter().any(|prefix| {
            let begins = prefix.len() <= namespace.len() && prefix.iter().zip(namespace).all(|(a, b)| fits(a, b));
            begins && self.depth.is_none_or(|depth| namespace.len() - prefix.len() <= depth)
        })
    }
}

/// Whether a namespace segment matches. A name without an id matches all segments with that name.
fn fits(wanted: &str, part: &str) -> bool {
    wanted == part || (!wanted.contains(':') && part.split(':').next() == Some(wanted))
}
