//! Changes of the state of a thread outside of a run.

use super::{ThreadAccess, give_up};
use crate::error::{Error, Result};
use crate::ids::LogPosition;
use crate::journal::{self, Lease, Record, RecordUpdate};
use crate::machine::{BudgetUsage, Machine, Node};
use crate::message::{MessageOp, Messages, check_last_results, pending_at};
use crate::state::{MessagesChannel, State, Update};
use crate::status::FinishReason;

impl ThreadAccess {
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

    /// Changes the state of a thread as if a node of a run had made the change, and returns the position after it.
    /// [`Agent::resume`](crate::agent::Agent::resume) continues with the step that follows that node. Anything the last run
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
}

/// Returns whether an answer has calls without results and another answer follows it.
fn is_left_behind(messages: &Messages, id: &str) -> bool {
    let at = messages.iter().position(|message| message.id() == id);
    at.is_some_and(|at| messages.last_assistant() != Some(at) && !pending_at(messages, at).is_empty())
}
