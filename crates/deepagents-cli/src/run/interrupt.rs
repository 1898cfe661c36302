//! Ctrl-C, SIGTERM and a terminal that closes: once to end cleanly, twice to quit.

use std::io;
use std::time::Duration;

use deepagents::core::error::Error;
use deepagents::core::run::RunStart;
use deepagents::{RunHandle, RunObserver};
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::stopping::{EndSignal, EndSignals, Hangup};

/// How long a run may take to come to a step that it can be gone on from.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How a run is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HowToStop {
    /// Ctrl-C: a person ends it.
    Cancel,
    /// SIGTERM, or a terminal that is gone: its process ends, and it is gone on with later.
    Leave,
}

impl From<EndSignal> for HowToStop {
    fn from(signal: EndSignal) -> Self {
        match signal {
            EndSignal::Interrupt => Self::Cancel,
            EndSignal::Terminate | EndSignal::Hangup => Self::Leave,
        }
    }
}

impl HowToStop {
    /// What is said of it.
    pub(super) fn notice(self) -> &'static str {
        match self {
            Self::Cancel => "stopping; Ctrl-C again quits at once",
            Self::Leave => "stopping at the next step; another signal quits at once",
        }
    }

    /// Stops a run. One that is not kept has nothing to be gone on with.
    pub(super) fn stop(self, run: &RunHandle, is_kept: bool) {
        match self {
            Self::Leave if is_kept => {
                let run = run.clone();
                tokio::spawn(async move { run.suspend_within(PATIENCE).await });
            }
            _ => run.cancel(),
        }
    }
}

/// Suspends a run before its first step: what it is given is kept, and nothing is done about it.
pub(super) struct Suspended;

impl RunObserver for Suspended {
    fn begin(&self, start: RunStart<'_>) -> Result<(), Error> {
        start.suspender.suspend();
        Ok(())
    }
}

/// The signals that end a run.
pub(super) type Signals = EndSignals;

/// Catches them from now on.
pub(super) fn catch() -> io::Result<Signals> {
    EndSignals::catch(Hangup::EndsUnlessIgnored)
}

/// Calls `stop` at the first of them, and tells; at the second calls `quit` and ends the process. It is a task of its own, so that it
/// works while the program waits for a reader of its output.
pub(super) fn watch(
    mut signal: Signals,
    stop: impl FnOnce(HowToStop) + Send + 'static,
    quit: impl FnOnce() + Send + 'static,
) -> mpsc::Receiver<HowToStop> {
    let (tell, told) = mpsc::channel(1);
    tokio::spawn(async move {
        let how = HowToStop::from(signal.recv().await);
        stop(how);
        // The receiver may be gone already: the run is over then.
        let _ = tell.send(how).await;
        signal.recv().await;
        quit();
        std::process::exit(i32::from(Exit::Interrupted.number()));
    });
    told
}
