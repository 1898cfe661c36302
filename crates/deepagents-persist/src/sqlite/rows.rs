//! Rows of threads, and the texts that are kept apart.

use std::collections::HashMap;

use deepagents_core::journal::{Fence, JournalError, ThreadInfo, check_thread};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Work;
use crate::blob::{Hash, Packed};
use crate::convert::{Apart, metadata, status, time, unsigned, whole};

/// A thread's row.
pub(super) struct ThreadRow {
    pub(super) key: i64,
    pub(super) epoch: i64,
    pub(super) owner: Option<String>,
    pub(super) lease_until: i64,
    pub(super) info: ThreadInfo,
}

pub(super) const THREAD: &str = "key, id, head, status, epoch, owner, lease_until, metadata, created_at, updated_at, \
                                 expires_at, bytes";

pub(super) fn thread_row(row: &Row<'_>) -> rusqlite::Result<ThreadRow> {
    let id: String = row.get(1)?;
    let bad = |column: usize| {
        move |reason: String| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, reason.into())
    };
    let (word, noted): (String, String) = (row.get(3)?, row.get(7)?);
    let mut info = ThreadInfo::new(id, time(row.get(8)?));
    info.end = unsigned(row.get(2)?);
    info.status = status(&info.id, &word).map_err(bad(3))?;
    info.metadata = metadata(&info.id, &noted).map_err(bad(7))?;
    info.updated_at = time(row.get(9)?);
    info.expires_at = row.get::<_, Option<i64>>(10)?.map(time);
    info.bytes = unsigned(row.get(11)?);
    Ok(ThreadRow { key: row.get(0)?, epoch: row.get(4)?, owner: row.get(5)?, lease_until: row.get(6)?, info })
}

/// A thread that is not over.
pub(super) fn find(db: &Connection, thread: &str, now: i64) -> rusqlite::Result<Option<ThreadRow>> {
    let sql = format!("SELECT {THREAD} FROM thread WHERE id = ?1 AND (expires_at IS NULL OR expires_at > ?2)");
    db.prepare_cached(&sql)?.query_row(params![thread, now], thread_row).optional()
}

/// A thread that is not over, or a new one in its place.
pub(super) fn find_or_new(db: &Connection, thread: &str, now: i64) -> Work<ThreadRow> {
    check_thread(thread)?;
    if let Some(row) = find(db, thread, now)? {
        return Ok(row);
    }
    delete(db, thread)?;
    db.prepare_cached("INSERT INTO thread (id, created_at, updated_at) VALUES (?1, ?2, ?2)")?
        .execute(params![thread, now])?;
    Ok(find(db, thread, now)?.ok_or_else(|| JournalError::NotFound { thread: thread.to_owned() })?)
}

/// A thread, for its owner alone.
pub(super) fn owned(db: &Connection, thread: &str, fence: Fence, now: i64) -> Work<ThreadRow> {
    let row = find(db, thread, now)?;
    let mine = |row: &ThreadRow| unsigned(row.epoch) == fence.epoch() && row.lease_until > now;
    Ok(row.filter(mine).ok_or_else(|| JournalError::Fenced { thread: thread.to_owned() })?)
}

/// Deletes a thread and what only it needs; returns whether there was one.
pub(super) fn delete(db: &Connection, thread: &str) -> rusqlite::Result<bool> {
    let deleted = db.prepare_cached("DELETE FROM thread WHERE id = ?1")?.execute([thread])? > 0;
    if deleted {
        drop_blobs(db)?;
    }
    Ok(deleted)
}

/// Keeps what a record or snapshot needs beside its row.
pub(super) fn put_blobs(
    db: &Connection,
    thread: i64,
    position: i64,
    snapshot: bool,
    packed: &Packed,
) -> rusqlite::Result<()> {
    for (hash, body) in &packed.blobs {
        db.prepare_cached("INSERT OR IGNORE INTO blob (hash, body) VALUES (?1, ?2)")?.execute(params![hash, body])?;
        db.prepare_cached("INSERT OR IGNORE INTO blob_ref VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![thread, position, snapshot, hash])?;
    }
    Ok(())
}

/// Removes the texts that nothing needs.
pub(super) fn drop_blobs(db: &Connection) -> rusqlite::Result<()> {
    let sql = "DELETE FROM blob WHERE NOT EXISTS (SELECT 1 FROM blob_ref r WHERE r.hash = blob.hash)";
    db.prepare_cached(sql)?.execute([]).map(|_| ())
}

/// The text of a row.
pub(super) fn text(db: &Connection, thread: &str, position: i64, body: String, how: i64, from: Apart) -> Work<String> {
    if how == 0 {
        return Ok(body);
    }
    let sql = "SELECT b.hash, b.body FROM blob_ref r JOIN blob b ON b.hash = r.hash
        WHERE r.thread = ?1 AND r.position = ?2 AND r.snapshot = ?3";
    let mut found = db.prepare_cached(sql)?;
    let found = found.query_map(params![from.thread, position, from.snapshot], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let blobs = found.collect::<rusqlite::Result<HashMap<Hash, String>>>()?;
    Ok(whole(thread, position, body, how, &blobs)?)
}
