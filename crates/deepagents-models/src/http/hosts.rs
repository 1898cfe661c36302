//! Limits the requests to a host, and spreads them over its connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::model::ModelError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Default for the maximum number of requests to a host at once, which is also the most connections that it gets. The
/// official Python clients of OpenAI and Anthropic have the same limit.
pub(super) const MAX_REQUESTS: usize = 1_000;

/// Number of requests that may share an HTTP/2 connection. Servers allow a hundred or more; requests above their limit
/// would wait in the connection, and the time would count as the server's.
pub(super) const REQUESTS_PER_CONNECTION: usize = 100;

/// The requests to one host.
pub(crate) struct Host {
    semaphore: Arc<Semaphore>,
    /// Maximum number of requests that one HTTP client sends to it at once.
    per_client: usize,
    /// Number of requests by client.
    requests: Mutex<Vec<usize>>,
}

/// Permission to send a request to a host. Held until the response has been read.
pub(crate) struct Slot {
    host: Arc<Host>,
    /// Number of the HTTP client that sends the request, from 0. A client opens one HTTP/2 connection to a host.
    pub(super) client: usize,
    _permit: OwnedSemaphorePermit,
}

impl Host {
    /// Creates a host that no request was sent to.
    pub(super) fn new(limit: usize, per_client: usize) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        Self { semaphore: Arc::new(Semaphore::new(limit)), per_client, requests: Mutex::default() }
    }

    /// Waits until a request can be sent; in the order of the calls.
    pub(crate) async fn slot(self: &Arc<Self>) -> Result<Slot, ModelError> {
        let permit = Arc::clone(&self.semaphore).acquire_owned().await;
        let permit = permit.map_err(|_| ModelError::transport("the HTTP client was closed"))?;
        Ok(Slot { client: self.choose_client(), host: Arc::clone(self), _permit: permit })
    }

    /// Counts a request as that of the first client with room.
    fn choose_client(&self) -> usize {
        let mut requests = self.requests();
        let free = requests.iter().position(|count| *count < self.per_client).unwrap_or(requests.len());
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

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(count) = self.host.requests().get_mut(self.client) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn slots(host: &Arc<Host>, requests: usize) -> Vec<Slot> {
        let mut slots = Vec::new();
        for _ in 0..requests {
            slots.push(host.slot().await.expect("a slot"));
        }
        slots
    }

    #[tokio::test]
    async fn requests_are_spread_over_clients_and_fill_the_first_ones_again() {
        let host = Arc::new(Host::new(1_000, 100));
        let mut open = slots(&host, 250).await;
        assert_eq!(open.iter().map(|slot| slot.client).max(), Some(2));
        assert_eq!(*host.requests(), [100, 100, 50]);
        open.drain(..30);
        assert_eq!(slots(&host, 30).await.iter().map(|slot| slot.client).max(), Some(0));
    }
}
