//! A single turn, with its questions.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use deepagents::{
    ActionRequest, Decision, DecisionAuthor, DecisionRecord, Event, EventKind, FinishReason, Outcome, Run, RunError,
    RunInput,
};
use futures_util::StreamExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::talk::Talk;
use super::{Stream, Taken, TurnEnd};
use crate::args::Approve;
use crate::exit::Exit;
use crate::output;
use crate::render::{JsonLines, Renderer};
use crate::run::interrupt::Suspended;
use crate::stopping::{EndSignals, HowToStop};

/// The outcome of a turn's questions.
enum Decided {
    All,
    /// The turn was interrupted.
    Interrupted,
    /// The input has ended, so nobody is left to decide.
    InputEnded,
    Signal,
}

/// What the events of a run told.
#[derive(Default)]
struct Followed {
    /// The event of its failure.
    failed: Option<Event>,
    /// The number of the main agent's answers.
    answers: u32,
}

/// Writes the events of a run until it ends, while messages and signals arrive.
async fn follow(
    run: &mut Run,
    taken: &mut Taken,
    talk: &mut Talk<'_>,
    signals: &mut EndSignals,
    stopped: &mut Option<HowToStop>,
    out: &mut JsonLines,
) -> io::Result<Followed> {
    let mut followed = Followed::default();
    loop {
        tokio::select! {
            biased;
            how = signals.recv() => {
                *stopped = Some(how);
                match how {
                    HowToStop::Cancel => run.interrupt(),
                    HowToStop::Leave => how.stop(&run.handle(), true),
                }
            }
            event = run.next() => {
                let Some(event) = event else { return Ok(followed) };
                taken.tally.count(&event);
                match &event.kind {
                    EventKind::ActionRequested { question } => talk.asked.push((**question).clone()),
                    EventKind::ModelFinished { .. } if event.path.is_empty() => followed.answers += 1,
                    EventKind::Steered { text } if event.path.is_empty() => talk.mark_delivered(text),
                    EventKind::RunFailed { .. } => followed.failed = Some(event.clone()),
                    _ => {}
                }
                out.event(&event)?;
            }
            line = talk.lines.next(), if !talk.ended => talk.during(line?, run),
        }
    }
}

impl Stream<'_> {
    /// Runs one turn, with its questions.
    pub(super) async fn turn(
        &self,
        input: RunInput,
        taken: &mut Taken,
        talk: &mut Talk<'_>,
        signals: &mut EndSignals,
        out: &mut JsonLines,
    ) -> io::Result<TurnEnd> {
        (talk.asked, talk.answers, talk.interrupted) = (Vec::new(), Vec::new(), false);
        let mut input = input;
        let (mut stopped, mut over) = (None, None);
        loop {
            let Some(outcome) = self.run_once(input, &mut stopped, taken, talk, signals, out).await? else { break };
            if let Some((exit, words)) = self.at_limit(&outcome, taken).filter(|_| stopped.is_none()) {
                talk.take_back();
                words.iter().for_each(|words| output::print_error(words));
                talk.report_unsent();
                return Ok(TurnEnd::Exit(exit));
            }
            if stopped.is_some() || outcome.stop != FinishReason::Interrupted {
                over = Some(Box::new(outcome));
                break;
            }
            talk.keep();
            let questions = outcome.action_requests();
            // The turn may have been interrupted just before it began to wait.
            let decided =
                if talk.interrupted { Decided::Interrupted } else { self.decide(talk, &questions, signals).await? };
            input = match decided {
                Decided::All => talk.resume_turn(RunInput::resume(&self.thread)),
                Decided::Interrupted => talk.give_up(RunInput::resume(&self.thread), &outcome.state),
                Decided::Signal | Decided::InputEnded if talk.has_undelivered() => {
                    stopped = matches!(decided, Decided::Signal).then_some(HowToStop::Leave);
                    talk.add_undelivered(RunInput::resume(&self.thread))
                }
                Decided::Signal => {
                    talk.report_unsent();
                    return Ok(TurnEnd::Exit(Exit::Interrupted));
                }
                Decided::InputEnded => {
                    let command = self.limits.again.asking(&self.thread);
                    talk.leave(questions.len(), &command);
                    talk.report_unsent();
                    return Ok(TurnEnd::Exit(Exit::Done));
                }
            };
        }
        if let Some(how) = stopped {
            // A suspended run keeps the messages sent to it.
            if how == HowToStop::Cancel {
                talk.take_back();
            }
            talk.report_unsent();
            return Ok(TurnEnd::Exit(Exit::Interrupted));
        }
        talk.take_back();
        Ok(TurnEnd::Over(over))
    }

    /// Runs the agent once. Returns `None` if the run failed, which has been reported.
    async fn run_once(
        &self,
        input: RunInput,
        stopped: &mut Option<HowToStop>,
        taken: &mut Taken,
        talk: &mut Talk<'_>,
        signals: &mut EndSignals,
        out: &mut JsonLines,
    ) -> io::Result<Option<Outcome>> {
        let began = Instant::now();
        let mut input = self.limits.apply(input, taken.elapsed).within(&taken.shared);
        // An interrupted turn is resumed already cancelled: its calls are answered, and the log records its end.
        if talk.interrupted {
            let ended = CancellationToken::new();
            ended.cancel();
            input = input.cancelled_by(&ended);
        }
        // The decisions are saved, but not acted on.
        if stopped.is_some() {
            input = input.observer(Arc::new(Suspended));
        }
        let mut run = self.agent.run(input);
        if stopped.is_some() {
            HowToStop::Leave.stop(&run.handle(), true);
        }
        let Followed { failed, answers } = match follow(&mut run, taken, talk, signals, stopped, out).await {
            Ok(followed) => followed,
            Err(error) => {
                HowToStop::Leave.stop(&run.handle(), true);
                let _ = run.outcome().await;
                return Err(error);
            }
        };
        let result = run.outcome().await;
        taken.elapsed += began.elapsed();
        match result {
            Ok(outcome) => {
                taken.usage += outcome.usage;
                Ok(Some(outcome))
            }
            Err(error) => {
                taken.usage += error.usage;
                failed_turn_end(failed, &error, answers, out)?;
                Ok(None)
            }
        }
    }

    /// Waits until all questions are decided, the turn is interrupted, or nobody is left to decide.
    async fn decide(
        &self,
        talk: &mut Talk<'_>,
        questions: &[ActionRequest],
        signals: &mut EndSignals,
    ) -> io::Result<Decided> {
        if self.approve != Approve::Ask {
            let why = || Some(format!("nothing may be changed or run here ({})", self.mode_source));
            let reject = || Decision::Reject { message: why() };
            let decision = || {
                let decision = if self.approve == Approve::Auto { Decision::Approve } else { reject() };
                DecisionRecord::new(decision, DecisionAuthor::Rule { text: self.mode_source.to_owned() })
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

/// Ends a failed turn with a `run_finished` event, so that the reader can wait for a single kind of end.
fn failed_turn_end(failed: Option<Event>, error: &RunError, answers: u32, out: &mut JsonLines) -> io::Result<()> {
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
