//! Running statements on either database.

use std::ops::ControlFlow;

use bytes::BytesMut;
use deepagents_core::journal::{Appended, Claim, Fence};
use futures_core::future::BoxFuture;
use rusqlite::types::ToSqlOutput;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::append::Batch;
use crate::convert::time;
use crate::database::JournalFuture;
use crate::error::DatabaseError;
use crate::lease;
use crate::log::PackedSnapshot;
use crate::row::Row;
use crate::statement::Statement;

/// A parameter value for `$1`, `$2`, … of a statement.
pub(crate) trait Param: rusqlite::ToSql + ToSql + Sync {}

impl<T: rusqlite::ToSql + ToSql + Sync> Param for T {}

/// The parameter values of a statement.
pub(crate) type Params<'a> = &'a [&'a dyn Param];

pub(crate) type StatementFuture<'a, T> = BoxFuture<'a, Result<T, DatabaseError>>;

/// Called with each row of a result until it returns `Break`.
pub(crate) type Visit<'a> = &'a mut (dyn FnMut(Row) -> Result<ControlFlow<()>, DatabaseError> + Send);

/// A connection, in a transaction if [`Access`] requires one.
///
/// On SQLite, each method runs its statement immediately, so the returned futures are ready.
pub(crate) trait Executor: Send + Sync {
    /// Returns the time in milliseconds, for `$1` of statements with `{now}`, or `None` to use the server's.
    fn now(&self) -> Option<i64>;

    /// Runs a statement and returns the number of rows it changed.
    fn execute<'a>(&'a self, statement: &'a Statement, params: Params<'a>) -> StatementFuture<'a, u64>;

    /// Runs a statement and returns all its rows.
    fn query<'a>(&'a self, statement: &'a Statement, params: Params<'a>) -> StatementFuture<'a, Vec<Row>>;

    /// Runs a statement and reads rows until `visit` breaks. Needs [`Access::Snapshot`].
    fn scan<'a>(&'a self, statement: &'a Statement, params: Params<'a>, visit: Visit<'a>) -> StatementFuture<'a, ()>;

    /// Creates the error for contents that no version of this library writes.
    fn damaged(&self, reason: String) -> DatabaseError;
}

impl dyn Executor + '_ {
    /// Runs statements with the same parameters.
    pub(crate) async fn execute_all(&self, statements: &[Statement], params: Params<'_>) -> Result<(), DatabaseError> {
        for statement in statements {
            self.execute(statement, params).await?;
        }
        Ok(())
    }

    /// Runs a statement that always returns a row.
    pub(crate) async fn query_one(&self, statement: &Statement, params: Params<'_>) -> Result<Row, DatabaseError> {
        let row = self.query(statement, params).await?.pop();
        row.ok_or_else(|| self.damaged("a statement that always has a row has none".to_owned()))
    }
}

/// What work requires of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads with one statement.
    Query,
    /// Reads with several statements from one consistent snapshot.
    Snapshot,
    /// Writes with independent statements.
    Statement,
    /// Writes atomically.
    Transaction,
}

/// Work on a connection.
pub(crate) trait Work<T, E>:
    for<'c> FnOnce(&'c dyn Executor) -> BoxFuture<'c, Result<T, E>> + Send + 'static
{
}

impl<T, E, W> Work<T, E> for W where W: for<'c> FnOnce(&'c dyn Executor) -> BoxFuture<'c, Result<T, E>> + Send + 'static {}

/// Why work failed.
pub(crate) trait WorkError: From<DatabaseError> + Send + 'static {}

impl<E: From<DatabaseError> + Send + 'static> WorkError for E {}

/// A database that runs work on its connections.
pub(crate) trait Engine: Send + Sync + 'static {
    /// Runs `work` on a connection. On SQLite, writes are queued in the order in which this method is called.
    fn run<T: Send + 'static, E: WorkError>(
        &self,
        access: Access,
        work: impl Work<T, E>,
    ) -> BoxFuture<'_, Result<T, E>>;

    /// Appends to a log.
    fn append(&self, batch: Batch) -> JournalFuture<'_, Appended> {
        self.run(Access::Transaction, move |db| Box::pin(async move { batch.write(db).await }))
    }

    /// Stores a snapshot of a thread.
    fn put_snapshot(&self, snapshot: PackedSnapshot) -> JournalFuture<'_, u64> {
        self.run(Access::Transaction, move |db| Box::pin(async move { snapshot.write(db).await }))
    }

    /// Claims a thread.
    fn claim(&self, thread: String, claim: Claim) -> JournalFuture<'_, Fence> {
        self.run(Access::Transaction, move |db| Box::pin(lease::claim(db, thread, claim)))
    }

    /// Releases a thread.
    fn release(&self, thread: String, fence: Fence) -> JournalFuture<'_, ()> {
        self.run(Access::Statement, move |db| Box::pin(lease::release(db, thread, fence)))
    }
}

/// A blob's text, stored as text on SQLite and as bytes on Postgres, whose text cannot contain NUL.
#[derive(Debug)]
pub(crate) struct BlobText<'a>(pub(crate) &'a str);

impl rusqlite::ToSql for BlobText<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

impl ToSql for BlobText<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.as_bytes().to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <&[u8] as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

/// The time an item was written, in milliseconds. Stored as text on SQLite and as a number on Postgres.
#[derive(Debug)]
pub(crate) struct ItemTime(pub(crate) i64);

impl rusqlite::ToSql for ItemTime {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(time(self.0).to_string().into())
    }
}

impl ToSql for ItemTime {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <i64 as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}
