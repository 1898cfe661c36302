//! From a log to a state.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{JournalError, Position, Record};
use crate::message::{Message, MessageOp, ToolMessage};
use crate::run::Machine;
use crate::state::{ChannelError, MessagesChannel, Schema, State, Update};
use crate::tool::CallId;

/// What a log amounts to.
#[derive(Clone, Debug)]
pub struct Folded {
    /// The state after the last record.
    pub state: State,
    /// The decisions at the last complete step.
    pub machine: Option<Machine>,
    /// Calls that began and have no result in the log: the provider's id, the tool, whether it may be run again.
    pub in_doubt: BTreeMap<CallId, (String, String, bool)>,
    /// Where the log ends.
    pub end: Position,
}

/// Folds a log. Results of a turn that was not completed are part of the state, in the order of their calls.
///
/// # Errors
/// When a record does not fit the schema.
pub fn fold(thread: &str, schema: Arc<Schema>, records: Vec<Record>) -> Result<Folded, JournalError> {
    let mut folded = Folded { state: State::new(schema), machine: None, in_doubt: BTreeMap::new(), end: 0 };
    let mut finished: BTreeMap<CallId, (Arc<ToolMessage>, Vec<MessageOp>)> = BTreeMap::new();
    for record in records {
        let position = folded.end;
        folded.end += 1;
        take(&mut folded, &mut finished, record).map_err(|error| JournalError::Damaged {
            thread: thread.to_owned(),
            position,
            reason: error.to_string(),
        })?;
    }
    let damaged = |error: ChannelError| JournalError::Damaged {
        thread: thread.to_owned(),
        position: folded.end,
        reason: error.to_string(),
    };
    folded.state.apply(&committed(std::mem::take(&mut finished).into_values())).map_err(damaged)?;
    Ok(folded)
}

fn take(
    folded: &mut Folded,
    finished: &mut BTreeMap<CallId, (Arc<ToolMessage>, Vec<MessageOp>)>,
    record: Record,
) -> Result<(), ChannelError> {
    match record {
        Record::RunStarted { .. } => {
            // A new run begins: whatever an unfinished turn left behind belongs to the conversation before it.
            folded.state.apply(&committed(std::mem::take(finished).into_values()))?;
            folded.in_doubt.clear();
        }
        Record::RunFinished { .. } => {}
        Record::Update { update } => {
            let update = update.resolve(folded.state.schema())?;
            folded.state.apply(&update)?;
        }
        Record::ToolStarted { call, wire_id, name, repeatable } => {
            folded.in_doubt.insert(call, (wire_id, name, repeatable));
        }
        Record::ToolFinished { call, message, update } => {
            let (messages, rest) = update.resolve(folded.state.schema())?.split::<MessagesChannel>();
            folded.state.apply(&rest)?;
            folded.in_doubt.remove(&call);
            finished.insert(call, (message, messages.concat()));
        }
        Record::ToolsCommitted { calls } => {
            let results = calls.iter().filter_map(|call| finished.remove(call)).collect::<Vec<_>>();
            folded.state.apply(&committed(results))?;
        }
        Record::Step { machine } => folded.machine = Some(machine),
    }
    Ok(())
}

/// The results of a turn as one update: first all results, then whatever messages the tools added.
pub(crate) fn committed(results: impl IntoIterator<Item = (Arc<ToolMessage>, Vec<MessageOp>)>) -> Update {
    let mut ops = Vec::new();
    let mut added = Vec::new();
    for (message, more) in results {
        ops.push(MessageOp::put(Message::Tool((*message).clone())));
        added.extend(more);
    }
    ops.extend(added);
    if ops.is_empty() { Update::none() } else { Update::of::<MessagesChannel>(ops) }
}
