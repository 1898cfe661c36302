//! Threads and long-term memory on Postgres.

mod error;
mod log;
mod open;
mod rows;
mod store;
mod threads;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use deepagents_core::env::Clock;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};
use tokio_postgres::{Config, Socket};

use crate::error::{DatabaseError, Failure};
use error::PgError;

type Work<T> = Result<T, Failure<PgError>>;

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
#[derive(Clone)]
pub struct Postgres {
    pool: Pool,
    /// For messages, without a password.
    name: Arc<str>,
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

    async fn client(&self) -> Work<Object> {
        Ok(self.pool.get().await?)
    }

    /// The injected time; the server's where there is none.
    fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_millisecond())
    }

    fn explain(&self, error: &PgError) -> DatabaseError {
        error.explain(&self.name)
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("name", &self.name).finish_non_exhaustive()
    }
}
