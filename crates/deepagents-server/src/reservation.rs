//! Reservations of names among all processes on the storage, so that what a request checks before it creates something
//! still holds when it creates it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents_core::store::{Expected, Store, StoreError, Write};
use serde_json::json;

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::{ids, records};

/// How long a reservation outlives a process that was killed. A live process renews it.
const RESERVATION_TTL: Duration = Duration::from_secs(10);

/// Pause between attempts to reserve a name.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// How long to wait for a name.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(30);

/// What a reservation protects.
pub(crate) enum Name<'a> {
    /// A thread whose id a client has chosen.
    Thread(&'a str),
    /// A caller whose runs are counted.
    Caller(&'a str),
}

impl Name<'_> {
    /// Returns the key of the reservation. The id is hashed because it may contain characters that a key may not.
    fn key(&self) -> String {
        let words = match self {
            Self::Thread(id) => ["thread", id],
            Self::Caller(id) => ["caller", id],
        };
        ids::derived(&words).to_string()
    }
}

fn namespace() -> Vec<String> {
    records::namespace(&["reservations"])
}

/// Runs a future while holding the reservation of a name. A caller that needs two names reserves the thread first.
pub(crate) async fn with_reservation<T>(app: &App, name: Name<'_>, what: impl Future<Output = Result<T>>) -> Result<T> {
    let mut reserved = Reserved::take(app, name.key()).await?;
    let mut what = pin!(what);
    let done = loop {
        tokio::select! {
            done = &mut what => break done,
            () = tokio::time::sleep(RESERVATION_TTL / 3) => reserved.renew().await?,
        }
    };
    reserved.release().await;
    done
}

/// A held reservation. Dropping it releases the name, for example when a client disconnects while its request waits.
struct Reserved {
    store: Arc<dyn Store>,
    key: String,
    process: String,
    /// The version at which the reservation is held, or `None` once it is lost.
    version: Option<u64>,
}

impl Reserved {
    async fn take(app: &App, key: String) -> Result<Self> {
        let mut reserved = Self { store: app.store.clone(), key, process: app.process.to_string(), version: None };
        let since = Instant::now();
        loop {
            match reserved.write(RESERVATION_TTL).await {
                Ok(()) => return Ok(reserved),
                Err(StoreError::Conflict { .. }) if since.elapsed() < RESERVE_TIMEOUT => {
                    tokio::time::sleep(RETRY_DELAY).await
                }
                Err(StoreError::Conflict { .. }) => {
                    return Err(ApiError::unavailable("too many requests for this at the same time; try again"));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Extends the reservation. If the storage is unavailable for a moment, the reservation lasts as long as it was
    /// granted for.
    async fn renew(&mut self) -> Result<()> {
        match self.write(RESERVATION_TTL).await {
            Err(StoreError::Conflict { .. }) => {
                self.version = None;
                Err(ApiError::unavailable("this took so long that another request intervened; try again"))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn write(&mut self, life: Duration) -> Result<(), StoreError> {
        let write = Write { ttl: Some(life), expected: Expected::Version(self.version), ..Write::default() };
        let item = self.store.write(&namespace(), &self.key, json!(self.process), write).await?;
        self.version = Some(item.version);
        Ok(())
    }

    /// Releases the name, unless another process has reserved it by now.
    async fn release(mut self) {
        let Some(version) = self.version.take() else { return };
        free(self.store.clone(), std::mem::take(&mut self.key), version).await;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let (Some(version), Ok(runtime)) = (self.version, tokio::runtime::Handle::try_current()) {
            runtime.spawn(free(self.store.clone(), std::mem::take(&mut self.key), version));
        }
    }
}

/// Expires the reservation at exactly this version, never a later one. If this fails, the reservation expires by
/// itself.
async fn free(store: Arc<dyn Store>, key: String, version: u64) {
    let write = Write { ttl: Some(Duration::ZERO), expected: Expected::Version(Some(version)), ..Write::default() };
    let _ = store.write(&namespace(), &key, json!(null), write).await;
}
