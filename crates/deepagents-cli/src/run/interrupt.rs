//! Ctrl-C and SIGTERM: once to end cleanly, twice to quit.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::Exit;

/// The signals that end a run.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// Catches Ctrl-C and SIGTERM from now on.
pub(super) fn catch() -> io::Result<Signals> {
    Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
}

impl Signals {
    /// Waits for the next of them.
    pub(super) async fn recv(&mut self) -> Option<()> {
        tokio::select! {
            got = self.interrupt.recv() => got,
            got = self.terminate.recv() => got,
        }
    }
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
        if signal.recv().await.is_some() {
            stop();
            // The receiver may be gone already: the run is over then.
            let _ = tell.send(()).await;
        }
        if signal.recv().await.is_some() {
            quit();
            std::process::exit(i32::from(Exit::Interrupted.number()));
        }
    });
    told
}
