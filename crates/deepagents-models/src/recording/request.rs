//! Requests, stored as deltas and compared by digest.

use std::sync::Arc;

use deepagents_core::model::ModelRequest;
use serde_json::{Map, Value, json};

use super::{Difference, first_difference};
use crate::body::{FNV_OFFSET, fnv1a};
use crate::json::is_empty;

/// What a model sees of a request, as JSON, without parts that no model sees, such as message IDs. Requests that start
/// with the same messages share them.
#[derive(Clone, Debug)]
pub struct Request {
    /// Everything but the messages.
    fields: Arc<Map<String, Value>>,
    messages: Vec<Arc<Hashed>>,
    digest: String,
}

#[derive(Debug, PartialEq)]
struct Hashed {
    hash: String,
    value: Value,
}

impl Hashed {
    fn new(value: Value) -> Arc<Self> {
        Arc::new(Self { hash: fingerprint(&value), value })
    }
}

impl From<&ModelRequest> for Request {
    fn from(request: &ModelRequest) -> Self {
        let mut value = json!({
            "system": request.system,
            "messages": request.messages,
            "tools": request.tools,
            "provider_tools": request.provider_tools,
            "tool_choice": request.tool_choice,
            "parallel_tool_calls": request.parallel_tool_calls,
            "output_schema": request.output_schema,
            "settings": request.settings,
            "cache": request.cache,
        });
        if let Some(settings) = value.get_mut("settings").and_then(Value::as_object_mut) {
            settings.shift_remove("timeout");
        }
        for message in value.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(message) = message.as_object_mut() {
                message.retain(|name, _| !matches!(name.as_str(), "id" | "usage" | "artifact" | "is_synthetic"));
            }
        }
        Self::from_json(value)
    }
}

impl Request {
    /// Reads a request that was recorded as a whole.
    pub(super) fn from_json(mut request: Value) -> Self {
        let mut fields = request.as_object_mut().map(std::mem::take).unwrap_or_default();
        let messages = match fields.shift_remove("messages") {
            Some(Value::Array(messages)) => messages.into_iter().map(Hashed::new).collect(),
            _ => Vec::new(),
        };
        // Omit unset options, so that an option added to this program makes no difference unless it is used.
        for group in ["settings", "cache"] {
            if let Some(Value::Object(options)) = fields.get_mut(group) {
                options.retain(|_, value| !is_empty(value));
            }
        }
        fields.retain(|_, value| !is_empty(value));
        Self::new(Arc::new(fields), messages)
    }

    fn new(fields: Arc<Map<String, Value>>, messages: Vec<Arc<Hashed>>) -> Self {
        let hashes = messages.iter().map(|message| Value::from(message.hash.as_str())).collect();
        let digest = fingerprint(&Value::Array(vec![fingerprint(&Value::Object((*fields).clone())).into(), hashes]));
        Self { fields, messages, digest }
    }

    /// Returns the digest that identifies equal requests, 16 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the difference from the previous request: the number of equal messages, the messages after those, and
    /// the other changed fields, with null for removed ones.
    pub(super) fn after(&self, before: Option<&Self>) -> (usize, Vec<Value>, Map<String, Value>) {
        let same = before.map_or(0, |before| self.shared_messages(before));
        let messages = self.messages.iter().skip(same).map(|message| message.value.clone()).collect();
        let mut changed = (*self.fields).clone();
        if let Some(before) = before {
            changed.retain(|name, value| before.fields.get(name) != Some(value));
            let gone = before.fields.keys().filter(|name| !self.fields.contains_key(*name));
            changed.extend(gone.map(|name| (name.clone(), Value::Null)));
        }
        (same, messages, changed)
    }

    /// Applies a difference to the previous request; `None` if that has fewer messages than required.
    pub(super) fn from_delta(
        before: Option<&Self>,
        kept: usize,
        messages: Vec<Value>,
        changed: Map<String, Value>,
    ) -> Option<Self> {
        let mut all = before.map(|before| before.messages.as_slice()).unwrap_or_default().get(..kept)?.to_vec();
        all.extend(messages.into_iter().map(Hashed::new));
        let mut fields = before.map(|before| before.fields.clone()).unwrap_or_default();
        if !changed.is_empty() {
            let fields = Arc::make_mut(&mut fields);
            fields.extend(changed);
            fields.retain(|_, value| !value.is_null());
        }
        Some(Self::new(fields, all))
    }

    /// Returns the first difference from another request.
    pub(super) fn difference(&self, other: &Self) -> Option<Difference> {
        first_difference(&self.to_value(), &other.to_value())
    }

    /// Returns the number of messages that both start with.
    pub(super) fn shared_messages(&self, other: &Self) -> usize {
        self.messages.iter().zip(&other.messages).take_while(|(a, b)| Arc::ptr_eq(a, b) || a == b).count()
    }

    fn to_value(&self) -> Value {
        let mut fields = (*self.fields).clone();
        fields.insert("messages".to_owned(), self.messages.iter().map(|message| message.value.clone()).collect());
        Value::Object(fields)
    }
}

/// Returns the hash of a value as 16 hexadecimal digits (FNV-1a over the value with sorted keys). It is the same on
/// every machine and in every release.
pub(super) fn fingerprint(value: &Value) -> String {
    format!("{:016x}", hash_value(FNV_OFFSET, value))
}

fn hash_value(hash: u64, value: &Value) -> u64 {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            let hash = fields.into_iter().fold(fnv1a(hash, "{"), |hash, (key, value)| {
                hash_value(hash_value(hash, &Value::from(key.as_str())), value)
            });
            fnv1a(hash, "}")
        }
        Value::Array(items) => fnv1a(items.iter().fold(fnv1a(hash, "["), hash_value), "]"),
        other => fnv1a(hash, &format!("{other},")),
    }
}
