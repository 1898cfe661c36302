//! Requests: written by what is new in them, compared by their digests.

use std::collections::HashMap;
use std::sync::Arc;

use deepagents_core::model::ModelRequest;
use deepagents_models::record::{Difference, fingerprint, first_difference, request_json};
use serde_json::{Map, Value};

use super::line::Delta;

/// The last request of each agent, those beside the conversation apart.
pub(super) type LastRequests = HashMap<(Vec<String>, bool), Request>;

/// What a model is shown. Requests of one agent share what they have in common.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// All but the messages.
    fields: Arc<Map<String, Value>>,
    messages: Vec<Arc<Part>>,
}

#[derive(Debug)]
struct Part {
    value: Value,
    print: String,
}

impl Part {
    fn new(value: Value) -> Arc<Self> {
        Arc::new(Self { print: fingerprint(&value), value })
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

impl Request {
    pub(super) fn of(request: &ModelRequest) -> Self {
        let mut fields = match request_json(request) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let messages = match fields.shift_remove("messages") {
            Some(Value::Array(messages)) => messages.into_iter().map(Part::new).collect(),
            _ => Vec::new(),
        };
        // What is not set is left out, so that an option that is new to this program makes no difference unless it is used.
        for group in ["settings", "cache"] {
            if let Some(Value::Object(options)) = fields.get_mut(group) {
                options.retain(|_, value| is_set(value));
            }
        }
        fields.retain(|_, value| is_set(value));
        Self { fields: Arc::new(fields), messages }
    }

    /// Says with 16 hexadecimal digits whether two requests are the same.
    pub(super) fn digest(&self) -> String {
        let prints = self.messages.iter().map(|part| Value::from(part.print.as_str())).collect();
        fingerprint(&Value::Array(vec![fingerprint(&Value::Object((*self.fields).clone())).into(), prints]))
    }

    /// What it has that the one before did not.
    pub(super) fn after(&self, before: Option<&Self>) -> Delta {
        let known = before.map(|before| before.messages.as_slice()).unwrap_or_default();
        let kept =
            self.messages.iter().zip(known).take_while(|(a, b)| a.print == b.print && a.value == b.value).count();
        let changed = |(name, value): &(&String, &Value)| before.and_then(|b| b.fields.get(*name)) != Some(value);
        let gone =
            before.into_iter().flat_map(|before| before.fields.keys()).filter(|name| !self.fields.contains_key(*name));
        Delta {
            kept,
            messages: self.messages.iter().skip(kept).map(|part| part.value.clone()).collect(),
            fields: self
                .fields
                .iter()
                .filter(changed)
                .map(|(name, value)| (name.clone(), value.clone()))
                .chain(gone.map(|name| (name.clone(), Value::Null)))
                .collect(),
        }
    }

    /// The request that has this in addition to the one before; nothing where that one is shorter than it must be.
    pub(super) fn from_delta(delta: Delta, before: Option<&Self>) -> Option<Self> {
        let known = before.map(|before| before.messages.as_slice()).unwrap_or_default();
        let mut messages = known.get(..delta.kept)?.to_vec();
        messages.extend(delta.messages.into_iter().map(Part::new));
        let fields = match before {
            Some(before) if delta.fields.is_empty() => before.fields.clone(),
            _ => {
                let mut fields = before.map(|before| (*before.fields).clone()).unwrap_or_default();
                fields.extend(delta.fields);
                fields.retain(|_, value| !value.is_null());
                Arc::new(fields)
            }
        };
        Some(Self { fields, messages })
    }

    /// Where another request differs.
    pub(super) fn difference(&self, other: &Self) -> Option<Difference> {
        first_difference(&self.to_value(), &other.to_value())
    }

    /// With how many messages both begin.
    pub(super) fn shared_with(&self, other: &Self) -> usize {
        self.messages.iter().zip(&other.messages).take_while(|(a, b)| a.print == b.print).count()
    }

    fn to_value(&self) -> Value {
        let mut fields = (*self.fields).clone();
        fields.insert("messages".to_owned(), self.messages.iter().map(|part| part.value.clone()).collect());
        Value::Object(fields)
    }
}
