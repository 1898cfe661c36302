//! Tracks when a connection was last used.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};
use tokio_util::io::InspectReader;

/// How long a connection may be idle in both directions.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Time at which the last byte was received from either side.
#[derive(Clone)]
pub(super) struct Activity(Arc<Mutex<Instant>>);

impl Activity {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wraps a stream to record its reads.
    pub(super) fn watch<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> impl AsyncRead + AsyncWrite + Unpin + use<S> {
        let activity = self.clone();
        InspectReader::new(stream, move |_| *activity.last() = Instant::now())
    }

    /// Waits until the connection has been idle for too long.
    pub(super) async fn ends(&self) {
        loop {
            let end = *self.last() + IDLE_TIMEOUT;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}
