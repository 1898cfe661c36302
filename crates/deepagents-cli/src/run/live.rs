//! Following a run as it happens, and through its interrupts.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deepagents::core::interrupt::{DecisionAuthor, DecisionRecord};
use deepagents::core::run::SharedBudget;
use deepagents::middleware::hooks::HookRunner;
use deepagents::{
    ActionRequest, DeepAgent, Error, Event, EventKind, FinishReason, Outcome, Run, RunError, RunHandle, RunInput, Usage,
};
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc::Receiver;

use super::approvals::{Approver, Decisions};
use super::interrupt::Suspended;
use super::recording::Recording;
use super::{RunContext, background, interrupt};
use crate::render::{Ending, Renderer, Tally, hook_end};
use crate::stopping::{EndSignals, HowToStop};
use crate::threads::Artifacts;

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
    let shared = SharedBudget::new(limits.budget());
    let mut run = agent.run(limits.apply(input, Duration::ZERO).within(&shared));
    let current = Arc::new(Mutex::new(run.handle()));
    // A recorded run is not suspended: a recording is of a run that has ended.
    let is_kept = limits.thread.is_some() && matches!(limits.recording, Recording::None);
    let signals = watch(signals, current.clone(), is_kept, limits);
    let mut task = Following {
        agent,
        limits,
        signals,
        approver,
        renderer,
        shared,
        current,
        is_kept,
        stopped: false,
        left: false,
        frame: Instant::now(),
        tally: Tally::default(),
        usage: Usage::default(),
        elapsed: Duration::ZERO,
        ended_by: None,
    };
    let result = loop {
        let began = Instant::now();
        let shown = task.show(&mut run).await;
        if shown.is_err() {
            // The reader of the output has gone, but nobody has ended the task.
            HowToStop::Leave.stop(&run.handle(), is_kept);
        }
        let result = run.outcome().await;
        shown?;
        task.elapsed += began.elapsed();
        task.usage += match &result {
            Ok(outcome) => outcome.usage,
            Err(error) => error.usage,
        };
        let Ok(outcome) = &result else { break result };
        let Some(next) = task.next_input(outcome).await? else { break result };
        run = task.begin(next);
    };
    task.end(result)
}

/// A task that is shown: its runs, one after the other.
struct Following<'a> {
    agent: &'a DeepAgent,
    limits: &'a RunContext,
    signals: Receiver<HowToStop>,
    approver: &'a mut Approver,
    renderer: &'a mut dyn Renderer,
    /// What all runs of the program may spend, one after the other or in the background.
    shared: SharedBudget,
    /// The run that a signal stops.
    current: Arc<Mutex<RunHandle>>,
    /// Whether a stopped run can be resumed.
    is_kept: bool,
    /// Whether a signal has stopped the task.
    stopped: bool,
    /// Whether it was stopped while waiting for background tasks.
    left: bool,
    /// When an event was last waited for.
    frame: Instant,
    tally: Tally,
    usage: Usage,
    elapsed: Duration,
    ended_by: Option<String>,
}

/// Stops the current run at the first signal, and ends the program at the second.
fn watch(
    signals: EndSignals,
    current: Arc<Mutex<RunHandle>>,
    is_kept: bool,
    limits: &RunContext,
) -> Receiver<HowToStop> {
    let (servers, artifacts) = (limits.servers.clone(), limits.artifacts.clone());
    interrupt::watch(
        signals,
        move |how| how.stop(&current.lock().unwrap_or_else(PoisonError::into_inner), is_kept),
        move || {
            servers.iter().for_each(|servers| servers.all.kill());
            artifacts.iter().for_each(Artifacts::discard);
        },
    )
}

impl Following<'_> {
    /// Starts the next run.
    fn begin(&self, input: RunInput) -> Run {
        let run = self.agent.run(self.limits.apply(input, self.elapsed).within(&self.shared));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = run.handle();
        if self.stopped {
            HowToStop::Leave.stop(&run.handle(), self.is_kept);
        }
        run
    }

    /// Shows the events of a run until it ends.
    async fn show(&mut self, run: &mut Run) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                Some(how) = self.signals.recv() => {
                    self.stopped = true;
                    // The signal may have arrived before this run became the current one.
                    how.stop(&run.handle(), self.is_kept);
                    self.renderer.notice(how.notice())?;
                }
                event = next(run, &mut self.frame) => {
                    let Some(event) = event else { return Ok(()) };
                    self.tally.count(&event);
                    self.ended_by = hook_end(&event).map(str::to_owned).or(self.ended_by.take());
                    self.renderer.event(&event)?;
                }
            }
        }
    }

    /// Returns the input with which the task continues after a run, if it does.
    async fn next_input(&mut self, outcome: &Outcome) -> io::Result<Option<RunInput>> {
        match (&outcome.stop, &outcome.thread) {
            (FinishReason::Done, _) if self.limits.waits => self.background_result(outcome).await,
            (FinishReason::Interrupted, Some(thread)) if !self.stopped => self.decided(outcome, thread).await,
            _ => Ok(None),
        }
    }

    /// Waits for the result of a background task.
    async fn background_result(&mut self, outcome: &Outcome) -> io::Result<Option<RunInput>> {
        let began = Instant::now();
        if !self.stopped {
            let next = tokio::select! {
                biased;
                Some(how) = self.signals.recv() => {
                    self.stopped = true;
                    self.renderer.notice(how.notice())?;
                    None
                }
                next = background::next(self.agent, outcome) => next,
                // The next run reports that the time is up.
                () = out_of_time(self.limits, self.elapsed) => background::after(outcome),
            };
            self.elapsed += began.elapsed();
            if !self.stopped {
                return Ok(next);
            }
        }
        self.left = background::any_unfinished(self.agent, outcome).await;
        Ok(None)
    }

    /// Obtains decisions on the questions of an interrupted run.
    async fn decided(&mut self, outcome: &Outcome, thread: &str) -> io::Result<Option<RunInput>> {
        let (questions, mut answers) = (outcome.action_requests(), Decisions::new());
        let hooks = self.limits.hooks.as_ref();
        tokio::select! {
            biased;
            Some(_) = self.signals.recv() => {
                self.stopped = true;
                self.approver.leave();
            }
            decided = decide(self.approver, hooks, thread, &questions, self.renderer, &mut answers) => decided?,
        }
        if answers.is_empty() || self.stopped && !self.is_kept {
            return Ok(None);
        }
        let input = answers.into_iter().fold(RunInput::resume(thread), |input, (id, answer)| input.decide(id, answer));
        // Decisions made before the signal are saved, but not acted on.
        Ok(Some(if self.stopped { input.observer(Arc::new(Suspended)) } else { input }))
    }

    fn end(self, result: Result<Outcome, Box<RunError>>) -> io::Result<Ending> {
        let Self { tally, mut usage, elapsed, stopped: interrupted, left, ended_by, .. } = self;
        let spent = self.shared.spent();
        // A run that was left in the middle of a step reports nothing.
        if matches!(&result, Err(error) if matches!(*error.error, Error::Left)) {
            usage = spent.usage;
        }
        let ending = Ending { result, tally, usage, spent, elapsed, interrupted, left, ended_by };
        self.renderer.end(&ending)?;
        Ok(ending)
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
