//! What ends a run before its end.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, poll};
use tokio::time::Instant;

use super::driver::Driver;
use crate::context::Shared;
use crate::error::{Error, Result};
use crate::panics::panic_text;
use crate::status::FinishReason;

/// How long a journal may take to answer when the run is halted.
const JOURNAL_GRACE: Duration = Duration::from_secs(5);

/// A run came to a halt from outside.
pub(super) struct Halt(pub(super) FinishReason);

/// Ends a step: a halt is no failure.
pub(super) enum Break {
    Halt(Halt),
    /// A call waits for a decision.
    Wait,
    Fail(Error),
}

impl<E: Into<Error>> From<E> for Break {
    fn from(error: E) -> Self {
        Self::Fail(error.into())
    }
}

impl Driver {
    /// Waits for something, unless the run is halted first.
    pub(super) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Halt> {
        let mut work = pin!(work);
        // Most hooks have nothing to wait for: what is done at once needs nobody who listens for a halt.
        if !self.is_halted()
            && let Poll::Ready(value) = poll!(work.as_mut())
        {
            return Ok(value);
        }
        tokio::select! {
            biased;
            stop = self.halted() => Err(Halt(stop)),
            value = work => Ok(value),
        }
    }

    /// Waits for code that is not ours: a panic in it fails the run like any other error.
    pub(super) async fn guard_foreign<T>(&self, work: impl Future<Output = Result<T>>) -> Result<Result<T>, Halt> {
        let work = AssertUnwindSafe(work).catch_unwind();
        let caught = |panic: Box<dyn Any + Send>| Error::other(format!("it panicked: {}", panic_text(&*panic)));
        self.guard(async { work.await.unwrap_or_else(|panic| Err(caught(panic))) }).await
    }

    /// Whether the run has been halted from outside.
    pub(super) fn is_halted(&self) -> bool {
        let late = || self.shared.budget.deadline().is_some_and(|deadline| deadline <= Instant::now());
        self.shared.cancel.is_cancelled() || late()
    }

    /// Ends when the run is halted from outside.
    pub(super) async fn halted(&self) -> FinishReason {
        halted(&self.shared).await
    }
}

/// Ends when a run is halted from outside.
pub(super) async fn halted(shared: &Shared) -> FinishReason {
    let deadline = async {
        match shared.budget.deadline() {
            // The timer ticks in milliseconds; a deadline that has passed is known at once.
            Some(deadline) if deadline <= Instant::now() => {}
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = shared.cancel.cancelled() => {
            // A run above may have noticed first that the time is up.
            let late = shared.budget.deadline().is_some_and(|deadline| deadline <= Instant::now());
            if late { FinishReason::Deadline } else { FinishReason::Cancelled }
        }
        () = deadline => FinishReason::Deadline,
    }
}

/// Ends when a run is halted from outside and its journal has had time to answer all the same. As long as it goes on it
/// waits for its journal, also to keep what a sub-agent has done that is ended alone.
pub(super) async fn halted_long_ago(shared: &Shared) {
    halted(shared.root.as_deref().unwrap_or(shared)).await;
    tokio::time::sleep(JOURNAL_GRACE).await;
}
