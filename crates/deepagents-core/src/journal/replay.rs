//! Replays a log into a state.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ChildLog, JournalError, Record, RecordUpdate, ThreadInstance};
use crate::ids::{CallId, LogPosition};
use crate::interrupt::PausedChildren;
use crate::machine::{BudgetUsage, Machine, Open, committed, settle};
use crate::message::{MessageOp, ToolMessage};
use crate::state::{ChannelError, Inheritance, MessagesChannel, Schema, State, Update};
use crate::status::FinishReason;

/// The result of replaying a log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayedState {
    /// The state after the last record. Includes results of an incomplete turn.
    pub state: State,
    /// The state machine at the last complete step.
    pub machine: Option<Machine>,
    /// Calls that started and have no result in the log: the provider's id, the tool, and whether the call may be
    /// repeated.
    pub in_doubt: BTreeMap<CallId, (String, String, bool)>,
    /// Messages that tools of an incomplete turn added beside their results, if other calls of that turn have no result
    /// yet. They belong after those results.
    pub late: Vec<MessageOp>,
    /// The end of the log.
    pub end: LogPosition,
}

/// Replays a log from its start. Results of an incomplete turn are part of the state, in the order of their calls.
///
/// A new run answers the calls without a result and then applies [`ReplayedState::late`].
///
/// # Errors
/// Returns an error if a record does not match the schema, or the log contains a rewind: use [`load`](super::load) for
/// such a log.
pub fn fold(thread: &str, schema: Arc<Schema>, records: Vec<Record>) -> Result<ReplayedState, JournalError> {
    let mut fold = Replay::new(schema);
    for record in records {
        fold.take(thread, record)?;
    }
    fold.settled(thread)
}

/// The result of replaying records so far. A turn in progress is kept separate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replay {
    /// The path of the agent that wrote the records.
    pub(crate) path: Vec<String>,
    pub(crate) state: State,
    /// The initial state.
    pub(crate) given: State,
    /// The parent agent's state when this agent started.
    pub(crate) base: Option<State>,
    /// The state at the start of each call that has not ended.
    pub(crate) call_states: BTreeMap<CallId, State>,
    /// Sub-agents of calls that have not ended, by path.
    pub(crate) children: BTreeMap<Vec<String>, ChildLog>,
    /// Amount spent by sub-agents whose calls have ended since the last step.
    pub(crate) spent_below: BudgetUsage,
    pub(crate) kept: UnknownChannels,
    pub(crate) machine: Option<Machine>,
    pub(crate) run: Option<LastRun>,
    /// The runs before it, latest first.
    pub(crate) earlier_runs: VecDeque<String>,
    pub(crate) open: Open,
    /// The number of the next turn.
    pub(crate) turns: u32,
    pub(crate) end: LogPosition,
}

/// Data of channels that this agent does not have, but another agent of the thread may.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UnknownChannels {
    /// Their values at the last snapshot of an agent that had them.
    pub(crate) values: Map<String, Value>,
    /// Their changes since.
    pub(crate) changes: Vec<(String, Value)>,
}

/// The last run to write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LastRun {
    pub(crate) run: String,
    /// Whether and why it ended. The inner value is `None` if it failed.
    pub(crate) ended: Option<Option<FinishReason>>,
    /// How often a process has resumed it.
    #[serde(default)]
    pub(crate) attempt: u32,
    /// The thread in which it was last in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) thread: Option<ThreadInstance>,
    /// The prefix of the keys of its calls, if it is not the run's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keys: Option<String>,
}

/// Number of earlier run ids to remember.
const MAX_EARLIER_RUNS: usize = 64;

impl Replay {
    pub(crate) fn new(schema: Arc<Schema>) -> Self {
        Self::of(State::new(schema))
    }

    fn of(state: State) -> Self {
        Self { given: state.clone(), state, ..Self::default() }
    }

    /// Applies the next record.
    pub(crate) fn take(&mut self, thread: &str, record: Record) -> Result<(), JournalError> {
        let position = self.end;
        self.end += 1;
        self.apply(record).map_err(|error| JournalError::damaged(thread, position, error))
    }

