//! The threads that run asynchronous work.

use std::future::Future;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use rustix::process::Signal;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// How long the program waits at its end for the remaining work of a run.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

/// Starts a runtime with two worker threads: the program waits far more than it works.
pub(crate) fn start() -> Result<Runtime> {
    let runtime =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| no_threads(&error))?;
    outlive_file_limits(runtime.handle());
    Ok(runtime)
}

/// A single thread on which a run works, while another shows its progress and may block on a slow reader.
///
/// The steps of a run are sequential. More threads would wake each other only to find the work done, which costs a run
/// of many quick calls a fifth of its time.
#[derive(Debug)]
pub(crate) struct RunThread {
    handle: Handle,
    stop: oneshot::Sender<()>,
    ended: Receiver<()>,
}

impl RunThread {
    pub(crate) fn start() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| no_threads(&error))?;
        let handle = runtime.handle().clone();
        outlive_file_limits(&handle);
        let (stop, stopped) = oneshot::channel::<()>();
        let (ending, ended) = mpsc::channel();
        let work = move || {
            // An error means that the handle was dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
            drop(ending);
        };
        thread::Builder::new().name("run".to_owned()).spawn(work).map_err(|error| no_threads(&error))?;
        Ok(Self { handle, stop, ended })
    }

    /// Runs a future on the calling thread; tasks that it spawns run on the run's thread.
    pub(crate) fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.handle.block_on(work)
    }

    /// Drops the remaining work. A tool that ignores cancellation does not hold up the program.
    pub(crate) fn shutdown(self) {
        let _ = self.stop.send(());
        let _ = self.ended.recv_timeout(SHUTDOWN_TIMEOUT);
    }
}

/// Catches SIGXFSZ, so that a file at its size limit (`ulimit -f`) is a write error instead of the silent end of the
/// program.
fn outlive_file_limits(runtime: &Handle) {
    let _within = runtime.enter();
    // The handler stays installed. If it cannot be installed, the signal still ends the program.
    let _ = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
}

fn no_threads(error: &std::io::Error) -> anyhow::Error {
    anyhow!("the program could not start its threads: {error}")
}
