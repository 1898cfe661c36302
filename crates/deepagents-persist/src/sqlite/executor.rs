//! Runs statements on a connection to SQLite.

use std::future::ready;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{CachedStatement, Connection, types::ValueRef};

use super::open;
use crate::error::DatabaseError;
use crate::executor::{Executor, Params, StatementFuture, Visit};
use crate::row::{Row, Value};
use crate::statement::Statement;

/// A connection and the current time. The mutex is never contended; it only makes this type `Sync`.
pub(super) struct SqliteExecutor<'a> {
    pub(super) connection: &'a Mutex<Connection>,
    pub(super) database: &'a Arc<str>,
    /// Milliseconds.
    pub(super) now: i64,
}

pub(super) fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SqliteExecutor<'_> {
    fn explain(&self, error: &rusqlite::Error) -> DatabaseError {
        open::explain(self.database, error)
    }

    fn change(&self, statement: &Statement, params: Params<'_>) -> rusqlite::Result<usize> {
        if statement.sqlite().is_empty() {
            return Ok(0);
        }
        prepare(&lock(self.connection), statement, params)?.raw_execute()
    }

    fn each(&self, statement: &Statement, params: Params<'_>, visit: Visit<'_>) -> Result<(), DatabaseError> {
        let connection = lock(self.connection);
        let explain = |error| self.explain(&error);
        let mut prepared = prepare(&connection, statement, params).map_err(explain)?;
        let columns = prepared.column_count();
        let mut rows = prepared.raw_query();
        while let Some(row) = rows.next().map_err(explain)? {
            let values =
                (0..columns).map(|at| row.get_ref(at).map(value)).collect::<Result<_, _>>().map_err(explain)?;
            if visit(Row::new(values, self.database.clone()))?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Executor for SqliteExecutor<'_> {
    fn now(&self) -> Option<i64> {
        Some(self.now)
    }

    fn execute<'a>(&'a self, statement: &'a Statement, params: Params<'a>) -> StatementFuture<'a, u64> {
        let changed = self.change(statement, params);
        Box::pin(ready(changed.map(|rows| rows as u64).map_err(|error| self.explain(&error))))
    }

    fn query<'a>(&'a self, statement: &'a Statement, params: Params<'a>) -> StatementFuture<'a, Vec<Row>> {
        let mut rows = Vec::new();
        let done = self.each(statement, params, &mut |row| {
            rows.push(row);
            Ok(ControlFlow::Continue(()))
        });
        Box::pin(ready(done.map(|()| rows)))
    }

    fn scan<'a>(&'a self, statement: &'a Statement, params: Params<'a>, visit: Visit<'a>) -> StatementFuture<'a, ()> {
        Box::pin(ready(self.each(statement, params, visit)))
    }

    fn damaged(&self, reason: String) -> DatabaseError {
        DatabaseError::Damaged { database: self.database.to_string(), reason }
    }
}

/// Prepares a statement and binds the parameters it uses.
fn prepare<'c>(
    connection: &'c Connection,
    statement: &Statement,
    params: Params<'_>,
) -> rusqlite::Result<CachedStatement<'c>> {
    let mut prepared = connection.prepare_cached(statement.sqlite())?;
    let count = prepared.parameter_count();
    for (at, param) in params.iter().take(count).enumerate() {
        prepared.raw_bind_parameter(at + 1, *param as &dyn rusqlite::ToSql)?;
    }
    Ok(prepared)
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null | ValueRef::Real(_) => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Text(text) => {
            String::from_utf8(text.to_vec()).map_or_else(|error| Value::Bytes(error.into_bytes()), Value::Text)
        }
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}
