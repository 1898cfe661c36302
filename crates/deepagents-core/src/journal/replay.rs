//! From a log to a state.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{JournalError, Record, RecordUpdate, Snapshot};
use crate::ids::{CallId, LogPosition};
use crate::machine::Machine;
use crate::machine::Open;
use crate::machine::committed;
use crate::message::{MessageOp, pending};
use crate::state::{ChannelError, MessagesChannel, Schema, State, Update};
use crate::status::FinishReason;

/// What a log amounts to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayedState {
    /// The state after the last record. Results of a turn that was not completed are part of it.
    pub state: State,
    /// The decisions at the last complete step.
    pub machine: Option<Machine>,
    /// Calls that began and have no result in the log: the provider's id, the tool, whether it may be run again.
    pub in_doubt: BTreeMap<CallId, (String, String, bool)>,
    /// What tools of an uncompleted turn said beside their results, where other calls of that turn have none yet: it
    /// belongs after those.
    pub late: Vec<MessageOp>,
    /// Where the log ends.
    pub end: LogPosition,
}

/// Folds a log from its start. Results of a turn that was not completed are part of the state, in the order of their
/// calls.
///
/// A new run answers the calls without a result and then applies [`ReplayedState::late`].
///
/// # Errors
/// When a record does not fit the schema, or the log goes back to an earlier position: [`load`](super::load) follows
/// such a log.
pub fn fold(thread: &str, schema: Arc<Schema>, records: Vec<Record>) -> Result<ReplayedState, JournalError> {
    let mut fold = Replay::new(schema);
    for record in records {
        fold.take(thread, record)?;
    }
    fold.settled(thread)
}

/// What records amount to so far, with a turn that is under way kept apart.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) state: State,
    pub(crate) kept: UnknownChannels,
    pub(crate) machine: Option<Machine>,
    pub(crate) run: Option<LastRun>,
    pub(crate) open: Open,
    /// The number of the next turn.
    pub(crate) turns: u32,
    pub(crate) end: LogPosition,
}

/// What belongs to channels that this agent does not have; another agent of the thread may.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UnknownChannels {
    /// Their values at the last snapshot of an agent that had them.
    pub(crate) values: Map<String, Value>,
    /// Their changes since.
    pub(crate) changes: Vec<(String, Value)>,
}

/// The run that wrote last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LastRun {
    pub(crate) run: String,
    /// Whether it ended, and if so why; no reason when it failed.
    pub(crate) ended: Option<Option<FinishReason>>,
}

impl Replay {
    pub(crate) fn new(schema: Arc<Schema>) -> Self {
        Self {
            state: State::new(schema),
            kept: UnknownChannels::default(),
            machine: None,
            run: None,
            open: Open::default(),
            turns: 0,
            end: 0,
        }
    }

    /// Goes on from a snapshot.
    pub(crate) fn restore(thread: &str, schema: Arc<Schema>, snapshot: &Snapshot) -> Result<Self, JournalError> {
        super::snapshot::restore(thread, schema, snapshot)
    }

    /// Takes the next record in.
    pub(crate) fn take(&mut self, thread: &str, record: Record) -> Result<(), JournalError> {
        let position = self.end;
        self.end += 1;
        self.apply(record).map_err(|error| damaged(thread, position, &error))
    }

    fn apply(&mut self, record: Record) -> Result<(), ChannelError> {
        match record {
            Record::RunStarted { run, .. } => {
                // A new run begins: whatever an unfinished turn left behind belongs to the conversation before it.
                // What is late follows in the updates of the new run.
                self.settle()?;
                self.open = Open::default();
                self.machine = None;
                self.run = Some(LastRun { run, ended: None });
            }
            Record::RunResumed { run, .. } => self.run = Some(LastRun { run, ended: None }),
            Record::RunFinished { run, stop } => self.run = Some(LastRun { run, ended: Some(stop) }),
            Record::Update { update } | Record::StateUpdated { update } => {
                let update = self.known(update)?;
                self.state.apply(&update)?;
            }
            Record::ToolStarted { call, provider_call_id, name, repeatable } => {
                self.turns = self.turns.max(call.turn.saturating_add(1));
                self.open.in_doubt.insert(call, (provider_call_id, name, repeatable));
            }
            Record::ToolInterrupted { call } => {
                self.open.in_doubt.remove(&call);
            }
            Record::ToolFinished { call, message, update } => {
                let (messages, rest) = self.known(update)?.split::<MessagesChannel>();
                self.state.apply(&rest)?;
                self.open.in_doubt.remove(&call);
                self.open.changed.extend(rest.channels().map(str::to_owned));
                self.open.finished.insert(call, (message, messages.concat()));
            }
            Record::ToolsCommitted { calls } => {
                let results = calls.iter().filter_map(|call| self.open.finished.remove(call)).collect::<Vec<_>>();
                self.state.apply(&committed(results))?;
                self.open = Open::default();
            }
            Record::Step { machine } => {
                self.turns = self.turns.max(machine.turn());
                self.machine = Some(machine);
            }
            // Where a log goes back, what comes after is folded from there, see `load_replay`.
            Record::Rewind { to, .. } => {
                return Err(ChannelError::Refused {
                    channel: "messages",
                    reason: format!("the log goes back to position {to} here; load the thread instead of folding it"),
                });
            }
        }
        Ok(())
    }

    /// The thread goes on from here with turns of new numbers, after a record that says so at `position`.
    pub(crate) fn rewound(&mut self, turn: u32, position: LogPosition) {
        let finished = std::mem::take(&mut self.open.finished);
        // The calls that had finished keep their results under the number that the turn has on the new branch.
        let renumber = |(call, result)| (CallId { turn: turn.saturating_sub(1), ..call }, result);
        self.open = Open {
            finished: finished.into_iter().map(renumber).collect(),
            changed: std::mem::take(&mut self.open.changed),
            ..Open::default()
        };
        let renumbered = crate::interrupt::renumber(&mut self.state, turn.saturating_sub(1));
        debug_assert!(renumbered.is_ok(), "channels that have a value take one");
        if let Some(machine) = &mut self.machine {
            machine.set_turn(turn);
        }
        self.turns = turn;
        self.end = position + 1;
    }

    /// The typed part of an update; the rest is kept for agents that know it.
    fn known(&mut self, update: RecordUpdate) -> Result<Update, ChannelError> {
        let (update, unknown) = update.split(self.state.schema())?;
        self.kept.changes.extend(unknown);
        Ok(update)
    }

    /// Makes the results of a turn that was not completed part of the conversation, and returns what is late.
    pub(crate) fn settle(&mut self) -> Result<Vec<MessageOp>, ChannelError> {
        let mut late = Vec::new();
        let results = std::mem::take(&mut self.open.finished).into_values().map(|(message, added)| {
            late.extend(added);
            (message, Vec::new())
        });
        self.state.apply(&committed(results))?;
        if !late.is_empty() && pending(self.state.messages()).is_empty() {
            self.state.apply(&Update::new::<MessagesChannel>(std::mem::take(&mut late)))?;
        }
        Ok(late)
    }

    pub(crate) fn settled(mut self, thread: &str) -> Result<ReplayedState, JournalError> {
        let late = self.settle().map_err(|error| damaged(thread, self.end, &error))?;
        Ok(ReplayedState {
            state: self.state,
            machine: self.machine,
            in_doubt: self.open.in_doubt,
            late,
            end: self.end,
        })
    }
}

fn damaged(thread: &str, position: LogPosition, error: &ChannelError) -> JournalError {
    JournalError::Damaged { thread: thread.to_owned(), position, reason: error.to_string() }
}
