//! Operations on logs and their snapshots.

use std::collections::HashMap;
use std::ops::Range;

use deepagents_core::journal::{Fence, JournalError, Loaded, LogEntry, LogPosition, Snapshot, decode};

use crate::blob::{Hash, Packed, pack_texts, unpack};
use crate::blobs;
use crate::convert::{signed, time};
use crate::error::DatabaseError;
use crate::executor::Executor;
use crate::row::Row;
use crate::statement::Statement;
use crate::thread_row::{find, find_owned};

static LAST_SNAPSHOT: Statement = Statement::new(
    "SELECT position, bytes, how, body FROM snapshot WHERE thread = $1 AND position <= $2
     ORDER BY position DESC LIMIT 1",
);
static EVENTS: Statement =
    Statement::new("SELECT position, bytes, how, body, at FROM event WHERE {at positions} ORDER BY position");
static INSERT_SNAPSHOT: Statement =
    Statement::new("INSERT INTO snapshot (thread, position, bytes, how, body) VALUES ($1, $2, $3, $4, $5)");
static ADD_BYTES: Statement = Statement::new("UPDATE thread SET bytes = bytes + $2 WHERE key = $1");
static DELETE_SNAPSHOTS: [Statement; 3] = [
    Statement::new(
        "UPDATE thread SET bytes = bytes - (SELECT {bytes} FROM snapshot WHERE {at positions}) WHERE key = $1",
    ),
    Statement::new("DELETE FROM snapshot WHERE {at positions}"),
    Statement::new("DELETE FROM blob_ref WHERE {at positions} AND snapshot"),
];

pub(crate) async fn load(db: &dyn Executor, thread: String, at: Option<LogPosition>) -> Result<Loaded, JournalError> {
    let Some(row) = find(db, &thread).await? else { return Ok(Loaded::default()) };
    let until = at.unwrap_or(row.info.end);
    let mut loaded = Loaded { end: row.info.end, created_at: Some(row.info.created_at), ..Loaded::default() };
    if let Some(found) = db.query(&LAST_SNAPSHOT, &[&row.key, &signed(until)]).await?.pop() {
        let text = StoredText::read(found)?;
        let at = signed(text.position);
        let blobs = if text.how == 0 { HashMap::new() } else { blobs::select(db, row.key, at..at + 1, true).await? };
        loaded.snapshot_bytes = text.bytes;
        loaded.snapshot = Some(Snapshot { position: text.position, body: text.unpack(&thread, &blobs)? });
    }
    let from = loaded.snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
    (loaded.entries, loaded.entry_bytes) = entries(db, &thread, row.key, &(from..until)).await?;
    Ok(loaded)
}

pub(crate) async fn read(
    db: &dyn Executor,
    thread: String,
    positions: Range<LogPosition>,
) -> Result<Vec<LogEntry>, JournalError> {
    let Some(row) = find(db, &thread).await? else { return Ok(Vec::new()) };
    Ok(entries(db, &thread, row.key, &positions).await?.0)
}

/// A snapshot encoded as a row.
#[derive(Debug)]
pub(crate) struct PackedSnapshot {
    pub(crate) thread: String,
    fence: Fence,
    position: LogPosition,
    pub(crate) packed: Packed,
}

impl PackedSnapshot {
    pub(crate) fn pack(thread: &str, fence: Fence, snapshot: Snapshot) -> Result<Self, JournalError> {
        let Snapshot { position, body } = snapshot;
        let thread = thread.to_owned();
        match pack_texts(body) {
            Ok(packed) => Ok(Self { thread, fence, position, packed }),
            Err(error) => Err(JournalError::Encode { thread, position, reason: error.to_string() }),
        }
    }

    /// Writes the snapshot, replacing any at its position. Returns its size in bytes.
    pub(crate) async fn write(&self, db: &dyn Executor) -> Result<u64, JournalError> {
        let Self { thread, fence, position, packed } = self;
        let row = find_owned(db, thread, *fence).await?;
        if *position > row.end {
            let (thread, reason) = (thread.clone(), "the log ends before it");
            return Err(JournalError::NoState { thread, position: *position, reason });
        }
        let (at, bytes) = (signed(*position), signed(packed.bytes));
        delete_snapshots(db, row.key, at..at + 1).await?;
        db.execute(&INSERT_SNAPSHOT, &[&row.key, &at, &bytes, &packed.how, &packed.body]).await?;
        blobs::insert(db, row.key, at, true, packed).await?;
        db.execute(&ADD_BYTES, &[&row.key, &bytes]).await?;
        Ok(packed.bytes)
    }
}

/// Deletes snapshots and their references to blobs.
pub(crate) async fn delete_snapshots(
    db: &dyn Executor,
    thread: i64,
    positions: Range<i64>,
) -> Result<(), DatabaseError> {
    db.execute_all(&DELETE_SNAPSHOTS, &[&thread, &positions.start, &positions.end]).await
}

/// Returns entries and their total size in bytes.
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

/// The text of a record or a snapshot, as stored.
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
            reason: "a part of it that was stored separately is missing".to_owned(),
        })
    }
}
