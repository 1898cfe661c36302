//! The threads that asynchronous work runs on.

use std::future::Future;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use rustix::process::Signal;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// How long the program stays for what a run has left behind.
const PATIENCE: Duration = Duration::from_millis(100);

/// Two of them: the program waits far more than it works.
pub(crate) fn start() -> Result<Runtime> {
    let runtime =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| no_threads(&error))?;
    outlive_file_limits(runtime.handle());
    Ok(runtime)
}

/// The one thread that a run works on while another shows what it does, which may have to wait for whoever reads.
///
/// Steps of a run follow on each other. With more threads each would wake the next to find the work done, which costs a
/// run of many quick calls a fifth of its time.
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
            // Whoever asks has ended or is gone.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
            drop(ending);
        };
        thread::Builder::new().name("run".to_owned()).spawn(work).map_err(|error| no_threads(&error))?;
        Ok(Self { handle, stop, ended })
    }

    /// Awaits something on the thread that asks; what it starts works on the thread of the run.
    pub(crate) fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.handle.block_on(work)
    }

    /// Drops what still goes on. A tool that ignores its end does not hold the program.
    pub(crate) fn shutdown(self) {
        let _ = self.stop.send(());
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

/// A file that may not grow any more (`ulimit -f`) is an error of whoever writes it, and no end of the program without a word.
fn outlive_file_limits(runtime: &Handle) {
    let _within = runtime.enter();
    // What is caught once is caught for good. Where it cannot be, the program ends as it did.
    let _ = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
}

fn no_threads(error: &std::io::Error) -> anyhow::Error {
    anyhow!("the program could not start its threads: {error}")
}
