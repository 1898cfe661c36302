//! Ctrl-C, SIGTERM and a closing terminal: the first signal ends the run cleanly, the second quits.

use std::io;
use std::time::Duration;

use deepagents::core::error::Error;
use deepagents::core::run::RunStart;
use deepagents::{RunHandle, RunObserver};
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::stopping::{EndSignal, EndSignals, Hangup};

/// How long a run may take to reach a step from which it can be resumed.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// How to stop a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HowToStop {
    /// Ctrl-C: the user ends it.
    Cancel,
    /// SIGTERM or SIGHUP: its process ends, and it can be resumed later.
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
    /// Returns the message about it.
    pub(super) fn notice(self) -> &'static str {
        match self {
            Self::Cancel => "stopping; Ctrl-C again quits at once",
            Self::Leave => "stopping at the next step; another signal quits at once",
        }
    }

    /// Stops a run. A run that is not saved is cancelled, since it cannot be resumed.
    pub(super) fn stop(self, run: &RunHandle, is_kept: bool) {
        match self {
            Self::Leave if is_kept => {
                let run = run.clone();
                tokio::spawn(async move { run.suspend_within(STOP_TIMEOUT).await });
            }
            _ => run.cancel(),
        }
    }
}

/// Suspends a run before its first step: its input is saved, but not acted on.
pub(super) struct Suspended;

impl RunObserver for Suspended {
    fn begin(&self, start: RunStart<'_>) -> Result<(), Error> {
        start.suspender.suspend();
        Ok(())
    }
}

/// The signals that end a run.
pub(super) type Signals = EndSignals;

/// Installs the signal handlers.
pub(super) fn catch() -> io::Result<Signals> {
    EndSignals::catch(Hangup::EndsUnlessIgnored)
}

/// At the first signal, calls `stop` and sends how to the receiver; at the second, calls `quit` and ends the process.
/// Runs as a task of its own, so that it works while the program waits for a reader of its output.
pub(super) fn watch(
    mut signal: Signals,
    stop: impl FnOnce(HowToStop) + Send + 'static,
    quit: impl FnOnce() + Send + 'static,
) -> mpsc::Receiver<HowToStop> {
    let (tell, told) = mpsc::channel(1);
    tokio::spawn(async move {
        let how = HowToStop::from(signal.recv().await);
        stop(how);
        // If the receiver was dropped, the run is over.
        let _ = tell.send(how).await;
        signal.recv().await;
        quit();
        std::process::exit(i32::from(Exit::Interrupted.number()));
    });
    told
}
