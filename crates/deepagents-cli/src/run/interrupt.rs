//! Ctrl-C, SIGTERM and a terminal that closes: once to end cleanly, twice to quit.

use std::io;

use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::stopping::{EndSignals, Hangup};

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
    stop: impl FnOnce() + Send + 'static,
    quit: impl FnOnce() + Send + 'static,
) -> mpsc::Receiver<()> {
    let (tell, told) = mpsc::channel(1);
    tokio::spawn(async move {
        signal.recv().await;
        stop();
        // The receiver may be gone already: the run is over then.
        let _ = tell.send(()).await;
        signal.recv().await;
        quit();
        std::process::exit(i32::from(Exit::Interrupted.number()));
    });
    told
}
