//! What is looked at before something is made is still so when it is: whoever makes it has its name for themselves
//! meanwhile, among all processes on the storage.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deepagents_core::store::{Expected, Store, StoreError, Write};
use serde_json::json;

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::ids;

/// How long a name stays with a process that was killed; one that lives has it for longer by asking again.
const LIFE: Duration = Duration::from_secs(10);

/// Between one try to have a name and the next.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a name is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What only one at a time does something with.
pub(crate) enum Name<'a> {
    /// A thread that a client has given its id.
    Thread(&'a str),
    /// A caller whose runs are counted.
    Caller(&'a str),
}

impl Name<'_> {
    /// Hashed, as a name may hold what a key may not.
    fn key(&self) -> String {
        let words = match self {
            Self::Thread(id) => ["thread", id],
            Self::Caller(id) => ["caller", id],
        };
        ids::derived(&words).to_string()
    }
}

fn namespace() -> [String; 2] {
    ["deepagents-server".to_owned(), "reservations".to_owned()]
}

/// Does something with a name while nobody else does. Who needs two of them has the thread's first.
pub(crate) async fn alone<T>(app: &App, name: Name<'_>, what: impl Future<Output = Result<T>>) -> Result<T> {
    let mut reserved = Reserved::take(app, name.key()).await?;
    let mut what = pin!(what);
    let done = loop {
        tokio::select! {
            done = &mut what => break done,
            () = tokio::time::sleep(LIFE / 3) => reserved.renew().await?,
        }
    };
    reserved.release().await;
    done
}

/// A name that is one's own. It is free again when this is dropped, as where a client goes away while its request waits.
struct Reserved {
    store: Arc<dyn Store>,
    key: String,
    process: String,
    /// At which it is one's own; none once it is not.
    version: Option<u64>,
}

impl Reserved {
    async fn take(app: &App, key: String) -> Result<Self> {
        let mut reserved = Self { store: app.store.clone(), key, process: app.process.to_string(), version: None };
        let since = Instant::now();
        loop {
            match reserved.write(LIFE).await {
                Ok(()) => return Ok(reserved),
                Err(StoreError::Conflict { .. }) if since.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
                Err(StoreError::Conflict { .. }) => {
                    return Err(ApiError::unavailable("too many ask for this at the same moment; try it again"));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Has it for longer. Where the storage is away for a moment, it is one's own for as long as it was to be.
    async fn renew(&mut self) -> Result<()> {
        match self.write(LIFE).await {
            Err(StoreError::Conflict { .. }) => {
                self.version = None;
                Err(ApiError::unavailable("this took so long that another request came between; try it again"))
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

    /// Lets others have it, unless they have it by now.
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

/// Ends what is at a version, and nothing that came after it. Where this fails it ends by itself.
async fn free(store: Arc<dyn Store>, key: String, version: u64) {
    let write = Write { ttl: Some(Duration::ZERO), expected: Expected::Version(Some(version)), ..Write::default() };
    let _ = store.write(&namespace(), &key, json!(null), write).await;
}
