//! Ctrl-C: once to end cleanly, twice to quit.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::Exit;

/// Catches Ctrl-C from now on.
pub(super) fn catch() -> io::Result<Signal> {
    signal(SignalKind::interrupt())
}

/// Calls `stop` at the first Ctrl-C, and tells; ends the process at the second. It is a task of its own, so that it
/// works while the program waits for a reader of its output.
pub(super) fn watch(mut signal: Signal, stop: impl FnOnce() + Send + 'static) -> mpsc::Receiver<()> {
    let (tell, told) = mpsc::channel(1);
    tokio::spawn(async move {
        if signal.recv().await.is_some() {
            stop();
            // The receiver may be gone already: the run is over then.
            let _ = tell.send(()).await;
        }
        if signal.recv().await.is_some() {
            std::process::exit(i32::from(Exit::Interrupted.number()));
        }
    });
    told
}
