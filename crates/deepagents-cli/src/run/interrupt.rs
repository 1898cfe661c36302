//! Ctrl-C, SIGTERM and a closing terminal: the first signal ends the run cleanly, the second quits.

use std::io;
use std::time::Duration;

use deepagents::core::error::Error;
use deepagents::core::run::RunStart;
use deepagents::{RunHandle, RunObserver};
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::stopping::{EndSignals, Hangup, HowToStop};

/// How long a run may take to reach a step from which it can be resumed.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(2);

impl HowToStop {
    /// Returns the message about it.
    pub(super) fn notice(self) -> &'static str {
        match self {
            Self::Cancel => "stopping; Ctrl-C again quits at once",
            Self::Leave => "stopping at the next step; another signal quits at once",
        }
    }

    /// Stops a run. A run that is not saved is cancelled, since it cannot be resumed.
    pub(crate) fn stop(self, run: &RunHandle, is_kept: bool) {
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

/// Installs the signal handlers.
pub(super) fn catch() -> io::Result<EndSignals> {
    EndSignals::catch(Hangup::EndsUnlessIgnored)
}

/// At the first signal, calls `stop` and sends how to the receiver; at the second, calls `quit` and ends the process.
/// Runs as a task of its own, so that it works while the program waits for a reader of its output.
pub(super) fn watch(
    mut signal: EndSignals,
    stop: impl FnOnce(HowToStop) + Send + 'static,
    quit: impl FnOnce() + Send + 'static,
) -> mpsc::Receiver<HowToStop> {
    let (tell, told) = mpsc::channel(1);
    tokio::spawn(async move {
        let how = signal.recv().await;
        stop(how);
        // If the receiver was dropped, the run is over.
        let _ = tell.send(how).await;
        signal.recv().await;
        quit();
        std::process::exit(i32::from(Exit::Interrupted.number()));
    });
    told
}
