//! Turns requested by a program with lines of JSON, all in one thread.

mod line;
mod talk;
mod turn;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents::core::journal::Journal;
use deepagents::core::run::SharedBudget;
use deepagents::{DeepAgent, FinishReason, Outcome, RunInput, Usage};
use serde_json::Map;

use super::exit_status::from_ending;
use super::live::out_of_time;
use super::stdin::Lines;
use super::{RunContext, background};
use crate::args::Approve;
use crate::exit::Exit;
use crate::render::{Ending, JsonLines, Tally};
use crate::slash::{self, Commands, Typed};
use crate::stopping::EndSignals;
use crate::threads::note;
use talk::Talk;

/// The context of the turns.
pub(super) struct Stream<'a> {
    pub(super) agent: &'a DeepAgent,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) thread: String,
    pub(super) limits: &'a RunContext,
    pub(super) approve: Approve,
    /// How the mode was given.
    pub(super) mode_source: &'static str,
    /// The commands from files and the names of skills that messages may use.
    pub(super) typing: (Commands, Vec<String>),
}

/// Totals of all turns.
struct Taken {
    shared: SharedBudget,
    /// Duration, without waiting for decisions and messages.
    elapsed: Duration,
    tally: Tally,
    usage: Usage,
}

/// How a turn ended.
enum TurnEnd {
    /// Another turn may follow. Holds the outcome, unless the turn failed.
    Over(Option<Box<Outcome>>),
    /// No other turn can follow.
    Exit(Exit),
}

impl Stream<'_> {
    /// Handles lines until the input ends, and then finishes the current turn.
    pub(super) async fn serve(&self, mut signals: EndSignals, out: &mut JsonLines) -> io::Result<Exit> {
        let mut talk = Talk::new(Lines::read(), self.agent, &self.typing);
        let mut taken = Taken {
            shared: SharedBudget::new(self.limits.budget()),
            elapsed: Duration::ZERO,
            tally: Tally::default(),
            usage: Usage::default(),
        };
        // The last turn, while its background tasks may be waited for, and the run that continues with the result of
        // one.
        let (mut last, mut told) = (None::<Box<Outcome>>, None);
        // Questions left open by an earlier process are asked again first.
        let mut left = self.has_questions().await.then(|| RunInput::resume(&self.thread));
        let mut is_named = left.is_some();
        loop {
            let input = if let Some(left) = left.take() {
                left
            } else if let Some(Typed { text, skill, .. }) = talk.next.pop_front() {
                if !std::mem::replace(&mut is_named, true) {
                    self.name(&text).await;
                }
                slash::pin(RunInput::new(text.as_str()).thread(&self.thread), skill.as_ref())
            } else if let Some(told) = told.take() {
                told
            } else if talk.ended && last.is_none() {
                return Ok(talk.exit());
            } else {
                let began = Instant::now();
                let ended = talk.ended;
                tokio::select! {
                    _ = signals.recv() => return Ok(Exit::Interrupted),
                    line = talk.lines.next(), if !ended => talk.idle(line?),
                    next = self.after(last.as_deref()), if last.is_some() => {
                        told = next;
                        last = None;
                    }
                    // Until the input ends, the time spent waiting for messages does not count. The next run reports
                    // that the time is up.
                    () = out_of_time(self.limits, taken.elapsed), if ended => {
                        told = last.take().and_then(|last| background::after(&last));
                    }
                }
                if ended {
                    taken.elapsed += began.elapsed();
                }
                continue;
            };
            match self.turn(input, &mut taken, &mut talk, &mut signals, out).await? {
                TurnEnd::Exit(exit) => return Ok(exit),
                TurnEnd::Over(outcome) => {
                    last = outcome.filter(|outcome| self.limits.waits && outcome.stop == FinishReason::Done);
                }
            }
        }
    }

    /// Waits for the background tasks of a turn, and returns the run that continues with their results; `None` if there
    /// are none.
    async fn after(&self, turn: Option<&Outcome>) -> Option<RunInput> {
        background::next(self.agent, turn?).await
    }

    /// Returns the exit code and the message if a turn has reached a limit; the limits apply to all turns together.
    fn at_limit(&self, outcome: &Outcome, taken: &Taken) -> Option<(Exit, Option<String>)> {
        let is_limit = match outcome.stop {
            FinishReason::StepLimit => self.limits.turns.is_some(),
            FinishReason::Budget(_) | FinishReason::Deadline => true,
            _ => false,
        };
        if !is_limit {
            return None;
        }
        let ending = Ending {
            result: Ok(outcome.clone()),
            tally: taken.tally,
            usage: taken.usage,
            spent: taken.shared.spent(),
            elapsed: taken.elapsed,
            interrupted: false,
            left: false,
            ended_by: None,
        };
        Some(from_ending(&ending, self.limits))
    }

    /// Whether the thread has pending interrupts. If it cannot be read, resuming it reports that.
    async fn has_questions(&self) -> bool {
        self.agent.state(&self.thread).await.is_ok_and(|state| !state.action_requests().is_empty())
    }

    /// Takes the first message as the thread's title.
    async fn name(&self, text: &str) {
        let titled = self.journal.threads().get(&self.thread).await;
        if !titled.ok().flatten().is_some_and(|info| note::has_name(&info)) {
            let mut title = Map::new();
            // A text that is not accepted must not become the title either.
            let Ok(text) = self.agent.receive_text(text) else { return };
            note::name(&mut title, &text);
            // A thread without a title works all the same.
            let _ = self.journal.threads().set_metadata(&self.thread, title).await;
        }
    }
}
