//! The end of a program that serves another one: the other one hangs up, or a signal comes. Either way what was started is
//! ended.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The signals that end a program: Ctrl-C, SIGTERM and, where a terminal that closes is to end it too, SIGHUP.
pub(crate) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl EndSignals {
    /// Catches them from now on. With SIGHUP a program does not outlive its terminal, whatever `nohup` says.
    pub(crate) fn catch(with_hangup: bool) -> io::Result<Self> {
        let hangup = with_hangup.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())?, hangup })
    }

    /// Waits for one.
    pub(crate) async fn recv(&mut self) {
        let Self { interrupt, terminate, hangup } = self;
        let hangup = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Input that ends when it is stopped, however long its writer stays.
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
