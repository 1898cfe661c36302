//! Threads and long-term memory on Postgres.

mod append;
mod error;
mod executor;
mod open;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use deepagents_core::env::Clock;
use deepagents_core::journal::Appended;
use futures_core::future::BoxFuture;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};
use tokio_postgres::{Config, IsolationLevel, Socket};

use crate::database::{Database, JournalFuture};
use crate::error::DatabaseError;
use crate::executor::{Access, Engine, Executor};
use crate::log::Append;
use error::{explain, explain_pool};
use executor::{Connection, PostgresExecutor};

/// Threads and long-term memory on Postgres, for any number of processes and machines.
///
/// Leases follow the clock of the server. A clone shares the pool of connections.
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
    /// For messages, without a password.
    database: Arc<str>,
    clock: Option<Arc<dyn Clock>>,
}

/// How a [`Postgres`] is connected to.
#[derive(Clone)]
#[must_use]
pub struct PostgresOptions {
    schema: String,
    connections: usize,
    wait: Duration,
    clock: Option<Arc<dyn Clock>>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { schema: "deepagents".to_owned(), connections: 16, wait: Duration::from_secs(30), clock: None }
    }
}

impl PostgresOptions {
    /// The schema that holds the tables, `deepagents` by default; it is created where it does not exist.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// How many connections are kept at most; 16 by default.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// How long to wait for somebody else who keeps a thread or a table locked; 30 seconds by default.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Tells the time in place of the server's clock, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Connects without encryption, as over a socket or a private network.
    ///
    /// # Errors
    /// When the server cannot be reached, or the schema belongs to something else or a newer version.
    pub async fn connect(self, url: &str) -> Result<Postgres, DatabaseError> {
        self.connect_tls(url, NoTls).await
    }

    /// Connects with encryption as a connector of `tokio-postgres` makes it.
    ///
    /// # Errors
    /// When the server cannot be reached, or the schema belongs to something else or a newer version.
    pub async fn connect_tls<T>(self, url: &str, tls: T) -> Result<Postgres, DatabaseError>
    where
        T: MakeTlsConnect<Socket> + Clone + Sync + Send + 'static,
        T::Stream: Sync + Send,
        T::TlsConnect: Sync + Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let config = Config::from_str(url).map_err(|error| DatabaseError::Unavailable {
            database: "Postgres".to_owned(),
            reason: error.to_string(),
        })?;
        open::connect(self, config, tls).await
    }
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects with the default options, without encryption.
    ///
    /// # Errors
    /// When the server cannot be reached, or the schema belongs to something else or a newer version.
    pub async fn connect(url: &str) -> Result<Self, DatabaseError> {
        Self::options().connect(url).await
    }

    /// Options to connect with.
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }
}

impl PostgresEngine {
    async fn client(&self) -> Result<Object, DatabaseError> {
        self.pool.get().await.map_err(|error| explain_pool(&self.database, &error))
    }

    /// The injected time in milliseconds; none where the server's counts.
    fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_millisecond())
    }
}

impl Engine for PostgresEngine {
    fn run<'a, T, E, W>(&'a self, access: Access, work: W) -> BoxFuture<'a, Result<T, E>>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
        W: for<'c> FnOnce(&'c dyn Executor) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let explain = |error| explain(&self.database, &error);
        Box::pin(async move {
            let (mut client, now) = (self.client().await?, self.now());
            if matches!(access, Access::Query | Access::Statement) {
                let connection = Connection::Single(&client);
                return work(&PostgresExecutor { connection, database: &self.database, now }).await;
            }
            let mut transaction = client.build_transaction();
            if access == Access::Snapshot {
                transaction = transaction.isolation_level(IsolationLevel::RepeatableRead).read_only(true);
            }
            let connection = Connection::Transaction(transaction.start().await.map_err(explain)?);
            let executor = PostgresExecutor { connection, database: &self.database, now };
            let done = work(&executor).await?;
            if let Connection::Transaction(transaction) = executor.connection {
                transaction.commit().await.map_err(explain)?;
            }
            Ok(done)
        })
    }

    fn append(&self, append: Append) -> JournalFuture<'_, Appended> {
        Box::pin(async move {
            let batch = append.encode()?;
            let at_once = !batch.events.is_empty() && batch.events.iter().all(|(packed, _)| packed.blobs.is_empty());
            if at_once && self.append_at_once(&batch).await? > 0 {
                return Ok(batch.appended());
            }
            // Nothing was appended: this does it, or says why not.
            self.run(Access::Transaction, move |db| Box::pin(async move { batch.write(db).await })).await
        })
    }
}

impl std::fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresEngine").field("database", &self.database).finish_non_exhaustive()
    }
}
