//! Logs: what the calls of a journal do with the rows.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use deepagents_core::journal::{
    Appended, Claim, Fence, JournalError, Loaded, LogEntry, LogPosition, Record, RunStatus, Snapshot, decode, encode,
};

use crate::blob::{Hash, Packed, pack, pack_texts, unpack};
use crate::blobs;
use crate::convert::{millis, signed, time, unsigned};
use crate::error::DatabaseError;
use crate::executor::{Executor, Param};
use crate::row::Row;
use crate::statement::Statement;
use crate::thread_row::{find, find_or_insert, find_owned};

static NEXT_EPOCH: Statement =
    Statement::per_database("UPDATE epoch SET last = last + 1 RETURNING last", "SELECT nextval('epoch')");
static CLAIM: Statement = Statement::new("UPDATE thread SET epoch = $2, owner = $3, lease_until = $4 WHERE key = $1");
static RENEW: Statement = Statement::new(
    "UPDATE thread SET lease_until = {now} + $4 WHERE id = $2 AND epoch = $3 AND lease_until > {now} AND {live}",
);
static RELEASE: Statement =
    Statement::new("UPDATE thread SET owner = NULL, lease_until = 0 WHERE id = $1 AND epoch = $2");
static DELETE_EMPTY: Statement = Statement::new(
    "DELETE FROM thread WHERE id = $1 AND epoch = $2 AND owner IS NULL AND head = 0 AND metadata = '{}'
        AND parent IS NULL",
);
static INSERT_EVENT: Statement = Statement::new(
    "INSERT INTO event (thread, position, at, status, bytes, how, body) VALUES ($1, $2, $3, $4, $5, $6, $7)",
);
static ADVANCE: Statement = Statement::new(
    "UPDATE thread SET head = $2, status = $3, bytes = bytes + $4, updated_at = $5, expires_at = $5 + ttl
     WHERE key = $1",
);
static LAST_SNAPSHOT: Statement = Statement::new(
    "SELECT position, bytes, how, body FROM snapshot WHERE thread = $1 AND position <= $2
     ORDER BY position DESC LIMIT 1",
);
static EVENTS: Statement = Statement::new(
    "SELECT position, bytes, how, body, at FROM event WHERE thread = $1 AND position >= $2 AND position < $3
     ORDER BY position",
);
static INSERT_SNAPSHOT: Statement =
    Statement::new("INSERT INTO snapshot (thread, position, bytes, how, body) VALUES ($1, $2, $3, $4, $5)");
static ADD_BYTES: Statement = Statement::new("UPDATE thread SET bytes = bytes + $2 WHERE key = $1");
static DELETE_SNAPSHOTS: [Statement; 3] = [
    Statement::new(
        "UPDATE thread SET bytes = bytes - (SELECT {bytes} FROM snapshot
            WHERE thread = $1 AND position >= $2 AND position < $3) WHERE key = $1",
    ),
    Statement::new("DELETE FROM snapshot WHERE thread = $1 AND position >= $2 AND position < $3"),
    Statement::new("DELETE FROM blob_ref WHERE thread = $1 AND position >= $2 AND position < $3 AND snapshot"),
];

pub(crate) async fn claim(db: &dyn Executor, thread: &str, claim: &Claim) -> Result<Fence, JournalError> {
    let row = find_or_insert(db, thread).await?;
    if let Some(owner) = row.owner.filter(|_| row.lease_until > row.now && !claim.take_over) {
        return Err(JournalError::Busy { thread: thread.to_owned(), owner, until: time(row.lease_until) });
    }
    let epoch: i64 = db.query_one(&NEXT_EPOCH, &[]).await?.take(0)?;
    db.execute(&CLAIM, &[&row.key, &epoch, &claim.owner, &(row.now + millis(claim.lease))]).await?;
    Ok(Fence::new(unsigned(epoch)))
}

