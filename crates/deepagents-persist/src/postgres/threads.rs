//! Threads as a whole.

use std::ops::Range;
use std::time::Duration;

use deepagents_core::journal::{JournalError, Position, Status, ThreadInfo, ThreadQuery, Threads, check_thread};
use futures_core::future::BoxFuture;
use serde_json::{Map, Value};

use super::log::drop_snapshots;
use super::rows::{NOW, THREAD, ThreadRow, drop_blobs, find, find_or_new, thread_row};
use super::{Postgres, Work};
use crate::convert::{millis, signed};

type Done<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

/// So many threads are read at once while a list is made.
const PAGE: i32 = 200;

impl Threads for Postgres {
    fn get<'a>(&'a self, thread: &'a str) -> Done<'a, Option<ThreadInfo>> {
        self.done(async move { Ok(find(&self.client().await?, self.now(), thread, false).await?.map(info)) })
    }

    fn list<'a>(&'a self, query: &'a ThreadQuery) -> Done<'a, Vec<ThreadInfo>> {
        self.done(self.list_threads(query))
    }

    fn set_metadata<'a>(&'a self, thread: &'a str, metadata: Map<String, Value>) -> Done<'a, ()> {
        self.done(async move {
            let mut client = self.client().await?;
            let db = client.transaction().await?;
            let row = find_or_new(&db, self.now(), thread).await?;
            let mut all = row.info.metadata;
            all.extend(metadata);
            all.retain(|_, value| !value.is_null());
            let sql = "UPDATE thread SET metadata = $2, updated_at = $3, expires_at = $3 + ttl WHERE key = $1";
            let all = Value::Object(all).to_string();
            db.execute(&db.prepare_cached(sql).await?, &[&row.key, &all, &row.now]).await?;
            Ok(db.commit().await?)
        })
    }

    fn set_ttl<'a>(&'a self, thread: &'a str, ttl: Option<Duration>) -> Done<'a, ()> {
        self.done(async move {
            let sql = format!(
                "UPDATE thread SET ttl = $3, expires_at = updated_at + $3 WHERE id = $2
                 AND (expires_at IS NULL OR expires_at > {NOW})"
            );
            let client = self.client().await?;
            match client.execute(&client.prepare_cached(&sql).await?, &[&self.now(), &thread, &ttl.map(millis)]).await?
            {
                0 => Err(JournalError::NotFound { thread: thread.to_owned() }.into()),
                _ => Ok(()),
            }
        })
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str, until: Option<Position>) -> Done<'a, ()> {
        self.done(self.copy_thread(from, to, until))
    }

    fn delete<'a>(&'a self, thread: &'a str) -> Done<'a, bool> {
        self.done(async move {
            if thread.contains('\0') {
                return Ok(false);
            }
            let mut client = self.client().await?;
            let db = client.transaction().await?;
            // What is in the row does not matter: a damaged thread can be deleted too.
            let sql = format!("DELETE FROM thread WHERE id = $2 AND (expires_at IS NULL OR expires_at > {NOW})");
            if db.execute(&db.prepare_cached(&sql).await?, &[&self.now(), &thread]).await? == 0 {
                return Ok(false);
            }
            drop_blobs(&db).await?;
            db.commit().await?;
            Ok(true)
        })
    }

    fn remove<'a>(&'a self, thread: &'a str, positions: Range<Position>) -> Done<'a, ()> {
        self.done(self.remove_records(thread, positions))
    }

    fn sweep(&self) -> Done<'_, u64> {
        self.done(async move {
            let mut client = self.client().await?;
            let db = client.transaction().await?;
            let sql = format!("DELETE FROM thread WHERE expires_at <= {NOW}");
            let over = db.execute(&db.prepare_cached(&sql).await?, &[&self.now()]).await?;
            drop_blobs(&db).await?;
            db.commit().await?;
            Ok(over)
        })
    }
}

impl Postgres {
    async fn list_threads(&self, query: &ThreadQuery) -> Work<Vec<ThreadInfo>> {
        let mut threads = Vec::new();
        if query.prefix.contains('\0') {
            return Ok(threads);
        }
        let mut client = self.client().await?;
        let db = client.transaction().await?;
        let sql = format!(
            "SELECT {THREAD}, {NOW} FROM thread
             WHERE (expires_at IS NULL OR expires_at > {NOW}) AND ($2::text IS NULL OR status = $2)
                AND starts_with(id, $3) ORDER BY updated_at DESC, id"
        );
        let statement = db.prepare_cached(&sql).await?;
        let portal = db.bind(&statement, &[&self.now(), &query.status.map(Status::word), &query.prefix]).await?;
        let mut skip = query.offset;
        while threads.len() < query.limit {
            let page = db.query_portal(&portal, PAGE).await?;
            if page.is_empty() {
                break;
            }
            for row in page {
                let info = info(thread_row(&row)?);
                if threads.len() >= query.limit || !query.matches(&info) {
                    continue;
                }
                if skip > 0 {
                    skip -= 1;
                } else {
                    threads.push(info);
                }
            }
        }
        Ok(threads)
    }

