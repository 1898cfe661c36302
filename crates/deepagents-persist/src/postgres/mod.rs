//! Threads and long-term memory on Postgres.

mod append;
mod checkout;
mod error;
mod executor;
mod open;
mod options;
mod releases;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use deepagents_core::env::Clock;
use deepagents_core::journal::{Appended, Claim, Fence, JournalError};
use futures_core::future::BoxFuture;
use tokio_postgres::IsolationLevel;

use crate::append::Batch;
use crate::database::{Database, JournalFuture};
use crate::error::DatabaseError;
use crate::executor::{Access, Engine, Work, WorkError};
use crate::log::PackedSnapshot;
use crate::{blobs, check, lease};
use checkout::{Checkout, ResponseTimeout};
use error::explain_pool;
use executor::{Connection, PostgresExecutor};
pub use options::PostgresOptions;
use releases::Releases;

/// Threads and long-term memory on Postgres, for any number of processes and machines.
///
/// Leases follow the server's clock. Clones share the connection pool. Every wait has a limit, see [`PostgresOptions`].
/// Dropping a call before it completes closes its connection, since its response would still be pending.
///
/// Within a process, a released thread can be claimed immediately, even if the release is still in flight, for example
/// after a run was dropped. Other processes can claim it once the server has processed the release.
///
/// ```no_run
/// use deepagents_persist::Postgres;
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Postgres::connect("postgres://agent@db.internal/agents").await?;
/// # Ok(()) }
/// ```
pub type Postgres = Database<PostgresEngine>;

/// A pool of connections to a Postgres server.
pub struct PostgresEngine {
    pool: Pool,
    /// Name for messages, without a password.
    database: Arc<str>,
    /// How long to wait for a response.
    limit: Duration,
    clock: Option<Arc<dyn Clock>>,
    releases: Releases,
}

impl Postgres {
    /// Connects with the default options, without encryption.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached, or if the schema belongs to another program or a newer
    /// version.
    pub async fn connect(url: &str) -> Result<Self, DatabaseError> {
        PostgresOptions::default().connect(url).await
    }

    /// Reads all threads and items, and looks for missing blobs.
    ///
    /// # Errors
    /// Returns [`DatabaseError::Damaged`], listing all damage found.
    pub async fn check(&self) -> Result<(), DatabaseError> {
        check::find_damage(&*self.engine).await
    }
}

impl PostgresEngine {
    async fn checkout(&self) -> Result<Checkout, DatabaseError> {
        self.pool.get().await.map(Checkout::new).map_err(|error| explain_pool(&self.database, &error))
    }

    /// Returns the injected time in milliseconds, or `None` to use the server's clock.
    fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_millisecond())
    }
}

impl Engine for PostgresEngine {
    fn run<T: Send + 'static, E: WorkError>(
        &self,
        access: Access,
        work: impl Work<T, E>,
    ) -> BoxFuture<'_, Result<T, E>> {
        Box::pin(async move {
            let (mut checkout, now) = (self.checkout().await?, self.now());
            let timeout = ResponseTimeout::new(&self.database, self.limit);
            let done = run_on(checkout.client()?, &timeout, now, access, work).await;
            if !timeout.is_broken() {
                checkout.give_back();
            }
            done
        })
    }

    fn append(&self, batch: Batch) -> JournalFuture<'_, Appended> {
        Box::pin(self.append_batch(batch))
    }

    fn put_snapshot(&self, snapshot: PackedSnapshot) -> JournalFuture<'_, u64> {
        Box::pin(async move {
            let snapshot = Arc::new(snapshot);
            if !snapshot.packed.blobs.is_empty() {
                let texts = snapshot.clone();
                let stored = self
                    .run(Access::Statement, move |db| Box::pin(async move { blobs::store(db, &texts.packed).await }));
                stored.await.map_err(JournalError::from)?;
            }
            self.run(Access::Transaction, move |db| Box::pin(async move { snapshot.write(db).await })).await
        })
    }

    fn claim(&self, thread: String, claim: Claim) -> JournalFuture<'_, Fence> {
        Box::pin(async move {
            // The time limit covers releases that nobody polls.
            let _ = tokio::time::timeout(self.limit, self.releases.wait(&thread)).await;
            self.run(Access::Transaction, move |db| Box::pin(lease::claim(db, thread, claim))).await
        })
    }

    fn release(&self, thread: String, fence: Fence) -> JournalFuture<'_, ()> {
        let pending = self.releases.begin(&thread);
        Box::pin(async move {
            let released = self.run(Access::Statement, move |db| Box::pin(lease::release(db, thread, fence)));
            let released = released.await;
            drop(pending);
            released
        })
    }
}

/// Runs `work` on a connection, in a transaction if `access` requires one.
async fn run_on<T, E: WorkError>(
    client: &mut Object,
    timeout: &ResponseTimeout<'_>,
    now: Option<i64>,
    access: Access,
    work: impl Work<T, E>,
) -> Result<T, E> {
    if matches!(access, Access::Query | Access::Statement) {
        return work(&PostgresExecutor { connection: Connection::Single(client), timeout, now }).await;
    }
    let mut transaction = client.build_transaction();
    if access == Access::Snapshot {
        transaction = transaction.isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    }
    let connection = Connection::Transaction(timeout.wait(transaction.start()).await?);
    let executor = PostgresExecutor { connection, timeout, now };
    let done = work(&executor).await?;
    if let Connection::Transaction(transaction) = executor.connection {
        timeout.wait(transaction.commit()).await?;
    }
    Ok(done)
}

impl std::fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresEngine").field("database", &self.database).finish_non_exhaustive()
    }
}
