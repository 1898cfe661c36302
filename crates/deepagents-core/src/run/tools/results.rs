//! Results and state changes of calls.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tokio::task::{Id, JoinError};

use super::batch::{Progress, Running, Turn};
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::ids::CallId;
use crate::journal::{Record, RecordUpdate};
use crate::machine::committed;
use crate::message::{Block, MessageOp, ToolMessage};
use crate::middleware::ToolResponse;
use crate::panics::panic_text;
use crate::run::driver::Driver;
use crate::state::{Concurrent, MessagesChannel, too_deep};

impl Driver {
    /// Processes a call that has ended. Its result is durable once the log is flushed.
    pub(super) fn joined(
        &mut self,
        turn: &mut Turn,
        joined: Result<(Id, Result<ToolResponse>), JoinError>,
    ) -> Result<()> {
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(Running { at, info, .. }) = turn.by_task.remove(&id) else { return Ok(()) };
        let response = match joined {
            Ok((_, Ok(response))) => response,
            Ok((_, Err(Error::Interrupted(pause)))) => {
                let Some(planned) = turn.calls.get_mut(at) else { return Ok(()) };
                planned.state = Progress::Interrupted;
                self.shared.budget.take_back_tool_call();
                let call = planned.id.clone();
                turn.untaken.extend(info.take_child_logs(None));
                self.record_interrupt(&call, *pause)?;
                self.log.push(|| Record::ToolInterrupted { call });
                return Ok(());
            }
            Ok((_, Err(Error::ToolCall { text, .. }))) => ToolResponse::error(text),
            Ok((_, Err(error))) => {
                let response = ToolResponse::error(format!("Error: {error}"));
                turn.failed.get_or_insert(error);
                response
            }
            Err(error) => {
                let why = error.try_into_panic().map_or_else(|e| e.to_string(), |panic| panic_text(&*panic).to_owned());
                ToolResponse::error(format!("Error: the tool crashed: {why}"))
            }
        };
        // If a call ends without resuming its sub-agents, their changes are kept.
        self.join_children(info.take_child_logs(None))?;
        self.finished(turn, at, response)
    }

    /// Queues a result for the log, and applies its changes.
    pub(super) fn finished(&mut self, turn: &mut Turn, at: usize, response: ToolResponse) -> Result<()> {
        let Some(planned) = turn.calls.get_mut(at) else { return Ok(()) };
        let ToolResponse { mut content, is_error, is_synthetic, update, artifact, child_state, decision, .. } =
            response;
        let mut update = self.stamp(update);
        // Merged only now, because siblings may have changed the same state since this call started.
        if let Some(child_state) = child_state {
            let (joined, conflicts) = self.state.join(&child_state)?;
            update = joined.and(update);
            content.extend(conflicts.iter().map(|conflict| Block::text(format!("[not kept: {conflict}]"))));
        }
        let (messages, rest) = update.clone().split::<MessagesChannel>();
        let mut message = ToolMessage {
            id: self.shared.agent.ids.next("msg"),
            call_id: planned.call.provider_call_id().to_owned(),
            name: planned.call.name().to_owned(),
            content,
            is_error,
            is_synthetic,
            artifact,
        };
        let exclusive = rest.entries().iter().map(crate::state::UpdateEntry::spec);
        let exclusive: HashSet<&str> =
            exclusive.filter(|s| s.concurrent() == Concurrent::Refuse).map(|s| s.name()).collect();
        let mut changes = Vec::new();
        let refused = match exclusive.iter().find(|name| turn.taken.contains(**name)) {
            Some(name) => Some(format!("another call of this turn has already changed `{name}`")),
            // Both the text of a result and the values beside it come from the tool, so both can be too deep.
            None if message.is_too_deep() => Some(too_deep()),
            None => update.check_storable().and_then(|()| self.state.apply(&rest)).err().map(|error| error.to_string()),
        };
        let kept = match refused {
            Some(reason) if message.is_too_deep() => {
                let text = format!("Error: the result of {} was not kept: {reason}.", message.name);
                message = ToolMessage { id: message.id, ..ToolMessage::error(message.call_id, message.name, text) };
                None
            }
            // What the call did besides stays done, so the model must know its result.
            Some(reason) => {
                let text = format!("[the call was made, but its changes to the state were not kept: {reason}]");
                message.content.push(Block::text(text));
                message.is_error = true;
                None
            }
            None => {
                turn.taken.extend(rest.entries().iter().map(|e| e.spec().name()).filter(|n| exclusive.contains(n)));
                changes = self.changes(&rest);
                Some((update, messages.concat()))
            }
        };
        let (update, added) = kept.unwrap_or_default();
        let message = Arc::new(message);
        planned.state = Progress::Finished { message: message.clone(), added };
        let call = planned.id.clone();
        for other in &mut turn.calls {
            other.waits_for.remove(&at);
        }
        if let Some(decided) = decision {
            self.record_decision(&call, decided)?;
        }
        let (id, result) = (call.clone(), message.clone());
        self.log.push(|| Record::ToolFinished { call, message, update: RecordUpdate::Live(update) });
        self.queue_events(changes);
        self.queue_event(|| EventKind::tool_finished(id, &result));
        Ok(())
    }

    /// Adds the results to the conversation, in the order of the calls.
    pub(super) fn commit(&mut self, turn: &Turn) -> Result<()> {
        let mut ids = Vec::new();
        let mut results: BTreeMap<&CallId, (Arc<ToolMessage>, Vec<MessageOp>)> = BTreeMap::new();
        for planned in &turn.calls {
            if let Progress::Finished { message, added } = &planned.state {
                ids.push(planned.id.clone());
                results.insert(&planned.id, (message.clone(), added.clone()));
            }
        }
        self.state.apply(&committed(results.into_values()))?;
        self.log.push(|| Record::ToolsCommitted { calls: ids });
        Ok(())
    }
}