    fn apply(&mut self, record: Record) -> Result<(), ChannelError> {
        match record {
            Record::RunStarted { run, thread, .. } => self.start_run(run, thread)?,
            Record::RunResumed { run, thread, keys, .. } => {
                let attempt = self.run.as_ref().map_or(0, |run| run.attempt) + 1;
                self.run = Some(LastRun { run, ended: None, attempt, thread, keys });
            }
            Record::RunFinished { run, stop } => {
                let last = self.run.take().unwrap_or_default();
                self.run = Some(LastRun { run, ended: Some(stop), ..last });
            }
            Record::Update { update } | Record::StateUpdated { update, .. } => {
                let update = self.known(update)?;
                self.state.apply(&update)?;
            }
            Record::ToolStarted { call, provider_call_id, name, repeatable, args: _ } => {
                self.turns = self.turns.max(call.turn.saturating_add(1));
                self.call_states.insert(call.clone(), self.state.clone());
                // A repeated call produces all its output again.
                self.open.outputs.remove(&call);
                self.open.in_doubt.insert(call, (provider_call_id, name, repeatable));
            }
            Record::ToolInterrupted { call } => {
                self.open.in_doubt.remove(&call);
            }
            Record::ToolLeft { call, output } => {
                self.open.outputs.insert(call, output);
            }
            Record::ToolFinished { call, message, update } => self.finish_call(call, message, update)?,
            Record::ToolsCommitted { calls } => {
                let results = calls.iter().filter_map(|call| self.open.finished.remove(call)).collect::<Vec<_>>();
                self.state.apply(&committed(results))?;
                self.close_turn();
            }
            Record::Step { machine, .. } => {
                self.turns = self.turns.max(machine.turn());
                self.machine = Some(machine);
                self.children.values_mut().for_each(ChildLog::count);
                self.spent_below = BudgetUsage::default();
            }
            Record::AgentStarted { path, inheritance, values, .. } => self.begin(path, inheritance, values)?,
            Record::Child { path, entry } => self.take_child(path, *entry),
            Record::ValueRecorded { .. } | Record::BudgetCharged { .. } | Record::Unknown => {}
            // `load_replay` handles rewinds: it replays from the target.
            Record::Rewind { to, .. } => {
                return Err(ChannelError::Refused {
                    channel: "messages",
                    reason: format!("the log goes back to position {to} here; load the thread instead of folding it"),
                });
            }
        }
        Ok(())
    }

    /// Starts a run. What an unfinished turn left belongs to the conversation before it; late messages follow in the
    /// updates of the new run.
    fn start_run(&mut self, run: String, thread: Option<ThreadInstance>) -> Result<(), ChannelError> {
        self.settle()?;
        self.close_turn();
        self.machine = None;
        let last = self.run.replace(LastRun { run, thread, ..LastRun::default() });
        if let Some(last) = last {
            self.earlier_runs.truncate(MAX_EARLIER_RUNS - 1);
            self.earlier_runs.push_front(last.run);
        }
        Ok(())
    }

    /// Keeps the result of a call until its turn is complete. What else the call changed takes effect at once.
    fn finish_call(
        &mut self,
        call: CallId,
        message: Arc<ToolMessage>,
        update: RecordUpdate,
    ) -> Result<(), ChannelError> {
        let (messages, rest) = self.known(update)?.split::<MessagesChannel>();
        self.state.apply(&rest)?;
        self.call_states.remove(&call);
        for (_, child) in self.children.extract_if(.., |_, child| child.call == call) {
            self.spent_below += &child.uncounted();
        }
        self.open.in_doubt.remove(&call);
        self.open.outputs.remove(&call);
        self.open.changed.extend(rest.channels().map(str::to_owned));
        self.open.finished.insert(call, (message, messages.concat()));
        Ok(())
    }

    /// Returns what sub-agents had spent beyond what the last step includes.
    pub(crate) fn uncounted(&self) -> BudgetUsage {
        let mut uncounted = self.spent_below;
        self.children.values().for_each(|child| uncounted += &child.uncounted());
        uncounted
    }

