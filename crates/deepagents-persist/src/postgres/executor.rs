//! Runs statements on a connection to Postgres.

use deadpool_postgres::{Object, Transaction};
use tokio_postgres::types::{ToSql, Type};

use super::checkout::ResponseTimeout;
use super::error::explain;
use crate::error::DatabaseError;
use crate::executor::{Executor, Param, Params, StatementFuture, Visit};
use crate::row::{Row, Value};
use crate::statement::Statement;

/// Number of rows fetched at a time while scanning.
const PAGE_ROWS: i32 = 200;

/// A connection, with or without a transaction.
pub(super) enum Connection<'a> {
    Single(&'a Object),
    Transaction(Transaction<'a>),
}

pub(super) struct PostgresExecutor<'a> {
    pub(super) connection: Connection<'a>,
    pub(super) timeout: &'a ResponseTimeout<'a>,
    /// The injected time.
    pub(super) now: Option<i64>,
}

impl PostgresExecutor<'_> {
    fn rows(&self, rows: &[tokio_postgres::Row]) -> Result<Vec<Row>, tokio_postgres::Error> {
        let values = |row| (0..tokio_postgres::Row::len(row)).map(|at| value(row, at)).collect::<Result<_, _>>();
        rows.iter().map(|row| Ok(Row::new(values(row)?, self.timeout.database.clone()))).collect()
    }

    fn convert(&self, rows: &[tokio_postgres::Row]) -> Result<Vec<Row>, DatabaseError> {
        self.rows(rows).map_err(|error| explain(self.timeout.database, &error))
    }
}

impl Executor for PostgresExecutor<'_> {
    fn now(&self) -> Option<i64> {
        self.now
    }

    fn execute<'a>(&'a self, statement: &'a Statement, params: Params<'a>) -> StatementFuture<'a, u64> {
        Box::pin(self.timeout.wait(async move {
            let (sql, params) = (statement.postgres(), to_sql(params));
            match &self.connection {
                Connection::Single(client) => client.execute(&client.prepare_cached(sql).await?, &params).await,
                Connection::Transaction(change) => change.execute(&change.prepare_cached(sql).await?, &params).await,
            }
        }))
    }

    fn query<'a>(&'a self, statement: &'a Statement, params: Params<'a>) -> StatementFuture<'a, Vec<Row>> {
        Box::pin(async move {
            let rows = self.timeout.wait(async move {
                let (sql, params) = (statement.postgres(), to_sql(params));
                match &self.connection {
                    Connection::Single(client) => client.query(&client.prepare_cached(sql).await?, &params).await,
                    Connection::Transaction(change) => change.query(&change.prepare_cached(sql).await?, &params).await,
                }
            });
            self.convert(&rows.await?)
        })
    }

    fn scan<'a>(&'a self, statement: &'a Statement, params: Params<'a>, visit: Visit<'a>) -> StatementFuture<'a, ()> {
        Box::pin(async move {
            let Connection::Transaction(change) = &self.connection else {
                return Err(self.damaged("rows are read page by page only in a transaction".to_owned()));
            };
            let portal = self.timeout.wait(async move {
                change.bind(&change.prepare_cached(statement.postgres()).await?, &to_sql(params)).await
            });
            let portal = portal.await?;
            loop {
                let page = self.timeout.wait(change.query_portal(&portal, PAGE_ROWS)).await?;
                if page.is_empty() {
                    return Ok(());
                }
                for row in self.convert(&page)? {
                    if visit(row)?.is_break() {
                        return Ok(());
                    }
                }
            }
        })
    }

    fn damaged(&self, reason: String) -> DatabaseError {
        DatabaseError::Damaged { database: self.timeout.database.to_string(), reason }
    }
}

fn to_sql<'a>(params: &[&'a dyn Param]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|param| *param as &(dyn ToSql + Sync)).collect()
}

fn value(row: &tokio_postgres::Row, at: usize) -> Result<Value, tokio_postgres::Error> {
    let value = match row.columns().get(at).map(tokio_postgres::Column::type_) {
        Some(&Type::INT8) => row.try_get::<_, Option<i64>>(at)?.map(Value::Int),
        Some(&Type::BYTEA) => row.try_get::<_, Option<Vec<u8>>>(at)?.map(Value::Bytes),
        _ => row.try_get::<_, Option<String>>(at)?.map(Value::Text),
    };
    Ok(value.unwrap_or_default())
}
