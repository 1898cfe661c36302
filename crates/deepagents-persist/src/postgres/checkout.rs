//! Checked-out connections, and the time limit for responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;

use super::error::explain;
use crate::error::DatabaseError;

/// A connection checked out of the pool. [`give_back`](Self::give_back) returns it. If dropped instead, it is closed,
/// because a response may still be pending and its next user would have to wait for it.
pub(super) struct Checkout {
    client: Option<Object>,
}

impl Checkout {
    pub(super) fn new(client: Object) -> Self {
        Self { client: Some(client) }
    }

    /// Returns the connection, which is present until it is given back.
    pub(super) fn client(&mut self) -> Result<&mut Object, DatabaseError> {
        let missing = || DatabaseError::Other {
            database: "Postgres".to_owned(),
            reason: "a connection was used after it was returned".to_owned(),
        };
        self.client.as_mut().ok_or_else(missing)
    }

    /// Returns the connection to the pool.
    pub(super) fn give_back(mut self) {
        drop(self.client.take());
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

/// Waits for responses of the server, up to a time limit.
pub(super) struct ResponseTimeout<'a> {
    pub(super) database: &'a Arc<str>,
    limit: Duration,
    broken: AtomicBool,
}

impl<'a> ResponseTimeout<'a> {
    pub(super) fn new(database: &'a Arc<str>, limit: Duration) -> Self {
        Self { database, limit, broken: AtomicBool::new(false) }
    }

    /// Returns whether the connection must not be reused, because it was lost or a response did not arrive in time.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub(super) async fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, DatabaseError> {
        let answer = match tokio::time::timeout(self.limit, answer).await {
            Ok(answer) => answer.map_err(|error| explain(self.database, &error)),
            Err(_) => Err(DatabaseError::TimedOut {
                database: self.database.to_string(),
                reason: format!("the server has not answered a statement within {:?}", self.limit),
            }),
        };
        if matches!(answer, Err(DatabaseError::TimedOut { .. } | DatabaseError::Unavailable { .. })) {
            self.broken.store(true, Ordering::Relaxed);
        }
        answer
    }
}
