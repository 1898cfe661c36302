//! Answers for calls that are not made or do not finish: every call gets exactly one result.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::driver::Driver;
use crate::error::Result;
use crate::ids::CallId;
use crate::journal::{ChildLog, Record};
use crate::machine::Open;
use crate::message::{self, Message, MessageOp, Pending, PendingCall, ToolMessage};
use crate::state::Update;

impl Driver {
    /// Answers every open call of the last answer with an error.
    pub(super) fn answer_pending(&mut self, text: impl Fn(&PendingCall) -> String) -> Result<()> {
        self.update(Update::messages(answers(&message::pending(self.state.messages()), text)))
    }

    /// Answers every open call. Calls of a turn that an earlier process started and this one did not resume get their
    /// finished results; all others get an error.
    pub(super) fn answer_open(&mut self, why: &str) -> Result<()> {
        let (open, children) = (std::mem::take(&mut self.open), std::mem::take(&mut self.children));
        if open == Open::default() && children.is_empty() {
            return self.answer_pending(|call| format!("The call of {} was not completed: {why}.", call.name()));
        }
        let begun = begun_by(&children);
        self.join_children(children.into_values())?;
        let (mut given, mut late) = (Vec::new(), Vec::new());
        for (message, added) in open.finished.into_values() {
            given.push(Message::Tool((*message).clone()));
            late.extend(added);
        }
        let left = Left { in_doubt: in_doubt(open.in_doubt, open.outputs), begun };
        self.complete_turn(&left, why, late, &mut given)?;
        // The results are now part of the conversation, so the turn is over.
        self.log.push(|| Record::ToolsCommitted { calls: Vec::new() });
        Ok(())
    }

    /// Answers the calls that an earlier process left open. Results are placed in the order of their calls. A matching
    /// result in `given` is used as the answer. Messages that tools added beside their results come last.
    pub(super) fn complete_turn(
        &mut self,
        left: &Left,
        why: &str,
        late: Vec<MessageOp>,
        given: &mut Vec<Message>,
    ) -> Result<()> {
        let messages = self.state.messages();
        let open = message::pending(messages);
        let (Some(at), false) = (messages.last_assistant(), open.is_empty()) else { return Ok(()) };
        let mut results: Vec<(u32, MessageOp)> = Vec::new();
        let mut ops = Vec::new();
        for (index, message) in message::results_at(messages, at) {
            ops.push(MessageOp::Remove(message.id().to_owned()));
            results.push((index, MessageOp::Put(message)));
        }
        let text = |index: &u32, call: &PendingCall| {
            let name = call.name();
            if let Some(output) = left.in_doubt.get(call.provider_call_id()) {
                with_output(unknown_outcome(name), output.as_deref())
            } else if left.begun.contains(index) {
                format!("The call of {name} was interrupted: {why}. What its agent did before then has taken effect.")
            } else {
                format!("The call of {name} was never made: {why}.")
            }
        };
        for Pending { index, call } in &open {
            let result = take_result(given, call).unwrap_or_else(|| error_result(call, text(index, call)));
            results.push((*index, MessageOp::put(Message::Tool(result))));
        }
        results.sort_by_key(|(index, _)| *index);
        ops.extend(results.into_iter().map(|(_, op)| op));
        ops.extend(late);
        self.update(Update::messages(ops))
    }
}

/// What an earlier process had started of a turn.
pub(super) struct Left {
    /// Provider ids of the calls that were running when it ended, with their output so far, if known.
    pub(super) in_doubt: HashMap<String, Option<String>>,
    /// Indexes of the calls whose sub-agents had started.
    pub(super) begun: HashSet<u32>,
}

/// Appends the partial output of a call to its result text.
pub(super) fn with_output(text: String, output: Option<&str>) -> String {
    match output {
        Some(output) => format!("{text} Its output before then:\n{output}"),
        None => text,
    }
}

/// Returns the calls that were running, by the provider's ids.
pub(super) fn in_doubt(
    calls: BTreeMap<CallId, (String, String, bool)>,
    mut outputs: BTreeMap<CallId, String>,
) -> HashMap<String, Option<String>> {
    calls.into_iter().map(|(call, (id, ..))| (id, outputs.remove(&call))).collect()
}

/// Returns the indexes of the calls that these sub-agents work for.
pub(super) fn begun_by(children: &BTreeMap<Vec<String>, ChildLog>) -> HashSet<u32> {
    children.values().map(|child| child.call.index).collect()
}

/// Removes and returns the result of a call from the run's input, looking only before the first answer there.
fn take_result(given: &mut Vec<Message>, call: &PendingCall) -> Option<ToolMessage> {
    let mut before_answers = given.iter().take_while(|message| message.as_assistant().is_none());
    let at =
        before_answers.position(|m| m.as_tool().is_some_and(|result| result.call_id == call.provider_call_id()))?;
    match given.remove(at) {
        Message::Tool(result) if result.name.is_empty() => Some(ToolMessage { name: call.name().to_owned(), ..result }),
        Message::Tool(result) => Some(result),
        _ => None,
    }
}

/// Returns the result text of a call that another process started and did not finish.
pub(super) fn unknown_outcome(name: &str) -> String {
    format!("The call of {name} was running when the process ended; whether it took effect is unknown.")
}

pub(super) fn not_made(call: &PendingCall) -> String {
    format!("The call of {} was not made: the turn was ended before it.", call.name())
}

pub(super) fn declined_with(call: &PendingCall) -> String {
    format!(
        "The call of {} was not made: the model or its provider declined the answer that it is part of.",
        call.name()
    )
}

/// Makes error results for open calls.
pub(super) fn answers(open: &[Pending], text: impl Fn(&PendingCall) -> String) -> Vec<MessageOp> {
    open.iter().map(|open| MessageOp::put(Message::Tool(error_result(&open.call, text(&open.call))))).collect()
}

fn error_result(call: &PendingCall, text: String) -> ToolMessage {
    ToolMessage::synthetic(call.provider_call_id(), call.name(), text)
}
