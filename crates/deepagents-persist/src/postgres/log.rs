//! Logs.

use std::ops::Range;
use std::time::Duration;

use deadpool_postgres::{GenericClient, Transaction};
use deepagents_core::journal::{
    Appended, Claim, Entry, Fence, Journal, JournalError, Loaded, Position, Record, Snapshot, Status, Threads, decode,
    encode,
};
use futures_core::future::BoxFuture;

use super::rows::{NOW, find, find_or_new, owned, put_blobs, text};
use super::{Postgres, Work};
use crate::blob::{Packed, pack, pack_texts};
use crate::convert::{Apart, damaged, millis, signed, time, unsigned};

type Done<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

impl Postgres {
    pub(super) fn done<'a, T>(&'a self, work: impl Future<Output = Work<T>> + Send + 'a) -> Done<'a, T> {
        Box::pin(async move { work.await.map_err(|failure| failure.journal(|error| self.explain(&error))) })
    }

    async fn claim_thread(&self, thread: &str, claim: Claim) -> Work<Fence> {
        let mut client = self.client().await?;
        let db = client.transaction().await?;
        let row = find_or_new(&db, self.now(), thread).await?;
        if let Some(owner) = row.owner.filter(|_| row.lease_until > row.now && !claim.take_over) {
            return Err(JournalError::Busy { thread: thread.to_owned(), owner, until: time(row.lease_until) }.into());
        }
        let sql = "UPDATE thread SET epoch = nextval('epoch'), owner = $2, lease_until = $3 WHERE key = $1
            RETURNING epoch";
        let until = row.now + millis(claim.lease);
        let epoch = db.query_one(&db.prepare_cached(sql).await?, &[&row.key, &claim.owner, &until]).await?.get(0);
        db.commit().await?;
        Ok(Fence::new(unsigned(epoch)))
    }

    async fn append_records(
        &self,
        thread: &str,
        fence: Fence,
        expected: Position,
        records: Vec<Record>,
    ) -> Work<Appended> {
        let batch = Batch::new(thread, expected, &records)?;
        let mut client = self.client().await?;
        if batch.parts.iter().all(|packed| packed.blobs.is_empty()) && !records.is_empty() {
            // One statement is one transaction, and one journey to the server.
            return match batch.insert(&client, self.now(), thread, fence, expected).await? {
                0 => Err(refusal(&client.transaction().await?, self.now(), thread, fence, expected).await?),
                _ => Ok(batch.appended(expected)),
            };
        }
        let db = client.transaction().await?;
        let row = owned(&db, self.now(), thread, fence).await?;
        if row.info.end != expected {
            return Err(JournalError::Conflict { thread: thread.to_owned(), expected, found: row.info.end }.into());
        }
        if !records.is_empty() {
            batch.insert(&db, self.now(), thread, fence, expected).await?;
        }
        for (position, packed) in (expected..).zip(&batch.parts) {
            put_blobs(&db, row.key, signed(position), false, packed).await?;
        }
        db.commit().await?;
        Ok(batch.appended(expected))
    }

    async fn load_log(&self, thread: &str, at: Option<Position>) -> Work<Loaded> {
        let mut client = self.client().await?;
        let db = client.build_transaction();
        let db = db.isolation_level(tokio_postgres::IsolationLevel::RepeatableRead).read_only(true).start().await?;
        let Some(row) = find(&db, self.now(), thread, false).await? else { return Ok(Loaded::default()) };
        let until = at.unwrap_or(row.info.end);
        let sql = "SELECT position, bytes, how, body FROM snapshot WHERE thread = $1 AND position <= $2
            ORDER BY position DESC LIMIT 1";
        let found = db.query_opt(&db.prepare_cached(sql).await?, &[&row.key, &signed(until)]).await?;
        let mut loaded = Loaded { end: row.info.end, ..Loaded::default() };
        if let Some(found) = found {
            let position = found.get(0);
            let from = Apart { thread: row.key, snapshot: true };
            let body = text(&db, thread, position, found.get(3), found.get(2), from).await?;
            loaded.snapshot = Some(Snapshot { position: unsigned(position), body });
            loaded.snapshot_bytes = unsigned(found.get(1));
        }
        let from = loaded.snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
        (loaded.entries, loaded.entry_bytes) = entries(&db, thread, row.key, &(from..until)).await?;
        Ok(loaded)
    }

