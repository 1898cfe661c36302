//! Repairs a history in one pass.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Block, Message, Messages, ToolMessage};

use super::ids;

/// The result of a repair.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Repair {
    /// The repaired history.
    pub(super) messages: Vec<Arc<Message>>,
    /// Number of calls that had no result.
    pub(super) answered: usize,
    /// Number of results that were not in the place that providers require.
    pub(super) moved: usize,
    /// Number of results without a call.
    pub(super) dropped: usize,
    /// Number of answers whose call ids were replaced.
    pub(super) renamed: usize,
}

/// Returns the repaired history, if it needs repair.
pub(super) fn repair(messages: &Messages) -> Option<Repair> {
    // Nearly all histories are valid; avoid copying those.
    if is_whole(messages) { None } else { mend(messages) }
}

/// Returns `true` if every call has a legal id and exactly one result directly after its answer, and every result has a
/// call.
fn is_whole(messages: &Messages) -> bool {
    let mut waiting: Vec<&str> = Vec::new();
    let whole = messages.iter().all(|message| match &**message {
        Message::Tool(result) => match waiting.iter().position(|id| *id == result.call_id) {
            Some(at) => {
                waiting.swap_remove(at);
                true
            }
            None => false,
        },
        Message::Assistant(answer) if waiting.is_empty() => {
            waiting.extend(answer.call_ids());
            rename(answer).is_none()
        }
        _ => waiting.is_empty(),
    });
    whole && waiting.is_empty()
}

fn mend(messages: &Messages) -> Option<Repair> {
    // Positions of the results by call id.
    let mut late: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (at, result) in messages.iter().enumerate().filter_map(|(at, message)| Some((at, message.as_tool()?))) {
        late.entry(&result.call_id).or_default().push_back(at);
    }
    // Positions of the answers by call id: if a later answer reuses an id, its calls have results of their own.
    let mut made: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, answer) in messages.iter().enumerate().filter_map(|(at, message)| Some((at, message.as_assistant()?))) {
        answer.call_ids().for_each(|id| made.entry(id).or_default().push(at));
    }
    let mut out = Repair { messages: Vec::with_capacity(messages.len()), ..Repair::default() };
    let mut kept: HashSet<usize> = HashSet::new();
    let list: Vec<&Arc<Message>> = messages.iter().collect();
    for (at, message) in list.iter().enumerate() {
        match &***message {
            Message::Tool(_) if kept.contains(&at) => {}
            Message::Tool(_) => out.dropped += 1,
            Message::Assistant(answer) => {
                let renamed = rename(answer);
                out.renamed += usize::from(renamed.is_some());
                let new_ids: Vec<String> = renamed.as_ref().unwrap_or(answer).call_ids().map(str::to_owned).collect();
                out.messages.push(renamed.map_or_else(|| (*message).clone(), |m| Arc::new(Message::Assistant(m))));
                for ((id, name, valid), new_id) in calls(answer).zip(new_ids) {
                    // The result is the first one with its id that no earlier call has taken, before an answer reuses
                    // the id.
                    let again =
                        made.get(id).and_then(|made| made.get(made.partition_point(|&answer| answer <= at)).copied());
                    let result = late.get_mut(id).and_then(|found| {
                        while found.front().is_some_and(|&i| i < at) {
                            found.pop_front();
                        }
                        found.pop_front_if(|i| again.is_none_or(|again| *i < again))
                    });
                    let result = result.and_then(|i| Some((i, list.get(i)?, list.get(i)?.as_tool()?)));
                    out.messages.push(match result {
                        Some((i, message, result)) => {
                            kept.insert(i);
                            // Only results may come between an answer and its results.
                            let between = list.iter().take(i).skip(at + 1).any(|m| m.as_tool().is_none());
                            out.moved += usize::from(between);
                            match result.call_id == new_id {
                                true => (*message).clone(),
                                false => Arc::new(Message::Tool(ToolMessage { call_id: new_id, ..result.clone() })),
                            }
                        }
                        None => {
                            out.answered += 1;
                            Arc::new(Message::Tool(answer_for(&new_id, name, valid)))
                        }
                    });
                }
            }
            _ => out.messages.push((*message).clone()),
        }
    }
    (out.answered + out.moved + out.dropped + out.renamed > 0).then_some(out)
}

/// Returns the id, tool name and validity of each call, in order.
fn calls(answer: &AssistantMessage) -> impl Iterator<Item = (&str, &str, bool)> {
    answer.content.iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some((&*call.id, &*call.name, true)),
        Block::InvalidToolCall(call) => Some((&*call.id, &*call.name, false)),
        _ => None,
    })
}

/// Returns the answer with legal, unique ids, or `None` if it already has them. Ids that a provider created are kept,
/// because some models recognize their calls by them; clients of other providers convert them.
fn rename(answer: &AssistantMessage) -> Option<AssistantMessage> {
    let is_legal = |id: &str| ids::is_legal(id) || (answer.origin.is_some() && ids::is_own(id));
    let mut seen = HashSet::new();
    if answer.call_ids().all(|id| is_legal(id) && seen.insert(id)) {
        return None;
    }
    let mut renamed = answer.clone();
    let mut taken: HashSet<String> = HashSet::new();
    for (position, block) in renamed.content.iter_mut().enumerate() {
        let (id, native) = match block {
            Block::ToolCall(call) => (&mut call.id, &mut call.native),
            Block::InvalidToolCall(call) => (&mut call.id, &mut call.native),
            _ => continue,
        };
        let own = if is_legal(id) { id.clone() } else { ids::legal(id) };
        let free = !id.is_empty() && !taken.contains(&own);
        let new = if free { own } else { ids::legal(&format!("{id}#{position}")) };
        if new != *id {
            *id = new;
            // The provider's own item contains the replaced id.
            *native = None;
        }
        taken.insert(id.clone());
    }
    Some(renamed)
}

fn answer_for(id: &str, name: &str, valid: bool) -> ToolMessage {
    let name = if name.is_empty() { "unknown" } else { name };
    let what = if valid {
        "has no result: it may have been cancelled or interrupted. Whether it took effect is unknown"
    } else {
        "was not made: its arguments were malformed or cut off"
    };
    ToolMessage::synthetic(id, name, format!("Tool call {name} with id {id} {what}."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_message() -> impl Strategy<Value = Message> {
        let id = || prop_oneof![Just("a"), Just("b"), Just("c"), Just("not.legal")];
        let answer = |ids: Vec<&str>| {
            let calls = ids.into_iter().map(|id| Block::call(id, "ls", json!({}))).collect();
            Message::Assistant(AssistantMessage::new(calls))
        };
        let result = |id: &str| Message::Tool(ToolMessage { call_id: id.into(), ..ToolMessage::default() });
        prop_oneof![
            Just(Message::user("Hello.")),
            proptest::collection::vec(id(), 0..3).prop_map(answer),
            id().prop_map(result),
        ]
    }

    proptest! {
        #[test]
        fn a_history_is_whole_exactly_if_it_needs_no_repair_or_was_repaired(
            messages in proptest::collection::vec(any_message(), 0..10),
        ) {
            let messages: Messages = messages.into_iter().collect();
            let mended = mend(&messages);
            prop_assert_eq!(is_whole(&messages), mended.is_none());
            if let Some(repair) = mended {
                let mended: Messages = repair.messages.iter().map(|m| (**m).clone()).collect();
                prop_assert!(is_whole(&mended), "{mended:?}");
            }
        }
    }
}
