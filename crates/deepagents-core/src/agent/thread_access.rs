//! Operations on threads without running an agent: reading, updating, rewinding and pruning.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::context::MAX_MODEL_CALLS;
use crate::env::{Clock, Ids, RandomIds, SystemClock};
use crate::error::{Error, Result};
use crate::ids::{CallId, LogPosition};
use crate::journal::{
    self, Checkpoint, Claim, Journal, JournalError, Lease, LogEntry, Record, RecordUpdate, RetentionPolicy,
    SubAgentInfo, ThreadUsage,
};
use crate::machine::{BudgetUsage, Machine, Node};
use crate::message::{MessageOp, Messages, check_last_results, pending_at};
use crate::state::{MessagesChannel, Schema, State, Update};
use crate::status::FinishReason;

/// Lease on a thread while it is changed.
const LEASE: Duration = Duration::from_secs(60);

/// State changes that go with a rewind; see [`ThreadAccess::rewind_with`].
#[derive(Clone, Debug, Default)]
pub struct RewindPlan {
    /// A change to the state that is left, in effect when the rewind is undone.
    pub left: Update,
    /// A change to the state that the thread continues from.
    pub target: Update,
}

/// The result of a rewind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RewindResult {
    /// The position that was left. Rewinding to it undoes the rewind.
    pub left: LogPosition,
    /// The end of the log after the rewind.
    pub end: LogPosition,
}

/// The threads of a journal, read and changed without a run. No model, tool or middleware is needed.
///
/// ```
/// use deepagents_core::agent::ThreadAccess;
/// use deepagents_core::journal::MemoryJournal;
/// use deepagents_core::message::Message;
/// use deepagents_core::state::{State, Update};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let threads = ThreadAccess::new(MemoryJournal::new(), State::default().schema().clone());
/// threads.update_state("t1", Update::message(Message::user("Hello"))).await?;
/// assert_eq!(threads.state("t1").await?.messages().len(), 1);
/// assert_eq!(threads.history("t1", None, 10).await?.len(), 1);
/// # Ok::<(), deepagents_core::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct ThreadAccess {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) schema: Arc<Schema>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) max_model_calls: u32,
}

impl ThreadAccess {
    /// Opens the threads of a journal with these channels: those of an agent's
    /// [`schema`](crate::agent::AgentDefinition::schema), or of the default [`State`], which has only the conversation.
    /// Changes get random ids and times from the system clock.
    pub fn new(journal: impl Journal, schema: Arc<Schema>) -> Self {
        let (ids, clock) = (Arc::new(RandomIds), Arc::new(SystemClock));
        Self { journal: Arc::new(journal), schema, ids, clock, max_model_calls: MAX_MODEL_CALLS }
    }

