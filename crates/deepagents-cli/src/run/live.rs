//! Following a run while it goes on, and through the decisions it waits for.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deepagents::core::interrupt::{DecisionAuthor, DecisionRecord};
use deepagents::middleware::hooks::HookRunner;
use deepagents::{ActionRequest, DeepAgent, Event, EventKind, FinishReason, RunInput, Usage};
use futures_util::{FutureExt, Stream, StreamExt};

use super::approvals::{Approver, Decisions};
use super::interrupt::Signals;
use super::{Limits, background, interrupt};
use crate::render::{Ending, Renderer, Tally};

/// How far apart what is shown begins to be shown: too little to be seen, and enough that a run of many quick calls does
/// not wake the thread that shows it for each event.
const FRAME: Duration = Duration::from_millis(5);

/// Runs the agent and shows its events; each time it waits for decisions, gets them and lets it go on. An error means
/// that the events could not be shown; the run has been ended then.
///
/// Showing may block. It must be awaited on a thread that is no worker of the runtime.
pub(super) async fn follow(
    agent: &DeepAgent,
    mut input: RunInput,
    limits: &Limits,
    signals: Signals,
    approver: &mut Approver,
    renderer: &mut dyn Renderer,
) -> io::Result<Ending> {
    let (mut tally, mut usage, mut elapsed) = (Tally::default(), Usage::default(), Duration::ZERO);
    let mut run = agent.run(limits.apply(input, elapsed));
    let current = Arc::new(Mutex::new(run.canceller()));
    let to_cancel = current.clone();
    let servers = limits.servers.clone();
    let mut interrupted = interrupt::watch(
        signals,
        move || to_cancel.lock().unwrap_or_else(PoisonError::into_inner).cancel(),
        move || servers.iter().for_each(|servers| servers.all.kill()),
    );
    let (mut stopped, mut frame) = (false, Instant::now());
    let result = loop {
        let began = Instant::now();
        let shown = loop {
            let shown = tokio::select! {
                biased;
                Some(()) = interrupted.recv() => {
                    stopped = true;
                    renderer.notice("stopping; Ctrl-C again quits at once")
                }
                event = next(&mut run, &mut frame) => match event {
                    Some(event) => {
                        tally.count(&event);
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
            run.cancel();
        }
        let result = run.outcome().await;
        shown?;
        elapsed += began.elapsed();
        usage += match &result {
            Ok(outcome) => outcome.usage,
            Err(error) => error.usage,
        };
        let Ok(outcome) = &result else { break result };
        if limits.waits && !stopped && outcome.stop == FinishReason::Done {
            let ended = tokio::select! {
                biased;
                Some(()) = interrupted.recv() => {
                    stopped = true;
                    None
                }
                ended = background::next(agent, outcome) => ended,
            };
            let Some(next) = ended else { break result };
            run = agent.run(limits.apply(next, elapsed));
            *current.lock().unwrap_or_else(PoisonError::into_inner) = run.canceller();
            continue;
        }
        let (FinishReason::Interrupted, Some(thread), false) = (&outcome.stop, &outcome.thread, stopped) else {
            break result;
        };
        let questions = outcome.action_requests();
        let answers = tokio::select! {
            biased;
            Some(()) = interrupted.recv() => {
                stopped = true;
                approver.leave();
                Vec::new()
            }
            answers = decide(approver, limits.hooks.as_ref(), thread, &questions, renderer) => answers?,
        };
        if answers.is_empty() {
            break result;
        }
        input = answers.into_iter().fold(RunInput::resume(thread), |input, (id, answer)| input.decide(id, answer));
        run = agent.run(limits.apply(input, elapsed));
        *current.lock().unwrap_or_else(PoisonError::into_inner) = run.canceller();
    };
    let ending = Ending { result, tally, usage, elapsed, interrupted: stopped };
    renderer.end(&ending)?;
    Ok(ending)
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

/// Has questions decided: by hooks as far as they want to, and then by who decides.
async fn decide(
    approver: &mut Approver,
    hooks: Option<&HookRunner>,
    thread: &str,
    questions: &[ActionRequest],
    renderer: &mut dyn Renderer,
) -> io::Result<Decisions> {
    let Some(hooks) = hooks.filter(|_| approver.asks()) else { return approver.decide(questions, renderer).await };
    let (mut answers, mut open) = (Vec::new(), Vec::new());
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
    if !open.is_empty() {
        answers.extend(approver.decide(&open, renderer).await?);
    }
    Ok(answers)
}

impl Tally {
    fn count(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ModelFinished { .. } => self.model_calls += 1,
            EventKind::ToolFinished { error: false, .. } => self.tools_done += 1,
            _ => {}
        }
    }
}
