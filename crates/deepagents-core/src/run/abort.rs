//! Halting a run from outside: cancellation and deadlines.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, poll};
use tokio::time::Instant;

use super::driver::Driver;
use crate::context::Shared;
use crate::error::{Error, Result};
use crate::panics::caught_async;
use crate::status::FinishReason;

/// How long the journal may take to respond after the run is halted.
const JOURNAL_GRACE: Duration = Duration::from_secs(5);

/// The run was halted from outside.
pub(super) struct Halt(pub(super) FinishReason);

/// Why a step ended early. A halt is not a failure.
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
    /// Awaits a future, unless the run is halted first.
    pub(super) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Halt> {
        let mut work = pin!(work);
        // Most hooks are ready on the first poll and need no halt listener.
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

    /// Awaits third-party code. A panic in it fails the run like any other error.
    pub(super) async fn guard_foreign<T>(&self, work: impl Future<Output = Result<T>>) -> Result<Result<T>, Halt> {
        let panicked = |panic: String| Err(Error::panicked(&panic));
        self.guard(caught_async(work).map(|done| done.unwrap_or_else(panicked))).await
    }

    /// Returns whether the run has been halted from outside.
    pub(super) fn is_halted(&self) -> bool {
        self.shared.cancel.is_cancelled() || self.shared.budget.is_overdue()
    }

    /// Completes when the run is halted from outside.
    pub(super) async fn halted(&self) -> FinishReason {
        halted(&self.shared).await
    }
}

/// Completes when a run is halted from outside.
pub(super) async fn halted(shared: &Shared) -> FinishReason {
    let deadline = async {
        match shared.budget.deadline() {
            // Tokio's timer has millisecond granularity; a deadline that has passed must complete at once.
            Some(deadline) if deadline <= Instant::now() => {}
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = shared.cancel.cancelled() => {
            // A parent run may have noticed the deadline first.
            if shared.budget.is_overdue() { FinishReason::Deadline } else { FinishReason::Cancelled }
        }
        () = deadline => FinishReason::Deadline,
    }
}

/// Completes once a run has been halted from outside and its journal has had a grace period to respond. Until then the
/// run waits for its journal, including when only a sub-agent is ended and its work must be saved.
pub(super) async fn halt_grace_elapsed(shared: &Shared) {
    halted(shared.root.as_deref().unwrap_or(shared)).await;
    tokio::time::sleep(JOURNAL_GRACE).await;
}
