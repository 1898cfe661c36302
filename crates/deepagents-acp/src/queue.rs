//! A fair queue. Places are taken in the order of the requests, and their owners take turns.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A queue. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(Arc<Mutex<()>>);

/// A place in a queue. Awaiting it waits for those before it. Dropping it leaves the queue.
pub(crate) type Place = BoxFuture<'static, Turn>;

/// The turn of the first in the queue. Dropping it passes the turn on.
pub(crate) type Turn = OwnedMutexGuard<()>;

impl Queue {
    /// Takes the next place immediately, not at the first `await`.
    pub(crate) fn place(&self) -> Place {
        // Tokio's mutex is fair: waiters queue in the order of their first poll. Without `unconstrained`, a task that
        // has used up its cooperative budget would not be queued at its first poll.
        polled(tokio::task::unconstrained(self.0.clone().lock_owned()))
    }

    /// Whether anyone has a turn or a place.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// Polls a future once, immediately, so that its beginning does not depend on when it is awaited.
pub(crate) fn polled<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
    let mut work = work.boxed();
    match (&mut work).now_or_never() {
        Some(done) => future::ready(done).boxed(),
        None => work,
    }
}