    async fn read_log(&self, thread: &str, positions: &Range<Position>) -> Work<Vec<Entry>> {
        let mut client = self.client().await?;
        let db = client.build_transaction();
        let db = db.isolation_level(tokio_postgres::IsolationLevel::RepeatableRead).read_only(true).start().await?;
        let Some(row) = find(&db, self.now(), thread, false).await? else { return Ok(Vec::new()) };
        Ok(entries(&db, thread, row.key, positions).await?.0)
    }

    async fn keep_snapshot(&self, thread: &str, fence: Fence, snapshot: Snapshot) -> Work<u64> {
        let mut client = self.client().await?;
        let db = client.transaction().await?;
        let row = owned(&db, self.now(), thread, fence).await?;
        let Snapshot { position, body } = snapshot;
        if position > row.info.end {
            let reason = "the log ends before it";
            return Err(JournalError::Position { thread: thread.to_owned(), position, reason }.into());
        }
        let packed = pack_texts(body).map_err(|error| damaged(thread, position, &error))?;
        drop_snapshots(&db, row.key, position..position + 1).await?;
        let sql = "INSERT INTO snapshot (thread, position, bytes, how, body) VALUES ($1, $2, $3, $4, $5)";
        let (at, bytes) = (signed(position), signed(packed.bytes));
        db.execute(&db.prepare_cached(sql).await?, &[&row.key, &at, &bytes, &packed.how, &packed.body]).await?;
        put_blobs(&db, row.key, at, true, &packed).await?;
        let sql = "UPDATE thread SET bytes = bytes + $2 WHERE key = $1";
        db.execute(&db.prepare_cached(sql).await?, &[&row.key, &bytes]).await?;
        db.commit().await?;
        Ok(packed.bytes)
    }
}

impl Journal for Postgres {
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> Done<'a, Fence> {
        self.done(self.claim_thread(thread, claim))
    }

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> Done<'a, ()> {
        self.done(async move {
            let sql = format!(
                "UPDATE thread SET lease_until = {NOW} + $4 WHERE id = $2 AND epoch = $3 AND lease_until > {NOW}
                 AND (expires_at IS NULL OR expires_at > {NOW})"
            );
            let client = self.client().await?;
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&self.now(), &thread, &signed(fence.epoch()), &millis(lease)];
            match client.execute(&client.prepare_cached(&sql).await?, &values).await? {
                0 => Err(JournalError::Fenced { thread: thread.to_owned() }.into()),
                _ => Ok(()),
            }
        })
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> Done<'a, ()> {
        self.done(async move {
            let client = self.client().await?;
            let epoch = signed(fence.epoch());
            let sql = "UPDATE thread SET owner = NULL, lease_until = 0 WHERE id = $1 AND epoch = $2";
            client.execute(&client.prepare_cached(sql).await?, &[&thread, &epoch]).await?;
            let sql = "DELETE FROM thread WHERE id = $1 AND epoch = $2 AND owner IS NULL AND head = 0
                AND metadata = '{}'";
            client.execute(&client.prepare_cached(sql).await?, &[&thread, &epoch]).await?;
            Ok(())
        })
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: Position,
        records: Vec<Record>,
    ) -> Done<'a, Appended> {
        self.done(self.append_records(thread, fence, expected, records))
    }

    fn load<'a>(&'a self, thread: &'a str, at: Option<Position>) -> Done<'a, Loaded> {
        self.done(self.load_log(thread, at))
    }

    fn read<'a>(&'a self, thread: &'a str, positions: Range<Position>) -> Done<'a, Vec<Entry>> {
        self.done(async move { self.read_log(thread, &positions).await })
    }

    fn put_snapshot<'a>(&'a self, thread: &'a str, fence: Fence, snapshot: Snapshot) -> Done<'a, u64> {
        self.done(self.keep_snapshot(thread, fence, snapshot))
    }

    fn threads(&self) -> &dyn Threads {
        self
    }
}

/// Records on their way into the log.
struct Batch {
    parts: Vec<Packed>,
    statuses: Vec<Option<&'static str>>,
    bytes: u64,
}

impl Batch {
    fn new(thread: &str, expected: Position, records: &[Record]) -> Work<Self> {
        let mut batch = Self { parts: Vec::new(), statuses: Vec::new(), bytes: 0 };
        for (position, record) in (expected..).zip(records) {
            let encoded = encode(record).map_err(|error| damaged(thread, position, &error))?;
            let packed = pack(encoded).map_err(|error| damaged(thread, position, &error))?;
            batch.bytes += packed.bytes;
            batch.parts.push(packed);
            // A record that says how the run stands says it whatever was before.
            let (one, other) = (Status::Empty.after([record]), Status::Failed.after([record]));
            batch.statuses.push((one == other).then_some(one.word()));
        }
        Ok(batch)
    }

