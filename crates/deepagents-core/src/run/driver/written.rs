//! State changes and events of a run. They are queued during a step; events are emitted once the log has their records.

use super::Driver;
use crate::error::Result;
use crate::event::EventKind;
use crate::ids::LogPosition;
use crate::journal::{JournalError, Record, RecordUpdate};
use crate::run::abort::halt_grace_elapsed;
use crate::state::Update;

impl Driver {
    /// Applies an update and queues its record and events.
    pub(in crate::run) fn update(&mut self, update: Update) -> Result<()> {
        if update.is_empty() {
            return Ok(());
        }
        let update = self.stamp(update);
        update.check_storable()?;
        self.state.apply(&update)?;
        let changes = self.changes(&update);
        self.log.push(|| Record::Update { update: RecordUpdate::Live(update) });
        self.queue_events(changes);
        Ok(())
    }

    /// Gives ids to messages that have none.
    pub(in crate::run) fn stamp(&self, update: Update) -> Update {
        update.with_ids(&*self.shared.agent.ids)
    }

    /// Returns the events of an update.
    pub(in crate::run) fn changes(&self, update: &Update) -> Vec<EventKind> {
        // What is stored can be converted.
        if self.shared.events.is_silent() { Vec::new() } else { EventKind::state_changes(update).unwrap_or_default() }
    }

    pub(in crate::run) fn queue_event(&mut self, kind: impl FnOnce() -> EventKind) {
        if !self.shared.events.is_silent() {
            self.queued_events.push((self.log.waiting(), kind()));
        }
    }

    /// Queues events that stem from the last queued record.
    pub(in crate::run) fn queue_events(&mut self, kinds: Vec<EventKind>) {
        let waiting = self.log.waiting();
        self.queued_events.extend(kinds.into_iter().map(|kind| (waiting, kind)));
    }

    /// Queues a checkpoint record, unless the last one is still current.
    pub(in crate::run) fn log_step(&mut self) {
        self.machine.set_budget_state(self.shared.budget.budget_state());
        if self.logged_step.as_ref() != Some(&self.machine) {
            let machine = self.machine.clone();
            self.logged_step = Some(machine.clone());
            let run = self.is_main().then(|| self.shared.run.get().to_string());
            self.log.push(|| Record::Step { machine, run });
        }
    }

    /// Appends queued records to the log, then emits their events.
    pub(in crate::run) async fn flush(&mut self) -> Result<()> {
        self.append().await?;
        self.emit_queued_events();
        Ok(())
    }

    /// Appends queued records to the log. If that fails, now or earlier, their events are dropped: no reader must see
    /// what the thread does not have.
    pub(super) async fn append(&mut self) -> Result<(), JournalError> {
        let waiting = self.log.waiting();
        let appended = self.log.flush(halt_grace_elapsed(&self.shared)).await;
        if self.log.has_failed() {
            self.queued_events.clear();
            return appended;
        }
        let start = self.log.end().map(|end| end.saturating_sub(waiting as LogPosition));
        let logged = |(count, kind)| (start.map(|start| start + count as LogPosition), kind);
        self.logged_events.extend(self.queued_events.drain(..).map(logged));
        appended
    }

    /// Emits the events whose records are in the log, with the resulting state.
    pub(super) fn emit_queued_events(&mut self) {
        if self.shared.events.is_silent() {
            return;
        }
        let is_written = self.is_main() && !self.log.has_failed();
        let state = is_written.then(|| self.state.clone());
        let end = self.log.end();
        let mut events = std::mem::take(&mut self.logged_events);
        events.extend(self.queued_events.drain(..).map(|(_, kind)| (end, kind)));
        self.shared.events.emit_all(&self.shared.path, events, state);
    }
}
