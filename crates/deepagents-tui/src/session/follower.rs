//! Follows a thread that other programs work on.

use std::sync::Arc;
use std::time::Duration;

use deepagents::core::agent::LatestState;
use deepagents::core::journal::LogPosition;
use deepagents::{Event as RunEvent, EventKind, FinishReason, State};
use futures_util::TryStreamExt;

use super::Session;
use super::run::is_owned;
use super::threads::{WORKED_ON, facts_of};
use crate::app::converted::Converted;
use crate::app::event::{Event, Opened, hide_asked};
use crate::app::transcript::Item;
use crate::host::Connection;

/// How often a thread is polled for changes that emit no event.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Whether to show the present state first, as something may have happened while nobody followed the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookFirst {
    Yes,
    No,
}

/// Shows the steps of other programs on the open thread.
pub(super) struct Follower<'a> {
    session: &'a Session,
    connection: &'a Connection,
    thread: &'a str,
    /// Its number. A later follower takes over.
    ticket: u64,
    converted: Converted,
    /// Whether it was said that another program works on the thread.
    is_said: bool,
}

impl<'a> Follower<'a> {
    pub(super) fn new(session: &'a Session, connection: &'a Connection, thread: &'a str, ticket: u64) -> Self {
        Self { session, connection, thread, ticket, converted: Converted::default(), is_said: false }
    }

    /// Shows each step until another follower has taken over, or the thread cannot be read.
    pub(super) async fn follow(mut self, look: LookFirst) -> Option<()> {
        let journal = self.connection.journal.threads();
        let info = journal.get(self.thread).await.ok()??;
        self.shown(info.end);
        self.is_said = is_owned(self.session, &info);
        let threads = self.connection.agent.threads().ok()?;
        let mut events = std::pin::pin!(threads.watch(self.thread, info.end));
        let mut latest = LatestState::new(&threads, self.thread);
        let mut end = info.end;
        if look == LookFirst::Yes {
            let (state, _) = latest.read().await.ok()?;
            let items = self.converted.items_of(state.messages(), true);
            self.goes_on().then(|| self.show(facts_of(&state), items))?;
        }
        loop {
            let event = tokio::select! {
                event = events.try_next() => Some(event.ok()??),
                () = tokio::time::sleep(POLL_INTERVAL) => None,
            };
            if !self.goes_on() {
                return None;
            }
            match event {
                Some(event) if is_step(&event) => {
                    let (state, seen) = latest.read().await.ok()?;
                    self.step(&event.kind, &state, seen).await?;
                }
                Some(_) => {}
                // A rewind emits no event: it shows as a longer log while no run is active.
                None => {
                    let info = journal.get(self.thread).await.ok()??;
                    let is_longer = std::mem::replace(&mut end, info.end) < info.end;
                    if is_longer && info.owner.is_none() {
                        let (state, seen) = latest.read().await.ok()?;
                        let items = self.converted.items_of(state.messages(), false);
                        self.show_with_questions(&state, items, seen, None).await?;
                    }
                }
            }
        }
    }

    /// Shows what a step has added.
    async fn step(&mut self, step: &EventKind, state: &State, seen: LogPosition) -> Option<()> {
        let waits = matches!(step, EventKind::RunFinished { stop: FinishReason::Interrupted, .. });
        let items = self.converted.items_of(state.messages(), waits || !step.is_end());
        if step.is_end() {
            return self.show_with_questions(state, items, seen, Some(waits)).await;
        }
        let mut opened = facts_of(state);
        let began = matches!(step, EventKind::RunStarted { .. });
        let is_own = self.session.is_in_background(self.thread);
        // The notice that another program works on the thread is shown once.
        if began && !is_own && !std::mem::replace(&mut self.is_said, true) {
            opened.note = Some(WORKED_ON.to_owned());
        }
        self.goes_on().then(|| {
            self.shown(seen);
            self.show(opened, items);
        })
    }

    /// Shows a thread on which nobody works, with its questions. If its run has just ended, `waits` says whether with a
    /// question.
    async fn show_with_questions(
        &self,
        state: &State,
        mut items: Arc<Vec<Item>>,
        seen: LogPosition,
        waits: Option<bool>,
    ) -> Option<()> {
        let mut opened = facts_of(state);
        opened.questions = self.session.open_questions(self.connection, state).await;
        if !opened.questions.is_empty() {
            hide_asked(&opened.questions, Arc::make_mut(&mut items));
        }
        let what = waits.map(|waits| match (waits, opened.questions.is_empty()) {
            (true, false) => "the other program is waiting for a decision, which you can also make here",
            (true, true) => "the other program is waiting for a decision",
            (false, _) => "the other program has finished its turn",
        });
        opened.note = what.map(str::to_owned);
        self.goes_on().then(|| {
            self.shown(seen);
            self.show(opened, items);
        })
    }

    fn goes_on(&self) -> bool {
        self.session.with(|state| state.follower == self.ticket && state.thread.as_deref() == Some(self.thread))
    }

    /// Notes the end of the log that was shown.
    fn shown(&self, end: LogPosition) {
        self.session.with(|state| {
            if state.follower == self.ticket {
                state.shown = Some((self.thread.to_owned(), end));
            }
        });
    }

    fn show(&self, opened: Opened, items: Arc<Vec<Item>>) {
        let opened = Box::new(Opened { thread: Some(self.thread.to_owned()), ..opened });
        self.session.emit(Event::Watched { opened, items });
    }
}

/// Returns whether an event of the main agent changes what is shown.
fn is_step(event: &RunEvent) -> bool {
    let is_step = matches!(
        event.kind,
        EventKind::ModelFinished { .. } | EventKind::ToolFinished { .. } | EventKind::RunStarted { .. }
    );
    event.path.is_empty() && (is_step || event.kind.is_end())
}
