//! How a Postgres is connected to.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::env::Clock;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};
use tokio_postgres::{Config, Socket};

use super::{Postgres, open};
use crate::error::DatabaseError;

/// How a [`Postgres`] is connected to, and how long is waited for what.
///
/// Every wait has a limit, so that a call of a journal or a store ends also where the server or the network hangs. The
/// error is [`DatabaseError::TimedOut`] then, or [`DatabaseError::Locked`] where somebody else keeps a lock.
#[derive(Clone)]
#[must_use]
pub struct PostgresOptions {
    pub(super) schema: String,
    pub(super) connections: usize,
    pub(super) wait: Duration,
    pub(super) statement: Duration,
    pub(super) acquire: Duration,
    pub(super) connect: Duration,
    pub(super) idle_in_transaction: Duration,
    pub(super) keepalive: Duration,
    pub(super) clock: Option<Arc<dyn Clock>>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "deepagents".to_owned(),
            connections: 16,
            wait: Duration::from_secs(30),
            statement: Duration::from_secs(60),
            acquire: Duration::from_secs(30),
            connect: Duration::from_secs(10),
            idle_in_transaction: Duration::from_secs(15),
            keepalive: Duration::from_secs(30),
            clock: None,
        }
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

    /// How long a statement may take, waits for locks included; 60 seconds by default. A second later its connection is
    /// given up, whether or not the server has said anything.
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement = timeout;
        self
    }

    /// How long to wait for a connection of the pool where all are in use; 30 seconds by default.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.acquire = timeout;
        self
    }

    /// How long a new connection may take; 10 seconds by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect = timeout;
        self
    }

    /// How long the server waits for this process in the midst of a transaction before it takes it back and frees what
    /// it locked; 15 seconds by default. It should be shorter than leases, since a process that was cut off keeps its
    /// thread locked for so long.
    pub fn idle_in_transaction_timeout(mut self, timeout: Duration) -> Self {
        self.idle_in_transaction = timeout;
        self
    }

    /// How long the other end of a connection may be silent on the network before it counts as gone, for the server as
    /// for this process; 30 seconds by default, in whole seconds.
    pub fn keepalive_timeout(mut self, timeout: Duration) -> Self {
        self.keepalive = timeout;
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
        let config = Config::from_str(url)
            .map_err(|error| DatabaseError::Other { database: "Postgres".to_owned(), reason: error.to_string() })?;
        open::connect(self, config, tls).await
    }

    /// The limits for both ends of every connection. What the URL says goes before them.
    pub(super) fn limit(&self, config: &mut Config) {
        let millis = |limit: Duration| limit.as_millis().clamp(1, i32::MAX as u128);
        let probe = (self.keepalive / 6).as_secs().max(1);
        config
            .keepalives_idle(self.keepalive / 2)
            .keepalives_interval(Duration::from_secs(probe))
            .keepalives_retries(3);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(self.keepalive);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.connect);
        }
        // Spaces and backslashes would end the option.
        let path = self.schema.replace('"', "").replace('\\', "\\\\").replace(' ', "\\ ");
        let (lock, statement, idle) = (millis(self.wait), millis(self.statement), millis(self.idle_in_transaction));
        let options = format!(
            "-c lock_timeout={lock} -c statement_timeout={statement} -c idle_in_transaction_session_timeout={idle} \
             -c tcp_keepalives_idle={} -c tcp_keepalives_interval={probe} -c tcp_keepalives_count=3 {} \
             -c search_path=\"{path}\"",
            (self.keepalive / 2).as_secs().max(1),
            config.get_options().unwrap_or_default(),
        );
        config.options(options);
    }
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .field("wait", &self.wait)
            .field("statement_timeout", &self.statement)
            .field("acquire_timeout", &self.acquire)
            .field("connect_timeout", &self.connect)
            .field("idle_in_transaction_timeout", &self.idle_in_transaction)
            .field("keepalive_timeout", &self.keepalive)
            .finish_non_exhaustive()
    }
}
