//! Background runs, and threads that other programs work on.

use std::time::Duration;

use deepagents::{FinishReason, Message, Outcome, RunError, RunHandle};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::follower::{Follower, LookFirst};
use super::threads::of_state;
use super::{Result, Session, Shared};
use crate::app::event::{Event, RunEnd};
use crate::host::Connection;

/// A run in the background.
pub(super) struct Background {
    pub(super) thread: String,
    run: RunHandle,
    job: CancellationToken,
}

impl Session {
    /// Moves the run to the background, so that a new conversation can begin.
    pub(super) fn move_to_background(&self) {
        let sent = self.with(|state| {
            let (run, thread) = (state.run.take()?, state.thread.take()?);
            // Messages whose images are still being read only name these.
            for text in state.take_unsent() {
                run.steer(text);
            }
            let job = std::mem::take(&mut state.job);
            state.background.push(Background { thread: thread.clone(), run, job });
            state.redo_positions.clear();
            state.foreground += 1;
            state.follower += 1;
            Some(thread)
        });
        self.emit(match sent {
            Some(thread) => Event::MovedToBackground { thread },
            None => Event::problem("it has not started yet; try again"),
        });
    }

    /// Whether a run of this program continues a thread in the background.
    pub(super) fn is_in_background(&self, thread: &str) -> bool {
        self.with(|state| state.background.iter().any(|background| background.thread == thread))
    }

    /// Whether a run of this program continues the open thread in the background.
    pub(super) fn is_background_open(&self) -> bool {
        self.thread().is_some_and(|thread| self.is_in_background(&thread))
    }

    /// Sends the text, after its context, to the background run on the open thread. Returns `false` if there is none,
    /// or it has ended.
    pub(super) async fn send_to_background(&self, text: &str, context: &[String]) -> bool {
        let (message, pictures) = match self.ready().await {
            Ok(connection) => self.message(&connection, text.to_owned()).await,
            Err(_) => (Message::user(text), Vec::new()),
        };
        let told = self.with(|state| {
            let thread = state.thread.clone()?;
            let there = state.background.iter().find(|background| background.thread == thread)?;
            let context = context.iter().cloned().map(Message::harness);
            Some(context.chain([message]).fold(false, |_, message| there.run.steer(message)))
        });
        if told != Some(true) {
            return false;
        }
        // The end makes the app send what was typed meanwhile.
        self.with(Shared::take_unsent);
        self.show_pictures(pictures);
        self.emit(RunEnd::without_outcome(Ok(FinishReason::Ended), None));
        self.emit(Event::notice("the run in the background reads this before its next step"));
        true
    }

    /// Removes a background run that has ended, and returns the event that reports it.
    pub(super) fn background_ended(&self, thread: String, result: Result<Outcome, Box<RunError>>) -> Event {
        self.with(|state| state.background.retain(|background| background.thread != thread));
        let short: String = thread.chars().take(8).collect();
        let (what, waits) = match result {
            Ok(outcome) if outcome.stop == FinishReason::Interrupted => (format!("{short} waits for a decision"), true),
            Ok(outcome) if outcome.stop == FinishReason::Suspended => (format!("{short} continues elsewhere"), false),
            Ok(outcome) => (format!("{short} is done: {}", outcome.stop.reason()), false),
            Err(error) => (format!("{short} failed: {}", self.host.explain_failure(&error)), true),
        };
        Event::BackgroundEnded { thread, what, waits }
    }

    /// Hands each background run over to a separate process, because the program is about to end. Returns the number of
    /// runs, or why one cannot be handed over.
    pub(crate) fn hand_over(&self) -> Result<usize, String> {
        let background = self.with(|state| std::mem::take(&mut state.background));
        let mut result = Ok(background.len());
        for Background { thread, run, .. } in &background {
            run.suspend();
            // A run that cannot be handed over is reported, and the others are handed over all the same.
            if let Err(problem) = self.host.detach(thread, self.policy.mode()) {
                result = result.and(Err(problem));
            }
        }
        result
    }

    /// Suspends all runs so that any process can resume them, because the program is about to end. A run that takes
    /// longer than `timeout` is abandoned, as in a crash.
    pub(crate) async fn suspend_runs(&self, timeout: Duration) {
        let runs = self.with(|state| {
            if state.run.is_none() {
                // Keeps a run that has not started yet from starting.
                state.job.cancel();
            }
            let background = std::mem::take(&mut state.background).into_iter().map(|background| background.run);
            state.run.take().into_iter().chain(background).collect::<Vec<_>>()
        });
        join_all(runs.iter().map(|run| run.suspend_within(timeout))).await;
    }

    /// Cancels the background runs, because the program is about to end and nobody resumes them.
    pub(crate) fn stop_background(&self) {
        for background in self.with(|state| std::mem::take(&mut state.background)) {
            background.job.cancel();
        }
    }

    /// Follows the open thread again after work that did not become a run.
    pub(super) fn follow_again(&self) {
        let connection = self.slot.borrow().as_ref().and_then(|made| made.as_ref().ok().cloned());
        if let (Some(connection), Some(thread)) = (connection, self.thread()) {
            self.follow(&connection, thread, LookFirst::Yes);
        }
    }

    /// Shows what others have added to the open thread since it was last shown, before a message is sent on it.
    pub(super) async fn catch_up(&self, connection: &Connection) -> Result<()> {
        let Some((thread, end)) = self.with(|state| state.shown.clone()) else { return Ok(()) };
        if self.thread().as_ref() != Some(&thread) {
            return Ok(());
        }
        match connection.journal.threads().get(&thread).await? {
            None => {
                self.with(|state| {
                    (state.thread, state.shown) = (None, None);
                    state.redo_positions.clear();
                });
                self.emit(Event::ThreadChangedElsewhere(None));
            }
            Some(info) if info.end > end => {
                let state = connection.agent.state(&thread).await?;
                self.emit(Event::ThreadChangedElsewhere(Some(Box::new(of_state(&state)))));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Follows the open thread, showing each step of other programs.
    pub(super) fn follow(&self, connection: &Connection, thread: String, look: LookFirst) {
        let ticket = self.with(|state| {
            state.follower += 1;
            state.follower
        });
        let connection = connection.clone();
        self.spawn(|this| async move {
            // A log that cannot be read is reported where the user asks for something.
            let _ = Follower::new(&this, &connection, &thread, ticket).follow(look).await;
            Ok(None)
        });
    }
}
