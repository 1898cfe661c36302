//! Interrupts and their responses.

use std::collections::BTreeMap;

use deepagents_core::interrupt::{ActionRequests, Decision, Interrupt};
use deepagents_core::state::State;
use deepagents_core::tool::CallId;
use serde_json::{Value, json};

use crate::ids;
use crate::json::set;

/// A pending interrupt of a thread, as clients see it.
pub(crate) struct OpenInterrupt {
    pub(crate) id: String,
    pub(crate) task: String,
    /// The path of the interrupted agent.
    pub(crate) path: Vec<String>,
    pub(crate) value: Value,
    inner: Interrupt,
}

impl OpenInterrupt {
    /// Returns `{"id","value"}`.
    pub(crate) fn to_json(&self) -> Value {
        json!({"id": self.id, "value": self.value})
    }

    /// Whether a call waits for this interrupt: it is one of the calls under review, or it runs the interrupted agent.
    pub(crate) fn waits_in(&self, call: &CallId) -> bool {
        self.path.starts_with(&call.child_path("task"))
            || self.inner.action_requests.iter().any(|question| question.call == *call)
    }
}

/// Returns the pending interrupts of a thread.
pub(crate) fn open_interrupts(thread: &str, state: &State) -> Vec<OpenInterrupt> {
    let asked = state.get::<ActionRequests>().into_iter().flat_map(BTreeMap::values);
    let open = asked.filter(|review| review.decision.is_none()).map(|review| review.request.clone()).collect();
    let one = |inner: Interrupt| {
        let first = inner.action_requests.first();
        let name = first.map(|question| format!("{}{}", question.id, question.asked_at)).unwrap_or_default();
        OpenInterrupt {
            id: ids::derived(&[thread, &name]).simple().to_string(),
            task: ids::derived(&[thread, &name, "task"]).to_string(),
            path: first.map(|question| question.call.path.clone()).unwrap_or_default(),
            value: value(&inner),
            inner,
        }
    };
    Interrupt::group(open).into_iter().map(one).collect()
}

/// Serialises an interrupt. Some front ends find the configuration of a review by `actionName`.
fn value(inner: &Interrupt) -> Value {
    let mut value = inner.to_json();
    for config in value.get_mut("review_configs").and_then(Value::as_array_mut).into_iter().flatten() {
        for (name, other) in [("action_name", "actionName"), ("allowed_decisions", "allowedDecisions")] {
            let same = config.get(name).cloned();
            set(config, other, same);
        }
    }
    value
}

/// Parses a client's response: `{"decisions": […]}` for the only interrupt or for all in order, or an object that maps
/// interrupt ids to such objects.
pub(crate) fn read_resume(open: &[OpenInterrupt], resume: &Value) -> Result<Vec<(String, Decision)>, String> {
    if open.is_empty() {
        return Err("nothing is waiting for an answer".to_owned());
    }
    let by_id = resume
        .as_object()
        .filter(|given| !given.is_empty() && given.keys().all(|key| open.iter().any(|interrupt| interrupt.id == *key)));
    if let Some(given) = by_id {
        let mut answers = Vec::new();
        for interrupt in open {
            if let Some(value) = given.get(&interrupt.id) {
                let decisions = interrupt.inner.decisions(decisions(value)?);
                answers.extend(decisions.map_err(|error| error.to_string())?);
            }
        }
        return Ok(answers);
    }
    let mut given = decisions(resume)?.into_iter();
    let wanted: usize = open.iter().map(|interrupt| interrupt.inner.action_requests.len()).sum();
    if given.len() != wanted {
        return Err(format!("{} decisions were given, but {wanted} calls are waiting", given.len()));
    }
    let mut answers = Vec::new();
    for interrupt in open {
        let own = given.by_ref().take(interrupt.inner.action_requests.len()).collect();
        answers.extend(interrupt.inner.decisions(own).map_err(|error| error.to_string())?);
    }
    Ok(answers)
}

fn decisions(value: &Value) -> Result<Vec<Value>, String> {
    match value.get("decisions").unwrap_or(value) {
        Value::Array(list) => Ok(list.clone()),
        Value::Object(one) if one.contains_key("type") => Ok(vec![Value::Object(one.clone())]),
        _ => Err("an answer must be {\"decisions\": [{\"type\": \"approve\"}, …]}".to_owned()),
    }
}