    /// Returns the journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Returns the channels of the states.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the state of a thread; empty if the thread does not exist.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn state(&self, thread: &str) -> Result<State> {
        Ok(journal::load(&*self.journal, thread, self.schema.clone(), None).await?.state)
    }

    /// Returns the state of a thread at a position of its log, for example of a checkpoint.
    ///
    /// # Errors
    /// Returns an error if the log has no state there, because the log ends before the position or was pruned.
    pub async fn state_at(&self, thread: &str, position: LogPosition) -> Result<State> {
        Ok(journal::load(&*self.journal, thread, self.schema.clone(), Some(position)).await?.state)
    }

    /// Lists the sub-agents that ran as part of a thread, in the order in which they started.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn sub_agents(&self, thread: &str) -> Result<Vec<SubAgentInfo>> {
        Ok(journal::sub_agents(&*self.journal, thread).await?)
    }

    /// Returns the state of a sub-agent of a thread, seen with the channels of the schema.
    ///
    /// # Errors
    /// Returns an error if there is no sub-agent at that path, or the log cannot be read.
    pub async fn sub_agent_state(&self, thread: &str, path: &[String]) -> Result<State> {
        Ok(journal::load_sub_agent(&*self.journal, thread, self.schema.clone(), path).await?.state)
    }

    /// Lists the calls that started between a position and the end of a thread's log, with the names of their tools.
    /// These are the calls that a rewind to the position abandons, including those of sub-agents that share the log.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn calls_since(&self, thread: &str, from: LogPosition) -> Result<Vec<(CallId, String)>> {
        Ok(journal::calls_since(&*self.journal, thread, from).await?)
    }

    /// Returns the model usage of a thread, by all processes and on all branches. Pass the result of an earlier call as
    /// `before` to read only the records added since; the result includes both.
    ///
    /// ```
    /// use deepagents_core::agent::ThreadAccess;
    /// use deepagents_core::journal::{MemoryJournal, ThreadUsage};
    /// use deepagents_core::state::State;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let threads = ThreadAccess::new(MemoryJournal::new(), State::default().schema().clone());
    /// let usage = threads.usage("t1", ThreadUsage::default()).await?;
    /// assert_eq!(usage.total().total(), 0);
    /// # Ok::<(), deepagents_core::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn usage(&self, thread: &str, before: ThreadUsage) -> Result<ThreadUsage> {
        Ok(journal::usage(&*self.journal, thread, &self.schema, before).await?)
    }

    /// Lists up to `limit` checkpoints of a thread before a position, newest first.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub async fn history(&self, thread: &str, before: Option<LogPosition>, limit: usize) -> Result<Vec<Checkpoint>> {
        Ok(journal::checkpoints(&*self.journal, thread, before, limit).await?)
    }

    /// Changes the state of a thread, and returns the position after the change. Creates the thread if it does not
    /// exist.
    ///
    /// # Errors
    /// Returns an error if another owner works on the thread, a channel refuses the change, or the change puts a
    /// message between calls and their results.
    pub async fn update_state(&self, thread: &str, update: Update) -> Result<LogPosition> {
        self.update_state_charged(thread, update, BudgetUsage::default()).await
    }

    /// Changes the state of a thread as [`update_state`](Self::update_state) does, and records the cost of computing
    /// the change.
    ///
    /// # Errors
    /// As [`update_state`](Self::update_state).
    pub async fn update_state_charged(&self, thread: &str, update: Update, spent: BudgetUsage) -> Result<LogPosition> {
        let lease = self.claim_thread(thread, "update_state").await?;
        let charged = (!spent.is_nothing()).then_some(Record::BudgetCharged { spent });
        let done = self.append_update(&lease, update, None, charged).await;
        give_up(lease).await;
        done
    }

    /// Changes the state of a thread as [`update_state`](Self::update_state) does, for the request of a run, unless the
    /// log contains a change for this run after the position `since`. Returns the position after the change. A request
    /// that is repeated after a crash thus changes the state once.
    ///
    /// # Errors
    /// As [`update_state`](Self::update_state).
    pub async fn update_state_once(
        &self,
        thread: &str,
        run: &str,
        since: LogPosition,
        update: Update,
    ) -> Result<LogPosition> {
        let lease = self.claim_thread(thread, "update_state").await?;
        let done = self.append_update_once(&lease, run, since, update).await;
        give_up(lease).await;
        done
    }

    async fn append_update_once(
        &self,
        lease: &Lease,
        run: &str,
        since: LogPosition,
        update: Update,
    ) -> Result<LogPosition> {
        // Nobody else appends while the thread is claimed.
        let end = lease.journal().threads().get(lease.thread()).await?.map_or(0, |info| info.end);
        let added = if since < end { lease.journal().read(lease.thread(), since..end).await? } else { Vec::new() };
        match added.iter().find(|entry| entry.record.is_change_for(run)) {
            Some(made) => Ok(made.position.saturating_add(1)),
            None => self.append_update(lease, update, Some(run.to_owned()), None).await,
        }
    }

    async fn claim_thread(&self, thread: &str, owner: &str) -> Result<Lease> {
        let (journal, claim) = (self.journal.clone(), Claim::new(owner, LEASE));
        Ok(Lease::claim(journal, thread, claim).await?)
    }

    /// Changes the state of a thread as if a node of a run had made the change, and returns the position after it.
    /// [`Agent::resume`](super::Agent::resume) continues with the step that follows that node. Anything the last run
    /// had in progress is discarded.
    ///
    /// ```
    /// use deepagents_core::agent::Agent;
    /// use deepagents_core::message::{AssistantMessage, Block, Message};
    /// use deepagents_core::run::Node;
    /// use deepagents_core::state::Update;
    /// use serde_json::json;
    /// # async fn example(agent: Agent) -> deepagents_core::error::Result<()> {
    /// let call = Block::call("c1", "get_weather", json!({"city": "Turin"}));
    /// let answer = Update::message(Message::Assistant(AssistantMessage::new(vec![call])));
    /// agent.update_state_as("t1", Node::Model, answer).await?;
    /// // Makes the call and asks the model.
    /// let outcome = agent.resume("t1").outcome().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`update_state`](Self::update_state). Also returns an error if a change as [`Node::Model`] does not end with
    /// an answer, or calls of the previous answer still lack results.
    pub async fn update_state_as(&self, thread: &str, node: Node, update: Update) -> Result<LogPosition> {
        let lease = self.claim_thread(thread, "update_state").await?;
        let done = self.append_update_as(&lease, node, update).await;
        give_up(lease).await;
        done
    }

    async fn append_update_as(&self, lease: &Lease, node: Node, update: Update) -> Result<LogPosition> {
        let (journal, thread) = (&**lease.journal(), lease.thread());
        let journal::LoadedReplay { mut replay, head, thread: instance, .. } =
            journal::load_replay(journal, thread, self.schema.clone(), None).await?;
        // Messages that calls of an open turn added beside their results go after the results that this change may
        // supply.
        let late = replay.settle().map_err(Error::from)?;
        let update = self.accepted_as(thread, &mut replay.state, Some(node), update.and(Update::messages(late)))?;
        let put = |op: &&MessageOp| matches!(op, MessageOp::Put(message) if message.as_assistant().is_some());
        let answers = update.get::<MessagesChannel>().flatten().filter(put).count();
        let turn = replay.turns.saturating_add(u32::try_from(answers).unwrap_or(u32::MAX));
        let (run, at) = (self.ids.next("run"), self.clock.now().to_string());
        let mut records = vec![
            Record::RunStarted { run: run.clone(), at, thread: Some(instance) },
            Record::StateUpdated { update: RecordUpdate::Live(update), run: None },
            Record::Step { machine: Machine::after(node, turn, self.max_model_calls), run: Some(run.clone()) },
        ];
        if node == Node::End {
            records.push(Record::RunFinished { run, stop: Some(FinishReason::Ended) });
        }
        Ok(journal.append(thread, lease.fence(), head, records).await?.end)
    }

    /// Checks a change that is to be made once the thread continues from an earlier position: one as a node, as
    /// [`update_state_as`](Self::update_state_as) makes it, or that of [`update_state`](Self::update_state).
    ///
    /// # Errors
    /// Returns the error of the change itself, or an error if the log has no state at the position.
    pub async fn check_update(
        &self,
        thread: &str,
        position: LogPosition,
        node: Option<Node>,
        update: Update,
    ) -> Result<()> {
        let loaded = journal::load_replay(&*self.journal, thread, self.schema.clone(), Some(position)).await?;
        let mut replay = loaded.replay;
        let late = if node.is_some() { replay.settle().map_err(Error::from)? } else { Vec::new() };
        self.accepted_as(thread, &mut replay.state, node, update.and(Update::messages(late))).map(drop)
    }

    /// Applies an update, if the state, its conversation and the node allow it.
    fn accepted_as(&self, thread: &str, state: &mut State, node: Option<Node>, update: Update) -> Result<Update> {
        let before = state.messages();
        let left = before.last_assistant().filter(|at| !pending_at(before, *at).is_empty());
        let left = left.and_then(|at| before.get(at)).map(|answer| answer.id().to_owned());
        let update = self.accepted(state, update)?;
        let messages = state.messages();
        let problem = if left.is_some_and(|id| is_left_behind(messages, &id)) {
            Some("calls of the last answer are waiting for results; add those first, or replace the answer")
        } else if messages.last().is_none_or(|message| message.as_assistant().is_none()) {
            Some("the last message must be the model's answer")
        } else {
            None
        };
        match problem.filter(|_| node == Some(Node::Model)) {
            Some(what) => {
                Err(Error::Input(format!("thread `{thread}` cannot be changed on behalf of the model: {what}")))
            }
            None => Ok(update),
        }
    }

    /// Applies an update, if the state and its conversation allow it.
    fn accepted(&self, state: &mut State, update: Update) -> Result<Update> {
        let update = update.with_ids(&*self.ids);
        update.check_storable()?;
        state.apply(&update)?;
        check_last_results(state.messages())?;
        Ok(update)
    }

    async fn append_update(
        &self,
        lease: &Lease,
        update: Update,
        run: Option<String>,
        charged: Option<Record>,
    ) -> Result<LogPosition> {
        let (journal, thread) = (&**lease.journal(), lease.thread());
        let mut loaded = journal::load_replay(journal, thread, self.schema.clone(), None).await?;
        let update = self.accepted(&mut loaded.replay.state, update)?;
        let updated = Record::StateUpdated { update: RecordUpdate::Live(update), run };
        let records = charged.into_iter().chain([updated]).collect();
        Ok(journal.append(thread, lease.fence(), loaded.head, records).await?.end)
    }

    /// Makes a thread continue from an earlier position, and returns the position after the rewind. The abandoned
    /// records stay in the log on a branch of their own. Equivalent to starting the next run with
    /// [`RunInput::at`](crate::run::RunInput::at).
    ///
    /// # Errors
    /// Returns an error if another owner works on the thread, or the log has no state at the position.
    pub async fn rewind(&self, thread: &str, to: LogPosition) -> Result<LogPosition> {
        let nothing = |_, _| async { Ok::<_, Error>(RewindPlan::default()) };
        Ok(self.rewind_with(thread, to, nothing).await?.end)
    }

    /// Makes a thread continue from an earlier position as [`rewind`](Self::rewind) does, unless something was appended
    /// after its log ended at `end`. If the first record after that is this rewind, returns the position after it.
    ///
    /// # Errors
    /// As [`rewind`](Self::rewind). Also returns [`JournalError::Conflict`] if something else was appended.
    pub async fn rewind_from(&self, thread: &str, end: LogPosition, to: LogPosition) -> Result<LogPosition> {
        let lease = self.claim_thread(thread, "rewind").await?;
        let done = self.append_rewind_from(&lease, end, to).await;
        give_up(lease).await;
        done
    }

    async fn append_rewind_from(&self, lease: &Lease, end: LogPosition, to: LogPosition) -> Result<LogPosition> {
        // Nobody else appends while the thread is claimed.
        let next = lease.journal().read(lease.thread(), end..end.saturating_add(1)).await?;
        match next.first() {
            None => {
                let nothing = |_, _| async { Ok::<_, Error>(RewindPlan::default()) };
                Ok(self.append_rewind(lease, to, nothing).await?.end)
            }
            Some(LogEntry { record: Record::Rewind { to: earlier, .. }, .. }) if *earlier == to => {
                Ok(end.saturating_add(1))
            }
            Some(_) => {
                let thread = lease.thread().to_owned();
                let found = lease.journal().threads().get(&thread).await?.map_or(end, |info| info.end);
                Err(JournalError::Conflict { thread, expected: end, found }.into())
            }
        }
    }

    /// Makes a thread continue from an earlier position, together with data outside its log, such as files on disk.
    ///
    /// `work` receives the current state and the state at the position. It runs while the thread is locked. If it
    /// fails, the thread is unchanged.
    ///
    /// ```
    /// use deepagents_core::agent::{Agent, RewindPlan};
    /// # async fn example(agent: Agent) -> deepagents_core::error::Result<()> {
    /// let rewound = agent.rewind_with("t1", 7, async |here, there| {
    ///     println!("{} messages become {}", here.messages().len(), there.messages().len());
    ///     Ok::<_, deepagents_core::error::Error>(RewindPlan::default())
    /// });
    /// println!("to undo it, rewind to {}", rewound.await?.left);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if another owner works on the thread, the log has no state at the position, or `work` fails.
    pub async fn rewind_with<E: From<Error>>(
        &self,
        thread: &str,
        to: LogPosition,
        work: impl AsyncFnOnce(State, State) -> Result<RewindPlan, E>,
    ) -> Result<RewindResult, E> {
        let lease = self.claim_thread(thread, "rewind").await?;
        let done = self.append_rewind(&lease, to, work).await;
        give_up(lease).await;
        done
    }

    async fn append_rewind<E: From<Error>>(
        &self,
        lease: &Lease,
        to: LogPosition,
        work: impl AsyncFnOnce(State, State) -> Result<RewindPlan, E>,
    ) -> Result<RewindResult, E> {
        let (journal, thread, schema) = (lease.journal(), lease.thread(), &self.schema);
        let here = journal::load_intact(&**journal, thread, schema.clone()).await.map_err(Error::from)?;
        // A rewind to a state that cannot be loaded must fail here.
        let there = journal::load_replay(&**journal, thread, schema.clone(), Some(to)).await.map_err(Error::from)?;
        let (head, turn) = (here.head, here.replay.turns.saturating_add(1));
        let (mut left, mut target) = (here.replay.state.clone(), there.replay.state.clone());
        let work = work(here.replay.state, there.replay.state).await?;
        let ids = &*self.ids;
        let work = RewindPlan { left: work.left.with_ids(ids), target: work.target.with_ids(ids) };
        let storable = work.left.check_storable().and_then(|()| work.target.check_storable());
        storable
            .and_then(|()| left.apply(&work.left))
            .and_then(|()| target.apply(&work.target))
            .map_err(Error::from)?;
        let logged = |update: Update| {
            (!update.is_empty()).then(|| Record::StateUpdated { update: RecordUpdate::Live(update), run: None })
        };
        let before = logged(work.left);
        let left = head + LogPosition::from(before.is_some());
        let back = Record::Rewind { to, turn };
        let records = before.into_iter().chain([back]).chain(logged(work.target)).collect();
        let end = journal.append(thread, lease.fence(), head, records).await.map_err(Error::from)?.end;
        Ok(RewindResult { left, end })
    }

    /// Removes history from a thread; see [`prune`](journal::prune).
    ///
    /// # Errors
    /// Returns an error if another owner works on the thread, or the thread does not exist.
    pub async fn prune(&self, thread: &str, keep: &RetentionPolicy) -> Result<()> {
        Ok(journal::prune(&self.journal, thread, self.schema.clone(), keep).await?)
    }
}

/// Returns whether an answer has calls without results and another answer follows it.
fn is_left_behind(messages: &Messages, id: &str) -> bool {
    let at = messages.iter().position(|message| message.id() == id);
    at.is_some_and(|at| messages.last_assistant() != Some(at) && !pending_at(messages, at).is_empty())
}

/// The change is stored; a lease that cannot be released expires.
async fn give_up(lease: Lease) {
    let _ = lease.release().await;
}

impl fmt::Debug for ThreadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadAccess").field("channels", &self.schema.channels().len()).finish_non_exhaustive()
    }
}
