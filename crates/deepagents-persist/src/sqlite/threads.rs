//! Threads as a whole.

use std::ops::Range;
use std::time::Duration;

use deepagents_core::journal::{JournalError, Position, Status, ThreadInfo, ThreadQuery, Threads, check_thread};
use futures_core::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};

use super::log::drop_snapshots;
use super::rows::{THREAD, ThreadRow, delete, drop_blobs, find, find_or_new, thread_row};
use super::{Sqlite, Work};
use crate::convert::{millis, signed, unsigned};

type Done<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

impl Threads for Sqlite {
    fn get<'a>(&'a self, thread: &'a str) -> Done<'a, Option<ThreadInfo>> {
        let thread = thread.to_owned();
        self.read(move |db, now| Ok(find(db, &thread, now)?.map(|row| info(row, now))))
    }

    fn list<'a>(&'a self, query: &'a ThreadQuery) -> Done<'a, Vec<ThreadInfo>> {
        let query = query.clone();
        self.read(move |db, now| {
            let sql = format!(
                "SELECT {THREAD} FROM thread WHERE (expires_at IS NULL OR expires_at > ?1)
                 AND (?2 IS NULL OR status = ?2) AND substr(id, 1, length(?3)) = ?3 ORDER BY updated_at DESC, id"
            );
            let mut found = db.prepare_cached(&sql)?;
            let rows = found.query_map(params![now, query.status.map(Status::word), query.prefix], thread_row)?;
            let mut threads = Vec::new();
            let mut skip = query.offset;
            for row in rows {
                if threads.len() >= query.limit {
                    break;
                }
                let info = info(row?, now);
                if !query.matches(&info) {
                    continue;
                }
                if skip > 0 {
                    skip -= 1;
                } else {
                    threads.push(info);
                }
            }
            Ok(threads)
        })
    }

    fn set_metadata<'a>(&'a self, thread: &'a str, metadata: Map<String, Value>) -> Done<'a, ()> {
        let thread = thread.to_owned();
        self.write(move |db, now| {
            let row = find_or_new(db, &thread, now)?;
            let mut all = row.info.metadata;
            all.extend(metadata);
            all.retain(|_, value| !value.is_null());
            db.prepare_cached(
                "UPDATE thread SET metadata = ?2, updated_at = ?3, expires_at = ?3 + ttl WHERE key = ?1",
            )?
            .execute(params![row.key, Value::Object(all).to_string(), now])?;
            Ok(())
        })
    }

    fn set_ttl<'a>(&'a self, thread: &'a str, ttl: Option<Duration>) -> Done<'a, ()> {
        let thread = thread.to_owned();
        self.write(move |db, now| {
            let row = find(db, &thread, now)?.ok_or(JournalError::NotFound { thread })?;
            db.prepare_cached("UPDATE thread SET ttl = ?2, expires_at = updated_at + ?2 WHERE key = ?1")?
                .execute(params![row.key, ttl.map(millis)])?;
            Ok(())
        })
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str, until: Option<Position>) -> Done<'a, ()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.write(move |db, now| copy(db, now, from, to, until))
    }

    fn delete<'a>(&'a self, thread: &'a str) -> Done<'a, bool> {
        let thread = thread.to_owned();
        self.write(move |db, now| {
            // What is in the row does not matter: a damaged thread can be deleted too.
            let sql = "SELECT 1 FROM thread WHERE id = ?1 AND (expires_at IS NULL OR expires_at > ?2)";
            let there = db.prepare_cached(sql)?.exists(params![thread, now])?;
            delete(db, &thread)?;
            Ok(there)
        })
    }

    fn remove<'a>(&'a self, thread: &'a str, positions: Range<Position>) -> Done<'a, ()> {
        let thread = thread.to_owned();
        self.write(move |db, now| remove(db, now, thread, &positions))
    }

    fn sweep(&self) -> Done<'_, u64> {
        self.write(move |db, now| {
            let over = db.prepare_cached("DELETE FROM thread WHERE expires_at <= ?1")?.execute([now])?;
            drop_blobs(db)?;
            Ok(over as u64)
        })
    }
}

