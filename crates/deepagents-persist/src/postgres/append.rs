//! Appending with one statement.

use deepagents_core::journal::RunStatus;
use tokio_postgres::types::ToSql;

use super::PostgresEngine;
use super::error::explain;
use crate::convert::signed;
use crate::error::DatabaseError;
use crate::log::Batch;
use crate::statement::Statement;

/// Inserts the records if the thread is as it is expected to be.
static APPEND: Statement = Statement::new(
    "WITH t AS (
        UPDATE thread SET head = $5, status = coalesce($6, status), bytes = bytes + $7, updated_at = {now},
            expires_at = {now} + ttl
        WHERE id = $2 AND epoch = $3 AND head = $4 AND lease_until > {now} AND {live}
        RETURNING key, updated_at
     )
     INSERT INTO event (thread, position, at, status, bytes, how, body)
     SELECT t.key, $4 + r.nth - 1, t.updated_at, r.status, r.bytes, r.how, r.body
     FROM t, unnest($8::text[], $9::bigint[], $10::bigint[], $11::text[])
        WITH ORDINALITY AS r (status, bytes, how, body, nth)",
);

impl PostgresEngine {
    /// Appends records that need nothing beside their rows: one statement is one transaction, and one journey to the
    /// server. Returns how many it appended, none if the thread is not as expected.
    pub(super) async fn append_at_once(&self, batch: &Batch) -> Result<u64, DatabaseError> {
        let events = || batch.events.iter();
        let statuses: Vec<Option<&str>> = events().map(|(_, status)| status.map(RunStatus::as_str)).collect();
        let bytes: Vec<i64> = events().map(|(packed, _)| signed(packed.bytes)).collect();
        let how: Vec<i64> = events().map(|(packed, _)| packed.how).collect();
        let bodies: Vec<&str> = events().map(|(packed, _)| packed.body.as_str()).collect();
        let values: [&(dyn ToSql + Sync); 11] = [
            &self.now(),
            &batch.thread,
            &signed(batch.fence.epoch()),
            &signed(batch.expected),
            &signed(batch.appended().end),
            &statuses.iter().rev().find_map(|status| *status),
            &signed(batch.bytes),
            &statuses,
            &bytes,
            &how,
            &bodies,
        ];
        let client = self.client().await?;
        let append = async { client.execute(&client.prepare_cached(APPEND.postgres()).await?, &values).await };
        append.await.map_err(|error| explain(&self.database, &error))
    }
}
