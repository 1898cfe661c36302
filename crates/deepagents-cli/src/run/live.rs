//! Following a run as it happens, and through its interrupts.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deepagents::core::interrupt::{DecisionAuthor, DecisionRecord};
use deepagents::core::run::SharedBudget;
use deepagents::middleware::hooks::HookRunner;
use deepagents::{ActionRequest, DeepAgent, Event, EventKind, FinishReason, Run, RunInput, Usage};
use futures_util::{FutureExt, StreamExt};

use super::approvals::{Approver, Decisions};
use super::interrupt::Suspended;
use super::recording::Recording;
use super::{RunContext, background, interrupt};
use crate::render::{Ending, Renderer, Tally, hook_end};
use crate::stopping::{EndSignals, HowToStop};

/// Minimum time between two wake-ups of the thread that shows events: too short to notice, and long enough that a run
/// of many quick calls does not wake it for each event.
const MIN_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the agent and shows its events. When it is interrupted, obtains the decisions and resumes it. An error means
/// that the events could not be shown; the run has been stopped then.
///
/// Showing events may block, so do not await this on a worker thread of the runtime.
pub(super) async fn follow(
    agent: &DeepAgent,
    input: RunInput,
    limits: &RunContext,
    signals: EndSignals,
    approver: &mut Approver,
    renderer: &mut dyn Renderer,
) -> io::Result<Ending> {
    let (mut tally, mut usage, mut elapsed) = (Tally::default(), Usage::default(), Duration::ZERO);
    // All runs of the program share the limits, one after the other or in the background.
    let shared = SharedBudget::new(limits.budget());
    let begin = |input, elapsed| agent.run(limits.apply(input, elapsed).within(&shared));
    // A recorded run is not suspended: a recording is of a run that has ended.
    let is_kept = limits.thread.is_some() && matches!(limits.recording, Recording::None);
    let mut began = Instant::now();
    let mut run = begin(input, elapsed);
    let current = Arc::new(Mutex::new(run.handle()));
    let to_stop = current.clone();
    let servers = limits.servers.clone();
    let mut signals = interrupt::watch(
        signals,
        move |how| how.stop(&to_stop.lock().unwrap_or_else(PoisonError::into_inner), is_kept),
        move || servers.iter().for_each(|servers| servers.all.kill()),
    );
    let (mut stopped, mut left, mut frame, mut ended_by) = (false, false, Instant::now(), None);
    let result = loop {
        let shown = loop {
            let shown = tokio::select! {
                biased;
                Some(how) = signals.recv() => {
                    stopped = true;
                    // The signal may have arrived before this run became the current one.
                    how.stop(&run.handle(), is_kept);
                    renderer.notice(how.notice())
                }
                event = next(&mut run, &mut frame) => match event {
                    Some(event) => {
                        tally.count(&event);
                        ended_by = hook_end(&event).map(str::to_owned).or(ended_by);
                        renderer.event(&event)
                    }
                    None => break Ok(()),
                },
            };
            if shown.is_err() {
                break shown;
            }
        };
        if shown.is_err() {
            // The reader of the output has gone, but nobody has ended the task.
            HowToStop::Leave.stop(&run.handle(), is_kept);
        }
        let result = run.outcome().await;
        shown?;
        elapsed += began.elapsed();
        usage += match &result {
            Ok(outcome) => outcome.usage,
            Err(error) => error.usage,
        };
        let Ok(outcome) = &result else { break result };
        let next = if limits.waits && outcome.stop == FinishReason::Done {
            let waits = Instant::now();
            let waited = if stopped {
                Wait::Ended
            } else {
                tokio::select! {
                    biased;
                    Some(how) = signals.recv() => {
                        stopped = true;
                        renderer.notice(how.notice())?;
                        Wait::Ended
                    }
                    next = background::next(agent, outcome) => Wait::then(next),
                    // The next run reports that the time is up.
                    () = out_of_time(limits, elapsed) => Wait::then(background::after(outcome)),
                }
            };
            elapsed += waits.elapsed();
            match waited {
                Wait::Next(next) => *next,
                Wait::Nothing => break result,
                Wait::Ended => {
                    left = background::any_unfinished(agent, outcome).await;
                    break result;
                }
            }
        } else {
            let (FinishReason::Interrupted, Some(thread), false) = (&outcome.stop, &outcome.thread, stopped) else {
                break result;
            };
            let (questions, mut answers) = (outcome.action_requests(), Decisions::new());
            tokio::select! {
                biased;
                Some(_) = signals.recv() => {
                    stopped = true;
                    approver.leave();
                }
                decided = decide(approver, limits.hooks.as_ref(), thread, &questions, renderer, &mut answers) => decided?,
            };
            if answers.is_empty() || stopped && !is_kept {
                break result;
            }
            let decided =
                answers.into_iter().fold(RunInput::resume(thread), |input, (id, answer)| input.decide(id, answer));
            // Decisions made before the signal are saved, but not acted on.
            if stopped { decided.observer(Arc::new(Suspended)) } else { decided }
        };
        began = Instant::now();
        run = begin(next, elapsed);
        *current.lock().unwrap_or_else(PoisonError::into_inner) = run.handle();
        if stopped {
            HowToStop::Leave.stop(&run.handle(), is_kept);
        }
    };
    let spent = shared.spent();
    let ending = Ending { result, tally, usage, spent, elapsed, interrupted: stopped, left, ended_by };
    renderer.end(&ending)?;
    Ok(ending)
}

