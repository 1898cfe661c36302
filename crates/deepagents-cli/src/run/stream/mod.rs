//! Turns that a program asks for with lines of JSON, one thread for all of them.

mod line;
mod talk;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents::core::interrupt::ActionRequests;
use deepagents::core::journal::Journal;
use deepagents::core::run::SharedBudget;
use deepagents::{
    ActionRequest, Decision, DecisionAuthor, DecisionRecord, DeepAgent, Event, EventKind, FinishReason, Outcome,
    RunError, RunInput, Usage,
};
use futures_util::StreamExt;
use serde_json::{Map, json};

use super::exit_status::from_ending;
use super::interrupt::{HowToStop, Signals};
use super::live::out_of_time;
use super::own_tools::OwnTools;
use super::stdin::Lines;
use super::{Limits, background};
use crate::args::Approve;
use crate::exit::Exit;
use crate::output;
use crate::render::{Ending, JsonLines, Renderer, Tally};
use crate::threads::note;
use talk::Talk;

/// What the turns are made with.
pub(super) struct Stream<'a> {
    pub(super) agent: &'a DeepAgent,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) thread: String,
    pub(super) limits: &'a Limits,
    pub(super) approve: Approve,
    /// How that was said.
    pub(super) said: &'static str,
}

/// What all turns together have taken.
struct Taken {
    shared: SharedBudget,
    /// Time, waiting for decisions and messages left out.
    elapsed: Duration,
    tally: Tally,
    usage: Usage,
}

/// How a turn ended.
enum TurnEnd {
    /// Another may follow; what it came to, unless it failed.
    Over(Option<Box<Outcome>>),
    /// None can.
    Exit(Exit),
}

/// What came of the questions of a turn.
enum Decided {
    All,
    /// The turn is given up.
    Interrupted,
    /// Nobody is left to decide.
    InputEnded,
    Signal,
}

