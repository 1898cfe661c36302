//! The events in the stream of a run.

use deepagents_core::agent::ChildEvent;
use serde_json::Value;

use crate::agent::WorkError;
use crate::http::cut;
use crate::progress::{Place, Progress, reasoning_of, text_of};

/// The maximum depth below the remote agent at which events are forwarded; deeper ones appear at this depth.
const MAX_DEPTH: usize = 16;

/// Forwards the events of a stream.
pub(super) struct Events<'p, 'a> {
    progress: &'p mut Progress<'a>,
    /// The error with which the run ended, if the stream reported one.
    pub(super) error: Option<String>,
}

impl<'p, 'a> Events<'p, 'a> {
    pub(super) fn new(progress: &'p mut Progress<'a>) -> Self {
        Self { progress, error: None }
    }

    /// Handles an event: its name, followed by a sub-agent's namespace separated by bars, and its data. Unreadable
    /// events and unknown kinds are ignored.
    pub(super) async fn take(&mut self, name: &str, data: &str) -> Result<(), WorkError> {
        let Ok(data) = serde_json::from_str::<Value>(data) else { return Ok(()) };
        let mut parts = name.split('|');
        let kind = parts.next().unwrap_or_default();
        let path: Vec<String> = parts.take(MAX_DEPTH).map(str::to_owned).collect();
        match kind {
            "messages" => self.piece(&path, &data)?,
            "updates" => self.update(&path, &data).await?,
            "custom" => self.progress.custom(place(&path, None), "custom", data),
            "error" => self.error = error_text(&data).or_else(|| Some("no reason is given".to_owned())),
            _ => {}
        }
        Ok(())
    }

    /// Handles a piece of an answer with its metadata.
    fn piece(&mut self, path: &[String], data: &Value) -> Result<(), WorkError> {
        let Some(chunk) = data.get(0) else { return Ok(()) };
        let field = |key: &str| chunk.get(key).and_then(Value::as_str).unwrap_or_default();
        let (id, kind) = (field("id"), field("type"));
        if id.is_empty() || !matches!(kind, "AIMessageChunk" | "ai") {
            return Ok(());
        }
        let place = place(path, data.get(1));
        let (reasoning, text) = (reasoning_of(chunk), text_of(chunk));
        if !reasoning.is_empty() {
            self.progress.forward_chunk(place, id, ChildEvent::Reasoning(reasoning))?;
        }
        if !text.is_empty() {
            self.progress.forward_chunk(place, id, ChildEvent::Text(text))?;
        }
        Ok(())
    }

    /// Handles the updates of a step, by node. The messages in them are complete.
    async fn update(&mut self, path: &[String], data: &Value) -> Result<(), WorkError> {
        let nodes = data.as_object().into_iter().flatten().filter(|(node, _)| !node.starts_with("__"));
        for (_, delta) in nodes {
            for message in each(delta).iter().filter_map(|delta| delta.get("messages")).flat_map(each) {
                let name = message.get("name").and_then(Value::as_str);
                let name = name.filter(|_| message.get("type").is_none_or(|kind| kind != "tool"));
                self.progress.message(Place { path, name: named(path, name) }, message).await?;
            }
        }
        Ok(())
    }
}

/// Returns the elements of a list, or a single value.
fn each(value: &Value) -> &[Value] {
    value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice)
}

fn place<'a>(path: &'a [String], metadata: Option<&'a Value>) -> Place<'a> {
    let name = metadata.and_then(|metadata| metadata.get("lc_agent_name")?.as_str());
    Place { path, name: named(path, name) }
}

fn named<'a>(path: &'a [String], name: Option<&'a str>) -> &'a str {
    name.or_else(|| path.last().map(String::as_str)).unwrap_or_default()
}

/// Returns the text of an error: `{"error", "message"}`, or a string.
pub(super) fn error_text(error: &Value) -> Option<String> {
    let text = |key: &str| error.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (text("error"), text("message")) {
        (_, Some(message)) => Some(cut(message)),
        (Some(kind), None) => Some(cut(kind)),
        (None, None) => error.as_str().map(cut),
    }
}