/// The outcome of waiting for background tasks.
enum Wait {
    /// The run that continues with the result of one.
    Next(Box<RunInput>),
    /// There are none to wait for.
    Nothing,
    /// A signal has stopped the program.
    Ended,
}

impl Wait {
    fn then(next: Option<RunInput>) -> Self {
        next.map_or(Self::Nothing, |next| Self::Next(Box::new(next)))
    }
}

/// Completes when the time limit is reached, of which `elapsed` has passed.
pub(super) async fn out_of_time(limits: &RunContext, elapsed: Duration) {
    match limits.time {
        Some(time) => tokio::time::sleep(time.saturating_sub(elapsed)).await,
        None => std::future::pending().await,
    }
}

/// Returns the next event: at once if there is one, otherwise not before the current frame has passed.
async fn next(run: &mut Run, frame: &mut Instant) -> Option<Event> {
    if let Some(event) = run.next().now_or_never() {
        return event;
    }
    if let Some(rest) = MIN_INTERVAL.checked_sub(frame.elapsed()) {
        tokio::time::sleep(rest).await;
    }
    let event = run.next().await;
    *frame = Instant::now();
    event
}

/// Obtains decisions on questions: from hooks if they want to decide, and then from the approver. Each decision is
/// added as soon as it is made, so that a caller who stops waiting keeps it.
async fn decide(
    approver: &mut Approver,
    hooks: Option<&HookRunner>,
    thread: &str,
    questions: &[ActionRequest],
    renderer: &mut dyn Renderer,
    answers: &mut Decisions,
) -> io::Result<()> {
    let Some(hooks) = hooks.filter(|_| approver.asks()) else {
        return approver.decide(questions, renderer, answers).await;
    };
    let mut open = Vec::new();
    for question in questions {
        match hooks.permission_request(thread, question).await {
            Some(decision) => {
                let author = DecisionAuthor::Rule { text: "a hook".to_owned() };
                answers.push((question.id.clone(), DecisionRecord::new(decision, author)));
            }
            None => open.push(question.clone()),
        }
    }
    for question in &open {
        // Do not wait for hooks that are merely notified.
        tokio::spawn(hooks.question(thread, question));
    }
    if open.is_empty() { Ok(()) } else { approver.decide(&open, renderer, answers).await }
}

impl Tally {
    pub(super) fn count(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ModelFinished { .. } => self.answers += 1,
            EventKind::ToolFinished { error: false, .. } => self.tools_done += 1,
            _ => {}
        }
    }
}
