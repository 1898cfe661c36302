//! The expected states of the corpus threads. Each part of a state is stored once, by its hash.

use std::collections::BTreeMap;
use std::path::Path;

use deepagents::{DeepAgent, Journal, State};
use deepagents_core::journal::LogPosition;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Longer texts are represented by their hash.
const LONG: usize = 2_000;

/// The file `expected.json`.
pub(super) struct Expected(Value);

impl Expected {
    pub(super) fn read(corpus: &Path) -> Self {
        Self(serde_json::from_slice(&std::fs::read(corpus.join("expected.json")).unwrap()).unwrap())
    }

    /// Builds the content of the file.
    pub(super) fn new(threads: Vec<(&str, Value)>, items: &Value) -> Self {
        let mut parts = BTreeMap::new();
        let threads = threads.into_iter().map(|(name, mut thread)| {
            for checkpoint in thread["checkpoints"].as_array_mut().unwrap() {
                checkpoint["state"] = fold(checkpoint["state"].take(), &mut parts);
            }
            (name.to_owned(), thread)
        });
        let threads: Map<String, Value> = threads.collect();
        Self(json!({"threads": threads, "items": items, "parts": parts}))
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap()
    }

    pub(super) fn threads(&self) -> Vec<&str> {
        self.0["threads"].as_object().unwrap().keys().map(String::as_str).collect()
    }

    pub(super) fn items(&self) -> Value {
        self.0["items"].clone()
    }

    /// The positions of a thread that have a state, with the states.
    pub(super) fn states(&self, thread: &str) -> Vec<(LogPosition, Value)> {
        let checkpoints = self.0["threads"][thread]["checkpoints"].as_array().unwrap();
        let state = |checkpoint: &Value| {
            (checkpoint["position"].as_u64().unwrap(), unfold(&checkpoint["state"], &self.0["parts"]))
        };
        checkpoints.iter().map(state).collect()
    }

    pub(super) fn assert_thread(&self, name: &str, found: &Value) {
        let wanted = &self.0["threads"][name];
        for field in ["status", "end", "metadata", "expires_at"] {
            assert_eq!(found[field], wanted[field], "{field} of {name}");
        }
        let checkpoints = found["checkpoints"].as_array().unwrap();
        assert_eq!(checkpoints.len(), wanted["checkpoints"].as_array().unwrap().len(), "checkpoints of {name}");
        let all = checkpoints.iter().zip(wanted["checkpoints"].as_array().unwrap()).zip(self.states(name));
        for ((found, wanted), (position, state)) in all {
            for field in ["position", "parent", "origin", "run", "at"] {
                assert_eq!(found[field], wanted[field], "{field} of {name} at {position}");
            }
            assert_eq!(without_later_channels(&found["state"], &state), state, "{name} at {position}");
        }
    }
}

/// A state without the empty channels that were added later.
pub(super) fn without_later_channels(found: &Value, wanted: &Value) -> Value {
    let mut found = found.clone();
    let empty = |value: &Value| [Value::Null, json!(0), json!([]), json!({})].contains(value);
    found.as_object_mut().unwrap().retain(|channel, value| wanted.get(channel).is_some() || !empty(value));
    found
}

/// Everything known about a thread, with its states at all checkpoints and at the end.
pub(super) async fn thread(journal: &dyn Journal, agent: &DeepAgent, thread: &str) -> Value {
    let info = journal.threads().get(thread).await.unwrap().unwrap();
    let mut checkpoints = Vec::new();
    for checkpoint in agent.history(thread, None, usize::MAX).await.unwrap() {
        // After pruning, the earliest checkpoints have no state.
        let Ok(state) = agent.state_at(thread, checkpoint.position).await else { continue };
        checkpoints.push(json!({
            "position": checkpoint.position,
            "parent": checkpoint.parent,
            "origin": checkpoint.origin,
            "run": checkpoint.run,
            "at": checkpoint.at.to_string(),
            "state": state_json(&state),
        }));
    }
    checkpoints.reverse();
    let state = agent.state(thread).await.unwrap();
    checkpoints.push(json!({"position": info.end, "origin": "end", "state": state_json(&state)}));
    json!({
        "status": info.status,
        "end": info.end,
        "metadata": info.metadata,
        "expires_at": info.expires_at.map(|at| at.to_string()),
        "checkpoints": checkpoints,
    })
}

/// A state as JSON, with private channels, and long texts replaced by their hash.
pub(super) fn state_json(state: &State) -> Value {
    fn shorten(value: &mut Value) {
        match value {
            Value::String(text) if text.len() > LONG => *text = format!("{} bytes, {}", text.len(), hash(text)),
            Value::Array(items) => items.iter_mut().for_each(shorten),
            Value::Object(fields) => fields.values_mut().for_each(shorten),
            _ => {}
        }
    }
    let mut state = Value::Object(state.to_json(true).unwrap());
    shorten(&mut state);
    state
}

/// Replaces the channel values of a state, and the items of their lists, by hashes.
fn fold(state: Value, parts: &mut BTreeMap<String, Value>) -> Value {
    let mut part = |value: Value| {
        let hash = hash(&value.to_string());
        parts.insert(hash.clone(), value);
        Value::String(hash)
    };
    let Value::Object(channels) = state else { panic!("a state is an object") };
    let channels = channels.into_iter().map(|(name, value)| {
        let value = match value {
            Value::Array(items) => items.into_iter().map(&mut part).collect(),
            value => part(value),
        };
        (name, value)
    });
    channels.collect::<Map<_, _>>().into()
}

fn unfold(state: &Value, parts: &Value) -> Value {
    let part = |hash: &Value| parts[hash.as_str().unwrap()].clone();
    let channels = state.as_object().unwrap().iter().map(|(name, value)| {
        let value = match value {
            Value::Array(items) => items.iter().map(part).collect(),
            hash => part(hash),
        };
        (name.clone(), value)
    });
    channels.collect::<Map<_, _>>().into()
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
