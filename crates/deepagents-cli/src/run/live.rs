//! Following a run while it goes on, and through the decisions it waits for.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deepagents::core::interrupt::{DecisionAuthor, DecisionRecord};
use deepagents::core::run::SharedBudget;
use deepagents::middleware::hooks::HookRunner;
use deepagents::{ActionRequest, DeepAgent, Event, EventKind, FinishReason, RunInput, Usage};
use futures_util::{FutureExt, Stream, StreamExt};

use super::approvals::{Approver, Decisions};
use super::interrupt::{HowToStop, Signals, Suspended};
use super::recording::Recording;
use super::{Limits, background, interrupt};
use crate::render::{Ending, Renderer, Tally, hook_end};

/// How far apart what is shown begins to be shown: too little to be seen, and enough that a run of many quick calls does
/// not wake the thread that shows it for each event.
const FRAME: Duration = Duration::from_millis(5);

/// Runs the agent and shows its events; each time it waits for decisions, gets them and lets it go on. An error means
/// that the events could not be shown; the run has been ended then.
///
/// Showing may block. It must be awaited on a thread that is no worker of the runtime.
pub(super) async fn follow(
    agent: &DeepAgent,
    input: RunInput,
    limits: &Limits,
    signals: Signals,
    approver: &mut Approver,
    renderer: &mut dyn Renderer,
) -> io::Result<Ending> {
    let (mut tally, mut usage, mut elapsed) = (Tally::default(), Usage::default(), Duration::ZERO);
    // The limits are those of all that the program runs, one after the other or in the background.
    let shared = SharedBudget::new(limits.budget());
    let begin = |input, elapsed| agent.run(limits.apply(input, elapsed).within(&shared));
    // A recording is one of a run that has come to an end.
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
                    // It may have come before this run was the one to be stopped.
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
            // Nobody has ended the task: whoever reads has gone.
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
                    // The run that follows says that the time is up.
                    () = out_of_time(limits, elapsed) => Wait::then(background::after(outcome)),
                }
            };
            elapsed += waits.elapsed();
            match waited {
                Wait::Next(next) => *next,
                Wait::Nothing => break result,
                Wait::Ended => {
                    left = background::are_left(agent, outcome).await;
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
            // What was decided before a signal is kept, and nothing is done about it any more.
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

/// What came of waiting for the tasks in the background.
enum Wait {
    /// The run that goes on with what one has come to.
    Next(Box<RunInput>),
    /// There is none to wait for.
    Nothing,
    /// Somebody has stopped the program.
    Ended,
}

impl Wait {
    fn then(next: Option<RunInput>) -> Self {
        next.map_or(Self::Nothing, |next| Self::Next(Box::new(next)))
    }
}

/// Ends when the time is up of which so much has passed.
pub(super) async fn out_of_time(limits: &Limits, elapsed: Duration) {
    match limits.time {
        Some(time) => tokio::time::sleep(time.saturating_sub(elapsed)).await,
        None => std::future::pending().await,
    }
}

/// The next event, at once where there is one, else not before the frame that began last has passed.
async fn next(events: &mut (impl Stream<Item = Event> + Unpin), frame: &mut Instant) -> Option<Event> {
    if let Some(event) = events.next().now_or_never() {
        return event;
    }
    if let Some(rest) = FRAME.checked_sub(frame.elapsed()) {
        tokio::time::sleep(rest).await;
    }
    let event = events.next().await;
    *frame = Instant::now();
    event
}

/// Has questions decided: by hooks as far as they want to, and then by who decides. What is decided is there at once,
/// for whoever stops waiting for the rest.
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
        // The question does not wait for whoever is told of it.
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
