//! Following a run while it goes on.

use std::io;
use std::time::Instant;

use deepagents::{DeepAgent, Event, EventKind, RunInput};
use futures_util::StreamExt;
use tokio::signal::unix::Signal;

use super::interrupt;
use crate::render::{Ending, Renderer, Tally};

/// Runs the agent and shows its events. An error means that they could not be shown; the run has been ended then.
///
/// Showing may block. It must be awaited on a thread that is no worker of the runtime.
pub(super) async fn follow(
    agent: &DeepAgent,
    input: RunInput,
    ctrl_c: Signal,
    renderer: &mut dyn Renderer,
) -> io::Result<Ending> {
    let began = Instant::now();
    let mut run = agent.run(input);
    let canceller = run.canceller();
    let mut interrupted = interrupt::watch(ctrl_c, move || canceller.cancel());
    let mut tally = Tally::default();
    let shown = loop {
        let shown = tokio::select! {
            biased;
            Some(()) = interrupted.recv() => renderer.notice("stopping; Ctrl-C again quits at once"),
            event = run.next() => match event {
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
    let ending = Ending { result, tally, elapsed: began.elapsed() };
    renderer.end(&ending)?;
    Ok(ending)
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