    fn appended(&self, expected: Position) -> Appended {
        Appended { end: expected + self.parts.len() as u64, bytes: self.bytes }
    }

    /// Inserts the records if the thread is as it is expected to be; returns how many.
    async fn insert(
        &self,
        db: &impl GenericClient,
        now: Option<i64>,
        thread: &str,
        fence: Fence,
        expected: Position,
    ) -> Work<u64> {
        let sql = format!(
            "WITH t AS (
                UPDATE thread SET head = $5, status = coalesce($6, status), bytes = bytes + $7, updated_at = {NOW},
                    expires_at = {NOW} + ttl
                WHERE id = $2 AND epoch = $3 AND head = $4 AND lease_until > {NOW}
                    AND (expires_at IS NULL OR expires_at > {NOW})
                RETURNING key, updated_at
             )
             INSERT INTO event (thread, position, at, status, bytes, how, body)
             SELECT t.key, $4 + r.nth - 1, t.updated_at, r.status, r.bytes, r.how, r.body
             FROM t, unnest($8::text[], $9::bigint[], $10::bigint[], $11::text[])
                WITH ORDINALITY AS r (status, bytes, how, body, nth)"
        );
        let status = self.statuses.iter().rev().find_map(|status| *status);
        let bytes: Vec<i64> = self.parts.iter().map(|packed| signed(packed.bytes)).collect();
        let how: Vec<i64> = self.parts.iter().map(|packed| packed.how).collect();
        let bodies: Vec<&str> = self.parts.iter().map(|packed| packed.body.as_str()).collect();
        let (start, end) = (signed(expected), signed(self.appended(expected).end));
        let statement = db.prepare_cached(&sql).await?;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 11] = [
            &now,
            &thread,
            &signed(fence.epoch()),
            &start,
            &end,
            &status,
            &signed(self.bytes),
            &self.statuses,
            &bytes,
            &how,
            &bodies,
        ];
        Ok(db.execute(&statement, &values).await?)
    }
}

/// Why a thread did not take an append.
async fn refusal(
    db: &Transaction<'_>,
    now: Option<i64>,
    thread: &str,
    fence: Fence,
    expected: Position,
) -> Work<super::Failure<super::PgError>> {
    let row = owned(db, now, thread, fence).await?;
    Ok(JournalError::Conflict { thread: thread.to_owned(), expected, found: row.info.end }.into())
}

/// Entries, and the bytes they take.
async fn entries(db: &Transaction<'_>, thread: &str, key: i64, positions: &Range<Position>) -> Work<(Vec<Entry>, u64)> {
    let sql = "SELECT position, at, bytes, how, body FROM event
        WHERE thread = $1 AND position >= $2 AND position < $3 ORDER BY position";
    let (from, until) = (signed(positions.start), signed(positions.end));
    let rows = db.query(&db.prepare_cached(sql).await?, &[&key, &from, &until]).await?;
    let (mut entries, mut bytes) = (Vec::with_capacity(rows.len()), 0);
    for row in rows {
        let position: i64 = row.get(0);
        bytes += unsigned(row.get(2));
        let from = Apart { thread: key, snapshot: false };
        let body = text(db, thread, position, row.get(4), row.get(3), from).await?;
        let record = decode(thread, unsigned(position), &body)?;
        entries.push(Entry { position: unsigned(position), at: time(row.get(1)), record });
    }
    Ok((entries, bytes))
}

/// Removes snapshots, and what was kept apart for them.
pub(super) async fn drop_snapshots(db: &Transaction<'_>, key: i64, positions: Range<Position>) -> Work<()> {
    let (from, until) = (signed(positions.start), signed(positions.end));
    for sql in [
        "UPDATE thread SET bytes = bytes - (SELECT coalesce(sum(bytes), 0)::bigint FROM snapshot
            WHERE thread = $1 AND position >= $2 AND position < $3) WHERE key = $1",
        "DELETE FROM snapshot WHERE thread = $1 AND position >= $2 AND position < $3",
        "DELETE FROM blob_ref WHERE thread = $1 AND position >= $2 AND position < $3 AND snapshot",
    ] {
        db.execute(&db.prepare_cached(sql).await?, &[&key, &from, &until]).await?;
    }
    Ok(())
}
