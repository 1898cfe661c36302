//! Logs.

use std::ops::Range;
use std::time::Duration;

use deepagents_core::journal::{
    Appended, Claim, Entry, Fence, Journal, JournalError, Loaded, Position, Record, Snapshot, Threads, decode, encode,
};
use futures_core::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{find, find_or_new, owned, put_blobs, text};
use super::{Sqlite, Work};
use crate::blob::{pack, pack_texts};
use crate::convert::{Apart, damaged, millis, signed, time, unsigned};

type Done<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

impl Journal for Sqlite {
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> Done<'a, Fence> {
        let thread = thread.to_owned();
        self.write(move |db, now| {
            let row = find_or_new(db, &thread, now)?;
            if let Some(owner) = row.owner.filter(|_| row.lease_until > now && !claim.take_over) {
                return Err(JournalError::Busy { thread, owner, until: time(row.lease_until) }.into());
            }
            let epoch: i64 = db
                .prepare_cached("UPDATE epoch SET last = last + 1 RETURNING last")?
                .query_row([], |row| row.get(0))?;
            db.prepare_cached("UPDATE thread SET epoch = ?2, owner = ?3, lease_until = ?4 WHERE key = ?1")?
                .execute(params![row.key, epoch, claim.owner, now + millis(claim.lease)])?;
            Ok(Fence::new(unsigned(epoch)))
        })
    }

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> Done<'a, ()> {
        let thread = thread.to_owned();
        self.write(move |db, now| {
            let row = owned(db, &thread, fence, now)?;
            db.prepare_cached("UPDATE thread SET lease_until = ?2 WHERE key = ?1")?
                .execute(params![row.key, now + millis(lease)])?;
            Ok(())
        })
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> Done<'a, ()> {
        let thread = thread.to_owned();
        self.write(move |db, now| {
            let Ok(row) = owned(db, &thread, fence, now) else { return Ok(()) };
            if row.info.end == 0 && row.info.metadata.is_empty() {
                db.prepare_cached("DELETE FROM thread WHERE key = ?1")?.execute([row.key])?;
            } else {
                db.prepare_cached("UPDATE thread SET owner = NULL, lease_until = 0 WHERE key = ?1")?
                    .execute([row.key])?;
            }
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
        let thread = thread.to_owned();
        self.write(move |db, now| append(db, now, thread, fence, expected, &records))
    }

    fn load<'a>(&'a self, thread: &'a str, at: Option<Position>) -> Done<'a, Loaded> {
        let thread = thread.to_owned();
        self.read(move |db, now| load(db, now, &thread, at))
    }

    fn read<'a>(&'a self, thread: &'a str, positions: Range<Position>) -> Done<'a, Vec<Entry>> {
        let thread = thread.to_owned();
        Sqlite::read(self, move |db, now| {
            let Some(row) = find(db, &thread, now)? else { return Ok(Vec::new()) };
            Ok(entries(db, &thread, row.key, &positions)?.0)
        })
    }

    fn put_snapshot<'a>(&'a self, thread: &'a str, fence: Fence, snapshot: Snapshot) -> Done<'a, u64> {
        let thread = thread.to_owned();
        self.write(move |db, now| {
            let row = owned(db, &thread, fence, now)?;
            let Snapshot { position, body } = snapshot;
            if position > row.info.end {
                return Err(JournalError::Position { thread, position, reason: "the log ends before it" }.into());
            }
            let at = signed(position);
            let packed = pack_texts(body).map_err(|error| damaged(&thread, position, &error))?;
            drop_snapshots(db, row.key, position..position + 1)?;
            db.prepare_cached("INSERT INTO snapshot (thread, position, bytes, how, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![row.key, at, signed(packed.bytes), packed.how, packed.body])?;
            put_blobs(db, row.key, at, true, &packed)?;
            db.prepare_cached("UPDATE thread SET bytes = bytes + ?2 WHERE key = ?1")?
                .execute(params![row.key, signed(packed.bytes)])?;
            Ok(packed.bytes)
        })
    }

    fn threads(&self) -> &dyn Threads {
        self
    }
}

fn append(
    db: &Connection,
    now: i64,
    thread: String,
    fence: Fence,
    expected: Position,
    records: &[Record],
) -> Work<Appended> {
    let row = owned(db, &thread, fence, now)?;
    if row.info.end != expected {
        return Err(JournalError::Conflict { thread, expected, found: row.info.end }.into());
    }
    let (mut status, mut bytes) = (row.info.status, 0);
    for (position, record) in (expected..).zip(records) {
        let encoded = encode(record).map_err(|error| damaged(&thread, position, &error))?;
        let packed = pack(encoded).map_err(|error| damaged(&thread, position, &error))?;
        status = status.after([record]);
        bytes += packed.bytes;
        db.prepare_cached(
            "INSERT INTO event (thread, position, at, status, bytes, how, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            row.key,
            signed(position),
            now,
            status.word(),
            signed(packed.bytes),
            packed.how,
            packed.body
        ])?;
        put_blobs(db, row.key, signed(position), false, &packed)?;
    }
    let end = expected + records.len() as u64;
    db.prepare_cached(
        "UPDATE thread SET head = ?2, status = ?3, bytes = bytes + ?4, updated_at = ?5, expires_at = ?5 + ttl
         WHERE key = ?1",
    )?
    .execute(params![row.key, signed(end), status.word(), signed(bytes), now])?;
    Ok(Appended { end, bytes })
}

