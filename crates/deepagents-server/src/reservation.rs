//! What is looked at before something is made is still so when it is: whoever makes it has its name for themselves
//! meanwhile, among all processes on the storage.

use std::future::Future;
use std::time::{Duration, Instant};

use deepagents_core::store::{Expected, StoreError, Write};
use serde_json::json;

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::ids;

/// How long a name stays with a process that was killed.
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
    let (key, since) = (name.key(), Instant::now());
    let write = Write { ttl: Some(LIFE), expected: Expected::Version(None), ..Write::default() };
    loop {
        match app.store.write(&namespace(), &key, json!(app.process), write).await {
            Ok(_) => break,
            Err(StoreError::Conflict { .. }) if since.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
            Err(StoreError::Conflict { .. }) => {
                return Err(ApiError::unavailable("too many ask for this at the same moment; try it again"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let done = what.await;
    // Where this fails it ends by itself.
    let _ = app.store.delete(&namespace(), &key).await;
    done
}