    /// Starts the log of an agent that another one started.
    fn begin(
        &mut self,
        path: Vec<String>,
        inheritance: Inheritance,
        values: Vec<(String, Value)>,
    ) -> Result<(), ChannelError> {
        let schema = self.state.schema().clone();
        self.path = path;
        self.state = match &self.base {
            Some(base) => base.inherit(inheritance, schema)?,
            None => State::new(schema),
        };
        let (known, unknown): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|(name, _)| self.state.schema().by_name(name).is_some());
        self.state.set_json(known)?;
        self.kept.values.extend(unknown);
        self.given = self.state.clone();
        Ok(())
    }

    /// Adds a record of a sub-agent.
    fn take_child(&mut self, path: Vec<String>, record: Record) {
        let depth = self.path.len() + 1;
        let Some(own) = path.get(..depth).map(<[String]>::to_vec) else { return };
        let record = if path.len() == depth { record } else { Record::Child { path, entry: Box::new(record) } };
        if let Record::AgentStarted { call: Some(call), label, .. } = &record {
            let base = self.call_states.get(call).cloned();
            let mut child = ChildLog::begin(call.clone(), label.clone(), own.clone(), base);
            child.push(record);
            self.children.insert(own, child);
        } else {
            self.adopt_paused();
            // Without its first record it cannot be resumed: its call has ended, or that record was pruned.
            if let Some(child) = self.children.get_mut(&own) {
                child.push(record);
            }
        }
    }

    /// Adds the waiting sub-agents that older logs store in the state.
    pub(crate) fn adopt_paused(&mut self) {
        let paused = self.state.get::<PausedChildren>().into_iter().flat_map(BTreeMap::values);
        for child in paused.filter(|child| !self.open.finished.contains_key(&child.call)) {
            self.children.entry(child.path.clone()).or_insert_with(|| ChildLog::of_paused(child.clone()));
        }
    }

    /// Closes the turn: its calls have all ended, or never will.
    fn close_turn(&mut self) {
        self.open = Open::default();
        self.call_states.clear();
        self.children.clear();
    }

    /// Continues the thread on a new branch with new turn numbers, after the rewind record at `position`.
    pub(crate) fn rewound(&mut self, turn: u32, position: LogPosition) {
        let finished = std::mem::take(&mut self.open.finished);
        // Finished calls keep their results, renumbered for the turn on the new branch.
        let renumber = |(call, result)| (CallId { turn: turn.saturating_sub(1), ..call }, result);
        self.open = Open {
            finished: finished.into_iter().map(renumber).collect(),
            changed: std::mem::take(&mut self.open.changed),
            ..Open::default()
        };
        for child in self.children.values_mut() {
            child.call.turn = turn.saturating_sub(1);
        }
        self.call_states.clear();
        let renumbered = crate::interrupt::renumber(&mut self.state, &self.path, turn.saturating_sub(1));
        debug_assert!(renumbered.is_ok(), "channels that have a value take one");
        if let Some(machine) = &mut self.machine {
            machine.set_turn(turn);
        }
        self.turns = turn;
        self.end = position + 1;
    }

    /// Returns the typed part of an update, and stores the rest for agents that know its channels.
    fn known(&mut self, update: RecordUpdate) -> Result<Update, ChannelError> {
        let (update, unknown) = update.split(self.state.schema())?;
        self.kept.changes.extend(unknown);
        Ok(update)
    }

    /// Adds the results of an incomplete turn to the conversation, and returns the late messages.
    pub(crate) fn settle(&mut self) -> Result<Vec<MessageOp>, ChannelError> {
        settle(&mut self.state, std::mem::take(&mut self.open.finished))
    }

    /// Returns the result so far. The replay can be continued.
    pub(crate) fn result_so_far(&self, thread: &str) -> Result<ReplayedState, JournalError> {
        let (state, machine, open) = (self.state.clone(), self.machine.clone(), self.open.clone());
        Self { machine, open, end: self.end, ..Self::of(state) }.settled(thread)
    }

    pub(crate) fn settled(mut self, thread: &str) -> Result<ReplayedState, JournalError> {
        let late = self.settle().map_err(|error| JournalError::damaged(thread, self.end, error))?;
        Ok(ReplayedState {
            state: self.state,
            machine: self.machine,
            in_doubt: self.open.in_doubt,
            late,
            end: self.end,
        })
    }
}