fn info(row: ThreadRow, now: i64) -> ThreadInfo {
    let mut info = row.info;
    info.owner = row.owner.filter(|_| row.lease_until > now);
    info
}

fn copy(db: &Connection, now: i64, from: String, to: String, until: Option<Position>) -> Work<()> {
    check_thread(&to)?;
    let Some(source) = find(db, &from, now)? else { return Err(JournalError::NotFound { thread: from }.into()) };
    if find(db, &to, now)?.is_some() {
        return Err(JournalError::Exists { thread: to }.into());
    }
    let position = until.unwrap_or(source.info.end);
    let no_state = |reason| JournalError::Position { thread: from.clone(), position, reason };
    if position > source.info.end {
        return Err(no_state("the log ends before it").into());
    }
    let end = signed(position);
    let (base, kept): (i64, i64) = db
        .prepare_cached(
            "WITH base AS (SELECT coalesce(max(position), 0) AS at FROM snapshot WHERE thread = ?1 AND position <= ?2)
             SELECT base.at, (SELECT count(*) FROM event WHERE thread = ?1 AND position >= base.at AND position < ?2)
             FROM base",
        )?
        .query_row(params![source.key, end], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if kept != end - base {
        return Err(no_state("it was pruned").into());
    }
    let status = if position == source.info.end {
        source.info.status.word().to_owned()
    } else {
        let last = db
            .prepare_cached("SELECT status FROM event WHERE thread = ?1 AND position = ?2 - 1")?
            .query_row(params![source.key, end], |row| row.get(0))
            .optional()?;
        last.unwrap_or_else(|| if position == 0 { Status::Empty } else { Status::Ended }.word().to_owned())
    };
    let copy = find_or_new(db, &to, now)?.key;
    let all = params![source.key, end, copy];
    for sql in [
        "INSERT INTO event (thread, position, at, status, bytes, how, body)
            SELECT ?3, position, at, status, bytes, how, body FROM event WHERE thread = ?1 AND position < ?2
            ORDER BY position",
        "INSERT INTO snapshot (thread, position, bytes, how, body)
            SELECT ?3, position, bytes, how, body FROM snapshot WHERE thread = ?1 AND position <= ?2",
        "INSERT INTO blob_ref SELECT ?3, position, snapshot, hash FROM blob_ref
            WHERE thread = ?1 AND position < ?2 + snapshot",
    ] {
        db.prepare_cached(sql)?.execute(all)?;
    }
    db.prepare_cached(
        "UPDATE thread SET head = ?2, status = ?3, metadata = (SELECT metadata FROM thread WHERE key = ?4),
            bytes = (SELECT coalesce(sum(bytes), 0) FROM event WHERE thread = ?1)
                  + (SELECT coalesce(sum(bytes), 0) FROM snapshot WHERE thread = ?1)
         WHERE key = ?1",
    )?
    .execute(params![copy, end, status, source.key])?;
    Ok(())
}

fn remove(db: &Connection, now: i64, thread: String, positions: &Range<Position>) -> Work<()> {
    let row = find(db, &thread, now)?;
    let (from, until) = (signed(positions.start), signed(positions.end));
    let stands = |key: i64| {
        db.prepare_cached("SELECT 1 FROM snapshot WHERE thread = ?1 AND position = ?2")?.exists(params![key, until])
    };
    let key = match row {
        Some(row) if stands(row.key)? => row.key,
        _ => {
            let reason = "there is no snapshot that could stand for what is before it";
            return Err(JournalError::Position { thread, position: unsigned(until), reason }.into());
        }
    };
    drop_snapshots(db, key, positions.clone())?;
    let range = params![key, from, until];
    for sql in [
        "UPDATE thread SET bytes = bytes - (SELECT coalesce(sum(bytes), 0) FROM event
            WHERE thread = ?1 AND position >= ?2 AND position < ?3) WHERE key = ?1",
        "DELETE FROM event WHERE thread = ?1 AND position >= ?2 AND position < ?3",
        "DELETE FROM blob_ref WHERE thread = ?1 AND position >= ?2 AND position < ?3 AND snapshot = 0",
    ] {
        db.prepare_cached(sql)?.execute(range)?;
    }
    drop_blobs(db)?;
    Ok(())
}
