//! Selection of the results to clear, and their replacements.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deepagents_core::message::{Block, Message, Messages, ToolMessage};
use deepagents_fs::VPath;
use serde_json::json;

use super::ContextEdits;
use super::size::weight;
use crate::channels::{ShownPart, file_reference};

/// The files of results by call id.
pub(super) type Stored = BTreeMap<String, Vec<VPath>>;

/// Returns the results that can be cleared, the oldest first, each with the tokens saved. Skips those before the part
/// that is still sent.
pub(super) fn candidates<'a>(
    messages: &'a Messages,
    shown: ShownPart,
    cleared: &'a BTreeSet<String>,
    edits: &'a ContextEdits,
    stored: &'a Stored,
) -> impl Iterator<Item = (&'a str, u64)> {
    let results: Vec<&ToolMessage> = messages.tail(shown.from).filter_map(|message| message.as_tool()).collect();
    let old = results.len().saturating_sub(edits.keep);
    let open = |result: &&ToolMessage| {
        !result.id.is_empty() && !cleared.contains(&result.id) && !edits.exclude.contains(&result.name)
    };
    results.into_iter().take(old).filter(open).filter_map(|result| {
        let saved = weight(&result.content).saturating_sub(weight(&[Block::text(line(result, stored))]));
        (saved > 0).then_some((result.id.as_str(), saved))
    })
}

/// Returns the text that replaces a result. The file is only taken from the stored paths, because anybody may have
/// written the text of the result.
fn line(result: &ToolMessage, stored: &Stored) -> String {
    let paths = stored.get(&result.call_id);
    let text = result.content.iter().find_map(Block::as_text).unwrap_or_default();
    match paths.and_then(|paths| paths.iter().find(|path| text.contains(&file_reference(path)))) {
        Some(path) => format!("[cleared to save room; the whole result is in {path}]"),
        None => "[cleared to save room; make the call again if you need its result]".to_owned(),
    }
}

/// Returns a result with its content replaced by that text.
pub(super) fn without_result(result: &ToolMessage, stored: &Stored) -> Arc<Message> {
    Arc::new(Message::Tool(ToolMessage {
        id: result.id.clone(),
        call_id: result.call_id.clone(),
        name: result.name.clone(),
        content: vec![Block::text(line(result, stored))],
        is_error: result.is_error,
        is_synthetic: result.is_synthetic,
        artifact: None,
    }))
}

/// Removes the arguments of calls whose results are cleared. Call ids may repeat: a result belongs to the last call
/// before it.
pub(super) fn clear_inputs(messages: &mut Messages, calls: &BTreeMap<String, BTreeSet<String>>) {
    let mut answer = None;
    let mut owners: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (at, message) in messages.iter().enumerate() {
        match &**message {
            Message::Assistant(_) => answer = Some(at),
            Message::Tool(result) if calls.get(&result.call_id).is_some_and(|ids| ids.contains(&result.id)) => {
                if let Some(answer) = answer {
                    owners.entry(answer).or_default().insert(result.call_id.clone());
                }
            }
            _ => {}
        }
    }
    for (at, ids) in owners {
        if let Some(answer) = without_inputs(messages, at, &ids) {
            messages.put(answer);
        }
    }
}

/// Returns the answer at a position without the arguments of these calls. One without an id cannot be replaced.
fn without_inputs(messages: &Messages, at: usize, ids: &BTreeSet<String>) -> Option<Arc<Message>> {
    let mut answer = messages.get(at)?.as_assistant().filter(|answer| !answer.id.is_empty())?.clone();
    for block in &mut answer.content {
        if let Block::ToolCall(call) = block
            && ids.contains(&call.id)
        {
            (call.args, call.native) = (json!({}), None);
        }
    }
    Some(Arc::new(Message::Assistant(answer)))
}