impl Stream<'_> {
    /// Takes lines until they end, and finishes the turn that is under way then.
    pub(super) async fn serve(&self, mut signals: Signals, out: &mut JsonLines) -> io::Result<Exit> {
        let mut talk = Talk::new(Lines::read(), OwnTools::of(self.agent));
        let mut taken = Taken {
            shared: SharedBudget::new(self.limits.budget()),
            elapsed: Duration::ZERO,
            tally: Tally::default(),
            usage: Usage::default(),
        };
        // The last turn, as long as tasks of it may be waited for, and the run that goes on with what has come of one.
        let (mut last, mut told) = (None::<Box<Outcome>>, None);
        // What an earlier process asked and nobody answered is asked again, before anything else is said.
        let mut left = self.has_questions().await.then(|| RunInput::resume(&self.thread));
        let mut is_named = left.is_some();
        loop {
            let input = if let Some(left) = left.take() {
                left
            } else if let Some(text) = talk.next.pop_front() {
                if !std::mem::replace(&mut is_named, true) {
                    self.name(&text).await;
                }
                RunInput::new(text.as_str()).thread(&self.thread)
            } else if let Some(told) = told.take() {
                told
            } else if talk.ended && last.is_none() {
                return Ok(Exit::Done);
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
                    // Until the input ends, whoever may write is waited for as well. The run that follows says that the time is up.
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

    /// The run that goes on with what comes of the tasks that a turn has left; nothing where there are none.
    async fn after(&self, turn: Option<&Outcome>) -> Option<RunInput> {
        background::next(self.agent, turn?).await
    }

    /// What is to be said, and with which code the program ends, where a turn has reached a limit: the limits are those of
    /// all turns.
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

    /// Whether the thread waits for answers. One that cannot be read says so when it is gone on with.
    async fn has_questions(&self) -> bool {
        let state = self.agent.state(&self.thread).await;
        let waits = |state: &deepagents::State| {
            state.get::<ActionRequests>().is_some_and(|asked| asked.values().any(|one| one.decision.is_none()))
        };
        state.as_ref().is_ok_and(waits)
    }

    /// Calls the thread by its first message.
    async fn name(&self, text: &str) {
        let titled = self.journal.threads().get(&self.thread).await;
        if !titled.ok().flatten().is_some_and(|info| note::has_name(&info)) {
            let mut title = Map::new();
            // A text that must not come in gives no name either.
            let Ok(text) = self.agent.receive_text(text) else { return };
            note::name(&mut title, &text);
            // A thread without a name can be gone on with all the same.
            let _ = self.journal.threads().set_metadata(&self.thread, title).await;
        }
    }

    /// One turn with the questions that it asks.
    async fn turn(
        &self,
        input: RunInput,
        taken: &mut Taken,
        talk: &mut Talk,
        signals: &mut Signals,
        out: &mut JsonLines,
    ) -> io::Result<TurnEnd> {
        (talk.asked, talk.answers, talk.interrupted) = (Vec::new(), Vec::new(), false);
        let mut input = input;
        let (mut stopped, mut over) = (None, None);
        loop {
            let began = Instant::now();
            let mut run = self.agent.run(self.limits.apply(input, taken.elapsed).within(&taken.shared));
            // What waits is gone on with to be ended: the calls are answered, and the log says that the turn is over.
            if talk.interrupted {
                run.cancel();
            }
            // What was decided is kept, and nothing is done about it any more.
            if stopped.is_some() {
                run.handle().suspend();
                HowToStop::Leave.stop(&run.handle(), true);
            }
            let (mut failed, mut answers) = (None, 0);
            loop {
                let shown = tokio::select! {
                    biased;
                    signal = signals.recv() => {
                        let how = HowToStop::from(signal);
                        stopped = Some(how);
                        match how {
                            HowToStop::Cancel => run.interrupt(),
                            HowToStop::Leave => how.stop(&run.handle(), true),
                        }
                        Ok(())
                    }
                    event = run.next() => match event {
                        Some(event) => {
                            taken.tally.count(&event);
                            match &event.kind {
                                EventKind::ActionRequested { question } => talk.asked.push((**question).clone()),
                                EventKind::ModelFinished { .. } if event.path.is_empty() => answers += 1,
                                EventKind::Steered { text } if event.path.is_empty() => talk.told(text),
                                EventKind::RunFailed { .. } => failed = Some(event.clone()),
                                _ => {}
                            }
                            out.event(&event)
                        }
                        None => break,
                    },
                    line = talk.lines.next(), if !talk.ended => {
                        line.map(|line| talk.during(line, &run))
                    }
                };
                if let Err(error) = shown {
                    HowToStop::Leave.stop(&run.handle(), true);
                    let _ = run.outcome().await;
                    return Err(error);
                }
            }
            let result = run.outcome().await;
            taken.elapsed += began.elapsed();
            let outcome = match result {
                Ok(outcome) => outcome,
                Err(error) => {
                    taken.usage += error.usage;
                    end_of_failed(failed, &error, answers, out)?;
                    break;
                }
            };
            taken.usage += outcome.usage;
            if let Some((exit, words)) = self.at_limit(&outcome, taken).filter(|_| stopped.is_none()) {
                talk.take_back();
                words.iter().for_each(|words| output::print_error(words));
                talk.unsaid();
                return Ok(TurnEnd::Exit(exit));
            }
            if stopped.is_some() || outcome.stop != FinishReason::Interrupted {
                over = Some(Box::new(outcome));
                break;
            }
            talk.keep();
            let questions = outcome.action_requests();
            // One that was ended just before it began to wait is ended all the same.
            let decided =
                if talk.interrupted { Decided::Interrupted } else { self.decide(talk, &questions, signals).await? };
            input = match decided {
                Decided::All => talk.go_on(RunInput::resume(&self.thread)),
                Decided::Interrupted => talk.give_up(RunInput::resume(&self.thread), &outcome.state),
                Decided::Signal | Decided::InputEnded if talk.has_left() => {
                    stopped = matches!(decided, Decided::Signal).then_some(HowToStop::Leave);
                    talk.leave_to(RunInput::resume(&self.thread))
                }
                Decided::Signal => return Ok(TurnEnd::Exit(Exit::Interrupted)),
                Decided::InputEnded => {
                    talk.leave(questions.len(), &self.thread);
                    return Ok(TurnEnd::Exit(Exit::Done));
                }
            };
        }
        if let Some(how) = stopped {
            // A run that is left keeps what was said to it.
            if how == HowToStop::Cancel {
                talk.take_back();
            }
            talk.unsaid();
            return Ok(TurnEnd::Exit(Exit::Interrupted));
        }
        talk.take_back();
        Ok(TurnEnd::Over(over))
    }

    /// Waits until all questions are decided, the turn is given up, or nobody is left to decide.
    async fn decide(&self, talk: &mut Talk, questions: &[ActionRequest], signals: &mut Signals) -> io::Result<Decided> {
        if self.approve != Approve::Ask {
            let why = || Some(format!("nothing may be changed or run here ({})", self.said));
            let reject = || Decision::Reject { message: why() };
            let decision = || {
                let decision = if self.approve == Approve::Auto { Decision::Approve } else { reject() };
                DecisionRecord::new(decision, DecisionAuthor::Rule { text: self.said.to_owned() })
            };
            talk.answers = questions.iter().map(|question| (question.id.clone(), decision())).collect();
            return Ok(Decided::All);
        }
        talk.asked = questions.to_vec();
        while !questions.iter().all(|question| talk.answers.iter().any(|(id, _)| *id == question.id)) {
            if talk.ended {
                return Ok(Decided::InputEnded);
            }
            tokio::select! {
                _ = signals.recv() => return Ok(Decided::Signal),
                line = talk.lines.next() => talk.waiting(line?),
            }
            if talk.interrupted {
                return Ok(Decided::Interrupted);
            }
        }
        Ok(Decided::All)
    }
}

/// Ends a turn that failed as every turn ends: whoever reads turn after turn waits for one kind of end alone.
fn end_of_failed(failed: Option<Event>, error: &RunError, answers: u32, out: &mut JsonLines) -> io::Result<()> {
    let Some(failed) = failed else { return Ok(()) };
    let mut line = serde_json::to_value(&failed).map_err(io::Error::other)?;
    if let Some(fields) = line.as_object_mut() {
        fields.remove("kind");
        fields.remove("error");
        let end = json!({"type": "run_finished", "stop": "failed", "usage": error.usage, "model_calls": answers});
        fields.insert("seq".to_owned(), json!(failed.seq + 1));
        fields.extend(end.as_object().cloned().unwrap_or_default());
    }
    out.line(&line)
}
