//! Options for connecting to Postgres.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::env::Clock;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};
use tokio_postgres::{Config, Socket};

use super::{Postgres, open};
use crate::error::DatabaseError;

/// Options for connecting to [`Postgres`], and its time limits.
///
/// Every wait has a limit, so that a call of a journal or a store returns even if the server or the network hangs. It
/// then fails with [`DatabaseError::TimedOut`], or with [`DatabaseError::Locked`] if another session holds a lock.
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
    /// Sets the schema that holds the tables, `deepagents` by default. It is created if it does not exist.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets the maximum number of pooled connections, 16 by default.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Sets how long to wait for a thread or a table that another session has locked, 30 seconds by default.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how long a statement may take, including waiting for locks, 60 seconds by default. If the server has not
    /// responded one second after that, its connection is closed.
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement = timeout;
        self
    }

    /// Sets how long to wait for a pooled connection while all are in use, 30 seconds by default.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.acquire = timeout;
        self
    }

    /// Sets how long establishing a connection may take, 10 seconds by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect = timeout;
        self
    }

    /// Sets how long a transaction may be idle before the server rolls it back and releases its locks, 15 seconds by
    /// default. Should be shorter than leases: a disconnected process keeps its thread locked for this long.
    pub fn idle_in_transaction_timeout(mut self, timeout: Duration) -> Self {
        self.idle_in_transaction = timeout;
        self
    }

    /// Sets how long the peer of a connection may be silent on the network before it counts as gone, 30 seconds by
    /// default, in whole seconds. Applies to both the server and this process.
    pub fn keepalive_timeout(mut self, timeout: Duration) -> Self {
        self.keepalive = timeout;
        self
    }

    /// Uses this clock in place of the server's, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Connects without encryption, for example over a Unix socket or a private network.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached, or if the schema belongs to another program or a newer
    /// version.
    pub async fn connect(self, url: &str) -> Result<Postgres, DatabaseError> {
        self.connect_tls(url, NoTls).await
    }

    /// Connects with encryption through a TLS connector for `tokio-postgres`.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached, or if the schema belongs to another program or a newer
    /// version.
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

    /// Applies the limits to both ends of every connection. The URL's `tcp_user_timeout`, `connect_timeout` and
    /// `options` take precedence, except over the schema.
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
        // Unescaped, spaces and backslashes would break the option.
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