fn load(db: &Connection, now: i64, thread: &str, at: Option<Position>) -> Work<Loaded> {
    let Some(row) = find(db, thread, now)? else { return Ok(Loaded::default()) };
    let until = at.unwrap_or(row.info.end);
    let sql = "SELECT position, bytes, how, body FROM snapshot WHERE thread = ?1 AND position <= ?2
        ORDER BY position DESC LIMIT 1";
    let found = db
        .prepare_cached(sql)?
        .query_row(params![row.key, signed(until)], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, String>(3)?))
        })
        .optional()?;
    let mut loaded = Loaded { end: row.info.end, ..Loaded::default() };
    if let Some((position, bytes, how, body)) = found {
        let body = text(db, thread, position, body, how, Apart { thread: row.key, snapshot: true })?;
        loaded.snapshot = Some(Snapshot { position: unsigned(position), body });
        loaded.snapshot_bytes = unsigned(bytes);
    }
    let from = loaded.snapshot.as_ref().map_or(0, |snapshot| snapshot.position);
    (loaded.entries, loaded.entry_bytes) = entries(db, thread, row.key, &(from..until))?;
    Ok(loaded)
}

/// Entries, and the bytes they take.
fn entries(db: &Connection, thread: &str, key: i64, positions: &Range<Position>) -> Work<(Vec<Entry>, u64)> {
    let sql = "SELECT position, at, bytes, how, body FROM event
        WHERE thread = ?1 AND position >= ?2 AND position < ?3 ORDER BY position";
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(params![key, signed(positions.start), signed(positions.end)])?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let position: i64 = row.get(0)?;
        bytes += unsigned(row.get(2)?);
        let body = text(db, thread, position, row.get(4)?, row.get(3)?, Apart { thread: key, snapshot: false })?;
        let record = decode(thread, unsigned(position), &body)?;
        entries.push(Entry { position: unsigned(position), at: time(row.get(1)?), record });
    }
    Ok((entries, bytes))
}

/// Removes snapshots, and what was kept apart for them.
pub(super) fn drop_snapshots(db: &Connection, key: i64, positions: Range<Position>) -> rusqlite::Result<()> {
    let (from, until) = (signed(positions.start), signed(positions.end));
    let range = params![key, from, until];
    db.prepare_cached(
        "UPDATE thread SET bytes = bytes - (SELECT coalesce(sum(bytes), 0) FROM snapshot
            WHERE thread = ?1 AND position >= ?2 AND position < ?3) WHERE key = ?1",
    )?
    .execute(range)?;
    db.prepare_cached("DELETE FROM snapshot WHERE thread = ?1 AND position >= ?2 AND position < ?3")?.execute(range)?;
    db.prepare_cached("DELETE FROM blob_ref WHERE thread = ?1 AND position >= ?2 AND position < ?3 AND snapshot = 1")?
        .execute(range)?;
    Ok(())
}
