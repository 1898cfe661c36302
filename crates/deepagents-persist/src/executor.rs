//! Running statements, on either database.

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

/// A value in place of `$1`, `$2`, … of a statement.
pub(crate) trait Param: rusqlite::ToSql + ToSql + Sync {}

impl<T: rusqlite::ToSql + ToSql + Sync> Param for T {}

/// The values of a statement.
pub(crate) type Params<'a> = &'a [&'a dyn Param];

pub(crate) type StatementFuture<'a, T> = BoxFuture<'a, Result<T, DatabaseError>>;

/// Called with each row of a result until it breaks.
pub(crate) type Visit<'a> = &'a mut (dyn FnMut(Row) -> Result<ControlFlow<()>, DatabaseError> + Send);

/// A connection, in a transaction where [`Access`] asks for one.
///
/// SQLite runs a statement when its method is called, so that its futures are ready at once.
pub(crate) trait Executor: Send + Sync {
    /// The time, for `$1` of statements with `{now}`: milliseconds, or none where the server's time counts.
    fn now(&self) -> Option<i64>;

    /// Runs a statement; returns how many rows it changed.
    fn execute<'a>(&'a self, statement: &'a Statement, params: Params<'a>) -> StatementFuture<'a, u64>;

    /// Runs a statement; returns all its rows.
    fn query<'a>(&'a self, statement: &'a Statement, params: Params<'a>) -> StatementFuture<'a, Vec<Row>>;

    /// Runs a statement and reads its rows only as far as they are wanted. Needs [`Access::Snapshot`].
    fn scan<'a>(&'a self, statement: &'a Statement, params: Params<'a>, visit: Visit<'a>) -> StatementFuture<'a, ()>;

    /// The error for content that no version of this library writes.
    fn damaged(&self, reason: String) -> DatabaseError;
}

impl dyn Executor + '_ {
    /// Runs a statement that has one row.
    pub(crate) async fn query_one(&self, statement: &Statement, params: Params<'_>) -> Result<Row, DatabaseError> {
        let row = self.query(statement, params).await?.pop();
        row.ok_or_else(|| self.damaged("a statement that always has a row has none".to_owned()))
    }
}

/// What work needs of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads with one statement.
    Query,
    /// Reads with several statements that see the database at one moment.
    Snapshot,
    /// Writes with statements that stand each for itself.
    Statement,
    /// Writes all or nothing.
    Transaction,
}

/// A database that work is done on.
pub(crate) trait Engine: Send + Sync + 'static {
    /// Does work on a connection. On SQLite, writes are queued in the order of the calls of this method.
    fn run<'a, T, E, W>(&'a self, access: Access, work: W) -> BoxFuture<'a, Result<T, E>>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
        W: for<'c> FnOnce(&'c dyn Executor) -> BoxFuture<'c, Result<T, E>> + Send + 'static;

    /// Appends to a log.
    fn append(&self, batch: Batch) -> JournalFuture<'_, Appended> {
        self.run(Access::Transaction, move |db| Box::pin(async move { batch.write(db).await }))
    }

    /// Puts a snapshot of a thread.
    fn put_snapshot(&self, snapshot: PackedSnapshot) -> JournalFuture<'_, u64> {
        self.run(Access::Transaction, move |db| Box::pin(async move { snapshot.write(db).await }))
    }

    /// Claims a thread.
    fn claim(&self, thread: String, claim: Claim) -> JournalFuture<'_, Fence> {
        self.run(Access::Transaction, move |db| Box::pin(async move { lease::claim(db, &thread, &claim).await }))
    }

    /// Releases a thread.
    fn release(&self, thread: String, fence: Fence) -> JournalFuture<'_, ()> {
        self.run(Access::Statement, move |db| Box::pin(async move { lease::release(db, &thread, fence).await }))
    }
}

/// A text that is stored apart: SQLite has it as text, Postgres as bytes, since no text of Postgres has a NUL.
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

/// When an item was written, in milliseconds: SQLite has a text for it, Postgres the number.
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
