//! The repair itself: one pass over the history.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Block, Message, Messages, ToolMessage};

use super::ids;

/// The repaired history, if it needs repair.
pub(super) fn repair(messages: &Messages) -> Option<Vec<Arc<Message>>> {
    let mut late = results_by_id(messages);
    let mut out: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    let mut changed = false;
    let mut kept: HashSet<usize> = HashSet::new();
    let list: Vec<&Arc<Message>> = messages.iter().collect();
    for (at, message) in list.iter().enumerate() {
        match &***message {
            Message::Tool(_) if kept.contains(&at) => {}
            Message::Tool(_) => changed = true,
            Message::Assistant(answer) => {
                let renamed = rename(answer);
                changed |= renamed.is_some();
                let new_ids: Vec<String> = renamed.as_ref().unwrap_or(answer).call_ids().map(str::to_owned).collect();
                let calls: Vec<(String, String, bool)> = calls(answer);
                out.push(renamed.map_or_else(|| (*message).clone(), |m| Arc::new(Message::Assistant(m))));
                for ((id, name, valid), new_id) in calls.into_iter().zip(new_ids) {
                    // Its result is the first one after it with its id that no earlier call has taken.
                    let result = late.get_mut(&id).and_then(|found| {
                        while found.front().is_some_and(|&i| i < at) {
                            found.pop_front();
                        }
                        found.pop_front()
                    });
                    match result.and_then(|i| Some((i, list.get(i)?.as_tool()?))) {
                        Some((i, result)) => {
                            kept.insert(i);
                            changed |= out_of_place(&list, at, i);
                            out.push(with_id(list.get(i), result, &new_id));
                        }
                        None => {
                            changed = true;
                            out.push(Arc::new(Message::Tool(answer_for(&new_id, &name, valid))));
                        }
                    }
                }
            }
            _ => out.push((*message).clone()),
        }
    }
    changed.then_some(out)
}

/// Positions of the results, by the id of their call.
fn results_by_id(messages: &Messages) -> HashMap<String, VecDeque<usize>> {
    let mut found: HashMap<String, VecDeque<usize>> = HashMap::new();
    for (at, message) in messages.iter().enumerate() {
        if let Some(result) = message.as_tool() {
            found.entry(result.call_id.clone()).or_default().push_back(at);
        }
    }
    found
}

/// Id, tool and well-formedness of each call, in order.
fn calls(answer: &AssistantMessage) -> Vec<(String, String, bool)> {
    let call = |block: &Block| match block {
        Block::ToolCall(call) => Some((call.id.clone(), call.name.clone(), true)),
        Block::InvalidToolCall(call) => Some((call.id.clone(), call.name.clone(), false)),
        _ => None,
    };
    answer.content.iter().filter_map(call).collect()
}

/// The answer with legal ids, each once; nothing if it has them.
fn rename(answer: &AssistantMessage) -> Option<AssistantMessage> {
    let mut seen = HashSet::new();
    if answer.call_ids().all(|id| ids::is_legal(id) && seen.insert(id)) {
        return None;
    }
    let mut renamed = answer.clone();
    let mut taken: HashSet<String> = HashSet::new();
    for (position, block) in renamed.content.iter_mut().enumerate() {
        let id = match block {
            Block::ToolCall(call) => {
                if !ids::is_legal(&call.id) || taken.contains(&call.id) {
                    // The provider's own item carries the id that cannot stay.
                    call.native = None;
                }
                &mut call.id
            }
            Block::InvalidToolCall(call) => &mut call.id,
            _ => continue,
        };
        if taken.contains(id) || id.is_empty() {
            *id = ids::legal(&format!("{id}#{position}"));
        } else if !ids::is_legal(id) {
            *id = ids::legal(id);
        }
        taken.insert(id.clone());
    }
    Some(renamed)
}

/// Whether anything but results stands between a call's answer and its result.
fn out_of_place(list: &[&Arc<Message>], answer: usize, result: usize) -> bool {
    list.iter().take(result).skip(answer + 1).any(|m| m.as_tool().is_none())
}

fn with_id(message: Option<&&Arc<Message>>, result: &ToolMessage, id: &str) -> Arc<Message> {
    match message {
        Some(message) if result.call_id == id => (*message).clone(),
        _ => Arc::new(Message::Tool(ToolMessage { call_id: id.to_owned(), ..result.clone() })),
    }
}

fn answer_for(id: &str, name: &str, valid: bool) -> ToolMessage {
    let name = if name.is_empty() { "unknown" } else { name };
    let what = if valid {
        "has no result: it may have been cancelled or interrupted. Whether it took effect is unknown"
    } else {
        "was not made: its arguments were malformed or cut off"
    };
    ToolMessage::error(id, name, format!("Tool call {name} with id {id} {what}."))
}
