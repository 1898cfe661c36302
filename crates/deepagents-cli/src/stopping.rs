//! Ending a program that serves another one: the peer hangs up, or a signal arrives. Either way, what it started is
//! stopped.

use std::io::{self, IsTerminal};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Whether the program ends when its terminal closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// It ends, even under `nohup`.
    Ends,
    /// It ends, unless it was started to outlive the terminal, for example with `nohup`.
    EndsUnlessIgnored,
}

/// What a signal means for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HowToStop {
    /// Ctrl-C: the user ends it.
    Cancel,
    /// SIGTERM or SIGHUP: its process ends, and it can be resumed later.
    Leave,
}

/// The signals that end a program: Ctrl-C, SIGTERM and SIGHUP.
pub(crate) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl EndSignals {
    /// Installs the signal handlers.
    pub(crate) fn catch(hangup: Hangup) -> io::Result<Self> {
        let catches = hangup == Hangup::Ends || !hangup_is_ignored();
        let hangup = catches.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())?, hangup })
    }

    /// Waits for a signal. A closing terminal sends SIGHUP more than once; only the first counts.
    pub(crate) async fn recv(&mut self) -> HowToStop {
        let Self { interrupt, terminate, hangup } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => HowToStop::Cancel,
            _ = terminate.recv() => HowToStop::Leave,
            _ = hung_up => {
                self.hangup = None;
                HowToStop::Leave
            }
        }
    }
}

/// Whether the program was started with SIGHUP ignored. If the kernel does not say, a program that writes to no
/// terminal is assumed to be meant to outlive it.
fn hangup_is_ignored() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return !io::stdout().is_terminal() && !io::stderr().is_terminal();
    };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit stands for signal 1, which is SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Input that ends when stopped, even if its writer stays connected.
pub(crate) struct UntilStopped<R> {
    input: R,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<R> UntilStopped<R> {
    pub(crate) fn new(input: R, stop: &CancellationToken) -> Self {
        Self { input, stopped: Box::pin(stop.clone().cancelled_owned()) }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilStopped<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.stopped.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.input).poll_read(cx, buffer)
    }
}