pub(crate) async fn renew(db: &dyn Executor, thread: &str, fence: Fence, lease: Duration) -> Result<(), JournalError> {
    match db.execute(&RENEW, &[&db.now(), &thread, &signed(fence.epoch()), &millis(lease)]).await? {
        0 => Err(JournalError::Fenced { thread: thread.to_owned() }),
        _ => Ok(()),
    }
}

pub(crate) async fn release(db: &dyn Executor, thread: &str, fence: Fence) -> Result<(), JournalError> {
    for statement in [&RELEASE, &DELETE_EMPTY] {
        db.execute(statement, &[&thread, &signed(fence.epoch())]).await?;
    }
    Ok(())
}

/// Records that are to be appended.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) thread: String,
    pub(crate) fence: Fence,
    pub(crate) expected: LogPosition,
    pub(crate) records: Vec<Record>,
}

/// Records as rows.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) thread: String,
    pub(crate) fence: Fence,
    pub(crate) expected: LogPosition,
    /// Each with the status of the thread after it, if it says one.
    pub(crate) events: Vec<(Packed, Option<RunStatus>)>,
    pub(crate) bytes: u64,
}

impl Append {
    pub(crate) fn encode(self) -> Result<Batch, JournalError> {
        let Self { thread, fence, expected, records } = self;
        let (mut events, mut bytes) = (Vec::with_capacity(records.len()), 0);
        for (position, record) in (expected..).zip(&records) {
            let packed = encode(record).and_then(pack).map_err(|error| damaged(&thread, position, &error))?;
            bytes += packed.bytes;
            // A record that says how the run stands says it whatever was before.
            let (one, other) = (RunStatus::Empty.after([record]), RunStatus::Failed.after([record]));
            events.push((packed, (one == other).then_some(one)));
        }
        Ok(Batch { thread, fence, expected, events, bytes })
    }
}

impl Batch {
    pub(crate) fn appended(&self) -> Appended {
        Appended { end: self.expected + self.events.len() as u64, bytes: self.bytes }
    }

    pub(crate) async fn write(&self, db: &dyn Executor) -> Result<Appended, JournalError> {
        let row = find_owned(db, &self.thread, self.fence).await?;
        if row.info.end != self.expected {
            let (thread, expected) = (self.thread.clone(), self.expected);
            return Err(JournalError::Conflict { thread, expected, found: row.info.end });
        }
        let (mut status, appended) = (row.info.status, self.appended());
        for (position, (packed, after)) in (signed(self.expected)..).zip(&self.events) {
            status = after.unwrap_or(status);
            let (word, bytes) = (status.as_str(), signed(packed.bytes));
            let values: [&dyn Param; 7] = [&row.key, &position, &row.now, &word, &bytes, &packed.how, &packed.body];
            db.execute(&INSERT_EVENT, &values).await?;
            blobs::insert(db, row.key, position, false, packed).await?;
        }
        let (end, bytes) = (signed(appended.end), signed(self.bytes));
        db.execute(&ADVANCE, &[&row.key, &end, &status.as_str(), &bytes, &row.now]).await?;
        Ok(appended)
    }
}

pub(crate) async fn load(db: &dyn Executor, thread: &str, at: Option<LogPosition>) -> Result<Loaded, JournalError> {
    let Some(row) = find(db, thread).await? else { return Ok(Loaded::default()) };
    let until = at.unwrap_or(row.info.end);
    let mut loaded = Loaded { end: row.info.end, ..Loaded::default() };
    if let Some(found) = db.query(&LAST_SNAPSHOT, &[&row.key, &signed(until)]).await?.pop() {
        let text = StoredText::read(found)?;
        let at = signed(text.position);
        let blobs = if text.how == 0 { HashMap::new() } else { blobs::select(db, row.key, at..at + 1, true).await? };
        loaded.snapshot_bytes = text.bytes;
        loaded.snapshot = Some(Snapshot { position: text.position, body: text.unpack(thread, &blobs)? });
    }
    let from = loaded.snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
    (loaded.entries, loaded.entry_bytes) = entries(db, thread, row.key, &(from..until)).await?;
    Ok(loaded)
}

