//! The calls of a turn in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::CallId;
use crate::message::{Message, MessageOp, ToolMessage, pending};
use crate::state::{ChannelError, State, Update};

/// A turn of calls in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    /// Calls that started and have no result.
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) in_doubt: BTreeMap<CallId, (String, String, bool)>,
    /// Output of the calls that were abandoned.
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) outputs: BTreeMap<CallId, String>,
    /// Results that are not yet part of the conversation, and the messages that the tools added.
    #[serde(default, with = "pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) finished: BTreeMap<CallId, (Arc<ToolMessage>, Vec<MessageOp>)>,
    /// Channels that finished calls have changed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) changed: BTreeSet<String>,
}

/// Combines the results of a turn into one update: first all results, then the messages that the tools added.
pub(crate) fn committed(results: impl IntoIterator<Item = (Arc<ToolMessage>, Vec<MessageOp>)>) -> Update {
    let mut ops = Vec::new();
    let mut added = Vec::new();
    for (message, more) in results {
        ops.push(MessageOp::put(Message::Tool((*message).clone())));
        added.extend(more);
    }
    ops.extend(added);
    Update::messages(ops)
}

/// Adds the results of an incomplete turn to a state, and returns the messages that belong after results which are
/// still missing.
pub(crate) fn settle(
    state: &mut State,
    finished: BTreeMap<CallId, (Arc<ToolMessage>, Vec<MessageOp>)>,
) -> Result<Vec<MessageOp>, ChannelError> {
    let mut late = Vec::new();
    let results = finished.into_values().map(|(message, added)| {
        late.extend(added);
        (message, Vec::new())
    });
    state.apply(&committed(results))?;
    if !late.is_empty() && pending(state.messages()).is_empty() {
        state.apply(&Update::messages(std::mem::take(&mut late)))?;
    }
    Ok(late)
}

/// Serialises maps with keys that are not strings as lists of pairs.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map.iter())
    }

    pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