    async fn copy_thread(&self, from: &str, to: &str, until: Option<Position>) -> Work<()> {
        check_thread(to)?;
        let mut client = self.client().await?;
        let db = client.transaction().await?;
        let Some(source) = find(&db, self.now(), from, true).await? else {
            return Err(JournalError::NotFound { thread: from.to_owned() }.into());
        };
        if find(&db, self.now(), to, false).await?.is_some() {
            return Err(JournalError::Exists { thread: to.to_owned() }.into());
        }
        let position = until.unwrap_or(source.info.end);
        let no_state = |reason| JournalError::Position { thread: from.to_owned(), position, reason };
        if position > source.info.end {
            return Err(no_state("the log ends before it").into());
        }
        let end = signed(position);
        let sql = "WITH base AS (SELECT coalesce(max(position), 0) AS at FROM snapshot WHERE thread = $1
                AND position <= $2)
            SELECT base.at, (SELECT count(*) FROM event WHERE thread = $1 AND position >= base.at AND position < $2)
            FROM base";
        let found = db.query_one(&db.prepare_cached(sql).await?, &[&source.key, &end]).await?;
        if found.get::<_, i64>(1) != end - found.get::<_, i64>(0) {
            return Err(no_state("it was pruned").into());
        }
        let sql = "SELECT status FROM event WHERE thread = $1 AND position < $2 AND status IS NOT NULL
            ORDER BY position DESC LIMIT 1";
        let last = db.query_opt(&db.prepare_cached(sql).await?, &[&source.key, &end]).await?;
        let kept = |status: Status| status.word().to_owned();
        let status = match last {
            _ if position == source.info.end => kept(source.info.status),
            Some(row) => row.get(0),
            None if found.get::<_, i64>(0) == 0 => kept(Status::Empty),
            None => kept(Status::Ended),
        };
        let copy = find_or_new(&db, self.now(), to).await?.key;
        for sql in [
            "INSERT INTO event (thread, position, at, status, bytes, how, body)
                SELECT $3, position, at, status, bytes, how, body FROM event WHERE thread = $1 AND position < $2",
            "INSERT INTO snapshot (thread, position, bytes, how, body)
                SELECT $3, position, bytes, how, body FROM snapshot WHERE thread = $1 AND position <= $2",
            "INSERT INTO blob_ref SELECT $3, position, snapshot, hash FROM blob_ref
                WHERE thread = $1 AND (position < $2 OR (snapshot AND position = $2))",
        ] {
            db.execute(&db.prepare_cached(sql).await?, &[&source.key, &end, &copy]).await?;
        }
        let sql = "UPDATE thread SET head = $2, status = $3,
                metadata = (SELECT metadata FROM thread WHERE key = $4),
                bytes = (SELECT coalesce(sum(bytes), 0)::bigint FROM event WHERE thread = $1)
                      + (SELECT coalesce(sum(bytes), 0)::bigint FROM snapshot WHERE thread = $1)
            WHERE key = $1";
        db.execute(&db.prepare_cached(sql).await?, &[&copy, &end, &status, &source.key]).await?;
        Ok(db.commit().await?)
    }

    async fn remove_records(&self, thread: &str, positions: Range<Position>) -> Work<()> {
        let mut client = self.client().await?;
        let db = client.transaction().await?;
        let (from, until) = (signed(positions.start), signed(positions.end));
        let row = find(&db, self.now(), thread, true).await?;
        let stands = db.prepare_cached("SELECT 1 FROM snapshot WHERE thread = $1 AND position = $2").await?;
        let key = match row {
            Some(row) if db.query_opt(&stands, &[&row.key, &until]).await?.is_some() => row.key,
            _ => {
                let reason = "there is no snapshot that could stand for what is before it";
                let (thread, position) = (thread.to_owned(), positions.end);
                return Err(JournalError::Position { thread, position, reason }.into());
            }
        };
        drop_snapshots(&db, key, positions).await?;
        for sql in [
            "UPDATE thread SET bytes = bytes - (SELECT coalesce(sum(bytes), 0)::bigint FROM event
                WHERE thread = $1 AND position >= $2 AND position < $3) WHERE key = $1",
            "DELETE FROM event WHERE thread = $1 AND position >= $2 AND position < $3",
            "DELETE FROM blob_ref WHERE thread = $1 AND position >= $2 AND position < $3 AND NOT snapshot",
        ] {
            db.execute(&db.prepare_cached(sql).await?, &[&key, &from, &until]).await?;
        }
        drop_blobs(&db).await?;
        Ok(db.commit().await?)
    }
}

fn info(row: ThreadRow) -> ThreadInfo {
    let mut info = row.info;
    info.owner = row.owner.filter(|_| row.lease_until > row.now);
    info
}
