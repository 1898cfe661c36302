//! Appending with one statement.

use std::collections::BTreeMap;

use deepagents_core::journal::{Appended, JournalError};
use tokio_postgres::types::ToSql;

use super::PostgresEngine;
use super::checkout::{Checkout, ResponseTimeout};
use crate::append::Batch;
use crate::convert::signed;
use crate::error::DatabaseError;
use crate::executor::{Access, Engine};
use crate::statement::Statement;

/// Maximum attempts for an append for which no conflict can be found.
const MAX_ATTEMPTS: usize = 3;

/// Inserts the records and their blobs if the thread is in the expected state. Blobs are inserted in hash order, so
/// that two appends of the same blobs do not deadlock.
static APPEND: Statement = Statement::new(
    "WITH t AS (
        UPDATE thread SET head = $5, status = coalesce($6, status), bytes = bytes + $7, updated_at = {now},
            stop = CASE WHEN $6 IS NULL THEN stop ELSE $16 END, expires_at = {now} + ttl
        WHERE id = $2 AND epoch = $3 AND head = $4 AND owner IS NOT NULL AND {live thread}
        RETURNING key, updated_at
     ), e AS (
        INSERT INTO event (thread, position, at, status, stop, bytes, how, body)
        SELECT t.key, $4 + r.nth - 1, t.updated_at, r.status, r.stop, r.bytes, r.how, r.body
        FROM t, unnest($8::text[], $17::text[], $9::bigint[], $10::bigint[], $11::text[])
            WITH ORDINALITY AS r (status, stop, bytes, how, body, nth)
     ), b AS (
        INSERT INTO blob (hash, body)
        SELECT u.hash, u.body FROM t, unnest($12::bytea[], $13::bytea[]) AS u (hash, body) ORDER BY u.hash
        ON CONFLICT DO NOTHING
     ), r AS (
        INSERT INTO blob_ref (thread, position, snapshot, hash)
        SELECT t.key, u.position, false, u.hash FROM t, unnest($14::bigint[], $15::bytea[]) AS u (position, hash)
        ON CONFLICT DO NOTHING
     )
     SELECT key FROM t",
);

impl PostgresEngine {
    pub(super) async fn append_batch(&self, batch: Batch) -> Result<Appended, JournalError> {
        // No thread has such a name, and Postgres text cannot contain NUL.
        if batch.thread.contains('\0') {
            return Err(JournalError::Fenced { thread: batch.thread });
        }
        let batch = std::sync::Arc::new(batch);
        let conflict = JournalError::Conflict {
            thread: batch.thread.clone(),
            expected: batch.expected,
            found: batch.appended().end,
        };
        for _ in 0..MAX_ATTEMPTS {
            if self.append_at_once(&batch).await? {
                return Ok(batch.appended());
            }
            // Nothing was appended: find out why.
            let batch = batch.clone();
            let repeated = self.run(Access::Transaction, move |db| {
                Box::pin(async move {
                    let row = batch.lock(db).await?;
                    Ok::<_, JournalError>(row.is_none().then(|| batch.appended()))
                })
            });
            if let Some(appended) = repeated.await? {
                return Ok(appended);
            }
        }
        Err(conflict)
    }

    /// Appends records with a single statement: one transaction and one round trip, so a process that dies midway
    /// blocks nobody. Returns whether the thread was in the expected state.
    async fn append_at_once(&self, batch: &Batch) -> Result<bool, DatabaseError> {
        let events = || batch.events.iter();
        let runs = || events().map(|(_, run)| run.as_ref());
        let statuses: Vec<Option<&str>> = runs().map(|run| run.map(|run| run.status)).collect();
        let stops: Vec<Option<&str>> = runs().map(|run| run?.stop.as_deref()).collect();
        let last_run = runs().rev().flatten().next();
        let bytes: Vec<i64> = events().map(|(packed, _)| signed(packed.bytes)).collect();
        let how: Vec<i64> = events().map(|(packed, _)| packed.how).collect();
        let bodies: Vec<&str> = events().map(|(packed, _)| packed.body.as_str()).collect();
        let texts = || {
            (signed(batch.expected)..).zip(events()).flat_map(|(at, (packed, _))| {
                packed.blobs.iter().map(move |(hash, body)| (at, hash.as_slice(), body.as_bytes()))
            })
        };
        let blobs: BTreeMap<&[u8], &[u8]> = texts().map(|(_, hash, body)| (hash, body)).collect();
        let (hashes, blobs): (Vec<&[u8]>, Vec<&[u8]>) = blobs.into_iter().unzip();
        let (ref_positions, ref_hashes): (Vec<i64>, Vec<&[u8]>) = texts().map(|(at, hash, _)| (at, hash)).unzip();
        let values: [&(dyn ToSql + Sync); 17] = [
            &self.now(),
            &batch.thread,
            &signed(batch.fence.epoch()),
            &signed(batch.expected),
            &signed(batch.appended().end),
            &last_run.map(|run| run.status),
            &signed(batch.bytes),
            &statuses,
            &bytes,
            &how,
            &bodies,
            &hashes,
            &blobs,
            &ref_positions,
            &ref_hashes,
            &last_run.and_then(|run| run.stop.as_deref()),
            &stops,
        ];
        let mut checkout: Checkout = self.checkout().await?;
        let timeout = ResponseTimeout::new(&self.database, self.limit);
        let client = checkout.client()?;
        let append = async { client.query(&client.prepare_cached(APPEND.postgres()).await?, &values).await };
        let appended = timeout.wait(append).await;
        if !timeout.is_broken() {
            checkout.give_back();
        }
        Ok(!appended?.is_empty())
    }
}