pub(crate) async fn read(
    db: &dyn Executor,
    thread: &str,
    positions: &Range<LogPosition>,
) -> Result<Vec<LogEntry>, JournalError> {
    let Some(row) = find(db, thread).await? else { return Ok(Vec::new()) };
    Ok(entries(db, thread, row.key, positions).await?.0)
}

pub(crate) async fn put_snapshot(
    db: &dyn Executor,
    thread: &str,
    fence: Fence,
    snapshot: Snapshot,
) -> Result<u64, JournalError> {
    let row = find_owned(db, thread, fence).await?;
    let Snapshot { position, body } = snapshot;
    if position > row.info.end {
        let reason = "the log ends before it";
        return Err(JournalError::NoState { thread: thread.to_owned(), position, reason });
    }
    let packed = pack_texts(body).map_err(|error| damaged(thread, position, &error))?;
    let (at, bytes) = (signed(position), signed(packed.bytes));
    delete_snapshots(db, row.key, at..at + 1).await?;
    db.execute(&INSERT_SNAPSHOT, &[&row.key, &at, &bytes, &packed.how, &packed.body]).await?;
    blobs::insert(db, row.key, at, true, &packed).await?;
    db.execute(&ADD_BYTES, &[&row.key, &bytes]).await?;
    Ok(packed.bytes)
}

/// Deletes snapshots, and what they needed beside their rows.
pub(crate) async fn delete_snapshots(
    db: &dyn Executor,
    thread: i64,
    positions: Range<i64>,
) -> Result<(), DatabaseError> {
    for statement in &DELETE_SNAPSHOTS {
        db.execute(statement, &[&thread, &positions.start, &positions.end]).await?;
    }
    Ok(())
}

/// Entries, and the bytes they take.
async fn entries(
    db: &dyn Executor,
    thread: &str,
    key: i64,
    positions: &Range<LogPosition>,
) -> Result<(Vec<LogEntry>, u64), JournalError> {
    let range = signed(positions.start)..signed(positions.end);
    let rows = db.query(&EVENTS, &[&key, &range.start, &range.end]).await?;
    let (mut entries, mut bytes, mut blobs) = (Vec::with_capacity(rows.len()), 0, None);
    for mut row in rows {
        let at = time(row.take(4)?);
        let text = StoredText::read(row)?;
        if text.how != 0 && blobs.is_none() {
            blobs = Some(blobs::select(db, key, signed(text.position)..range.end, false).await?);
        }
        let position = text.position;
        bytes += text.bytes;
        let body = text.unpack(thread, blobs.as_ref().unwrap_or(&HashMap::new()))?;
        entries.push(LogEntry { position, at, record: decode(thread, position, &body)? });
    }
    Ok((entries, bytes))
}

/// The text of a record or a snapshot, as it is stored.
struct StoredText {
    position: LogPosition,
    bytes: u64,
    how: i64,
    body: String,
}

impl StoredText {
    fn read(mut row: Row) -> Result<Self, DatabaseError> {
        Ok(Self { position: row.take(0)?, bytes: row.take(1)?, how: row.take(2)?, body: row.take(3)? })
    }

    fn unpack(self, thread: &str, blobs: &HashMap<Hash, String>) -> Result<String, JournalError> {
        unpack(self.body, self.how, blobs).ok_or_else(|| JournalError::Damaged {
            thread: thread.to_owned(),
            position: self.position,
            reason: "a part of it that was kept apart is missing".to_owned(),
        })
    }
}

/// A record or a snapshot that is no JSON.
fn damaged(thread: &str, position: LogPosition, error: &serde_json::Error) -> JournalError {
    JournalError::Damaged { thread: thread.to_owned(), position, reason: error.to_string() }
}
