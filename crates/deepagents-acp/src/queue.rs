//! Places in a queue, taken in the order in which requests come and had one after the other.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A queue; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(Arc<Mutex<()>>);

/// A place in a queue. Awaiting it waits for those before it; one that is dropped is given up.
pub(crate) type Place = BoxFuture<'static, Turn>;

/// The turn of who is first in a queue. The next has it when this is dropped.
pub(crate) type Turn = OwnedMutexGuard<()>;

impl Queue {
    /// Takes the next place, now and not when it is awaited first.
    pub(crate) fn place(&self) -> Place {
        // A mutex is had in the order in which it was asked for, which it is once it was polled. A task that has done much
        // already would be told to come again later instead, and be in no line.
        let mut place = tokio::task::unconstrained(self.0.clone().lock_owned()).boxed();
        match (&mut place).now_or_never() {
            Some(turn) => future::ready(turn).boxed(),
            None => place,
        }
    }

    /// Whether somebody has a turn or a place.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
