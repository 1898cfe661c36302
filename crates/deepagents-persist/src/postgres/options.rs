//! Options for connecting to Postgres.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod};
use deepagents_core::env::Clock;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};
use tokio_postgres::{Config, Socket};

use super::{Postgres, open};
use crate::error::DatabaseError;

/// Options for connecting to [`Postgres`], and its time limits.
///
/// Every wait has a limit, so that a call of a journal or a store returns even if the server or the network hangs. It
/// then fails with [`DatabaseError::TimedOut`], or with [`DatabaseError::Locked`] if another session holds a lock. Only
/// connecting waits without a limit while another process migrates the schema, as that may take long.
///
/// ```
/// use deepagents_persist::PostgresOptions;
/// let options = PostgresOptions { schema: "agents".to_owned(), connections: 4, ..PostgresOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct PostgresOptions {
    /// The schema that holds the tables, `deepagents` by default. It is created if it does not exist.
    pub schema: String,
    /// The maximum number of pooled connections, 16 by default.
    pub connections: usize,
    /// How long to wait for a thread or a table that another session has locked, 30 seconds by default.
    pub wait: Duration,
    /// How long a statement may take, including waiting for locks, 60 seconds by default. If the server has not
    /// responded one second after that, its connection is closed.
    pub statement_timeout: Duration,
    /// How long to wait for a pooled connection while all are in use, 30 seconds by default.
    pub acquire_timeout: Duration,
    /// How long establishing a connection may take, 10 seconds by default.
    pub connect_timeout: Duration,
    /// How long a transaction may be idle before the server rolls it back and releases its locks, 15 seconds by
    /// default. Should be shorter than leases: a disconnected process keeps its thread locked for this long.
    pub idle_in_transaction_timeout: Duration,
    /// How long the peer of a connection may be silent on the network before it counts as gone, 30 seconds by default,
    /// in whole seconds. Applies to both the server and this process.
    pub keepalive_timeout: Duration,
    /// A clock in place of the server's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "deepagents".to_owned(),
            connections: 16,
            wait: Duration::from_secs(30),
            statement_timeout: Duration::from_secs(60),
            acquire_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            idle_in_transaction_timeout: Duration::from_secs(15),
            keepalive_timeout: Duration::from_secs(30),
            clock: None,
        }
    }
}

impl PostgresOptions {
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
        let mut config = Config::from_str(url)
            .map_err(|error| DatabaseError::Other { database: "Postgres".to_owned(), reason: error.to_string() })?;
        self.limit(&mut config);
        let database = config.get_dbname().unwrap_or("postgres").to_owned();
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        open::connect(self, &database, Manager::from_config(config, tls, recycling)).await
    }

    /// Returns the schema as in a quoted identifier.
    pub(super) fn schema_name(&self) -> String {
        self.schema.replace('"', "")
    }

    /// Applies the limits to both ends of every connection. The URL's keepalives, `tcp_user_timeout`, `connect_timeout`
    /// and `options` take precedence, except over the schema.
    fn limit(&self, config: &mut Config) {
        let millis = |limit: Duration| limit.as_millis().clamp(1, i32::MAX as u128);
        // A socket takes whole seconds, at least one.
        let (silence, probe) =
            ((self.keepalive_timeout / 2).as_secs().max(1), (self.keepalive_timeout / 6).as_secs().max(1));
        // The driver does not tell whether the URL names its default.
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(Duration::from_secs(silence));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(Duration::from_secs(probe));
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(3);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(self.keepalive_timeout);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.connect_timeout);
        }
        // Unescaped, spaces and backslashes would break the option.
        let path = self.schema_name().replace('\\', "\\\\").replace(' ', "\\ ");
        let (lock, statement, idle) =
            (millis(self.wait), millis(self.statement_timeout), millis(self.idle_in_transaction_timeout));
        let options = format!(
            "-c lock_timeout={lock} -c statement_timeout={statement} -c idle_in_transaction_session_timeout={idle} \
             -c tcp_keepalives_idle={silence} -c tcp_keepalives_interval={probe} -c tcp_keepalives_count=3 {} \
             -c search_path=\"{path}\"",
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
            .field("statement_timeout", &self.statement_timeout)
            .field("acquire_timeout", &self.acquire_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_in_transaction_timeout", &self.idle_in_transaction_timeout)
            .field("keepalive_timeout", &self.keepalive_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalives_are_whole_seconds_and_those_of_the_url_take_precedence() {
        let limited = |options: PostgresOptions, url: &str| {
            let mut config = Config::from_str(url).unwrap();
            options.limit(&mut config);
            let seconds = config.get_keepalives_interval().unwrap().as_secs();
            (config.get_keepalives_idle().as_secs(), seconds, config.get_keepalives_retries())
        };
        let options = PostgresOptions::default;
        assert_eq!(limited(options(), "postgres://h/d"), (15, 5, Some(3)));
        let url = "postgres://h/d?keepalives_idle=7&keepalives_interval=2&keepalives_retries=9";
        assert_eq!(limited(options(), url), (7, 2, Some(9)));
        assert_eq!(limited(options(), "postgres://h/d?keepalives_idle=7"), (7, 5, Some(3)));
        let short = PostgresOptions { keepalive_timeout: Duration::from_secs(1), ..options() };
        assert_eq!(limited(short, "postgres://h/d"), (1, 1, Some(3)), "a socket refuses 0");
    }
}
