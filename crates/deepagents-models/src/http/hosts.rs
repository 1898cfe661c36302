//! Limits the requests to a host, and spreads them over its connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::model::ModelError;
use reqwest::Version;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Default for the maximum number of requests to a host at once, which is also the most connections that it gets over
/// HTTP/1.1. The official Python clients of OpenAI and Anthropic have the same limit.
pub(super) const MAX_REQUESTS: usize = 1_000;

/// Number of requests that share an HTTP/2 connection. Servers allow a hundred or more; requests above their limit would
/// wait in the connection, and the time would count as the server's.
const REQUESTS_PER_CONNECTION: usize = 100;

/// The requests to one host.
pub(crate) struct Host {
    permits: Arc<Semaphore>,
    /// Whether the host speaks HTTP/2, as far as is known.
    http2: AtomicBool,
    /// Number of requests by connection. Over HTTP/1.1, all are counted as the first's.
    requests: Mutex<Vec<usize>>,
}

/// Permission to send a request to a host. Held until the response has been read.
pub(crate) struct Slot {
    host: Arc<Host>,
    /// Number of the connection, from 0; each belongs to an HTTP client of its own, because a client opens one HTTP/2
    /// connection to a host.
    pub(super) connection: usize,
    _permit: OwnedSemaphorePermit,
}

impl Host {
    /// Creates a host that no request was sent to. `http2` is what to assume until it answers.
    pub(super) fn new(limit: usize, http2: bool) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(limit)), http2: AtomicBool::new(http2), requests: Mutex::default() }
    }

    /// Waits until a request can be sent; in the order of the calls.
    pub(crate) async fn slot(self: &Arc<Self>) -> Result<Slot, ModelError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| ModelError::transport("the HTTP client was closed"))?;
        Ok(Slot { connection: self.take_connection(), host: Arc::clone(self), _permit: permit })
    }

    /// Counts a request as that of the first connection with room.
    fn take_connection(&self) -> usize {
        let mut requests = self.requests();
        let room = if self.http2.load(Ordering::Relaxed) { REQUESTS_PER_CONNECTION } else { usize::MAX };
        let free = requests.iter().position(|count| *count < room).unwrap_or(requests.len());
        match requests.get_mut(free) {
            Some(count) => *count += 1,
            None => requests.push(1),
        }
        free
    }

    fn requests(&self) -> MutexGuard<'_, Vec<usize>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Learns from a response which protocol the host speaks.
    pub(super) fn answered(&self, version: Version) {
        let http2 = version >= Version::HTTP_2;
        if self.host.http2.load(Ordering::Relaxed) != http2 {
            self.host.http2.store(http2, Ordering::Relaxed);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(count) = self.host.requests().get_mut(self.connection) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn connections(host: &Arc<Host>, requests: usize) -> Vec<Slot> {
        let mut slots = Vec::new();
        for _ in 0..requests {
            slots.push(host.slot().await.expect("a slot"));
        }
        slots
    }

    #[tokio::test]
    async fn requests_over_http2_are_spread_over_connections_and_fill_the_first_ones_again() {
        let host = Arc::new(Host::new(1_000, true));
        let mut slots = connections(&host, 250).await;
        assert_eq!(slots.iter().map(|slot| slot.connection).max(), Some(2));
        assert_eq!(*host.requests(), [100, 100, 50]);
        slots.drain(..30);
        assert_eq!(connections(&host, 30).await.iter().map(|slot| slot.connection).max(), Some(0));
    }

    #[tokio::test]
    async fn a_host_that_answers_over_http1_gets_all_requests_from_one_client() {
        let host = Arc::new(Host::new(1_000, true));
        let first = connections(&host, 150).await;
        first[149].answered(Version::HTTP_11);
        assert_eq!(connections(&host, 500).await.iter().map(|slot| slot.connection).max(), Some(0));
        first[0].answered(Version::HTTP_2);
        drop(first);
        assert_eq!(connections(&host, 101).await.last().map(|slot| slot.connection), Some(1));
    }
}
