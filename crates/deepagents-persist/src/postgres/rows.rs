//! Rows of threads, and the texts that are kept apart.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use deepagents_core::journal::{Fence, JournalError, ThreadInfo, check_thread};
use tokio_postgres::Row;

use super::Work;
use super::error::PgError;
use crate::blob::{Hash, Packed};
use crate::convert::{Apart, metadata, status, time, unsigned, whole};

/// Appends that keep texts apart hold this together, whoever removes unneeded ones holds it alone.
const BLOB_LOCK: i64 = 0x6461_6262;

/// The time in milliseconds: the first parameter, or the server's.
pub(super) const NOW: &str = "coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";

/// A thread's row, and the time.
pub(super) struct ThreadRow {
    pub(super) key: i64,
    pub(super) epoch: i64,
    pub(super) owner: Option<String>,
    pub(super) lease_until: i64,
    pub(super) now: i64,
    pub(super) info: ThreadInfo,
}

pub(super) const THREAD: &str = "key, id, head, status, epoch, owner, lease_until, metadata, created_at, updated_at, \
                                 expires_at, bytes";

/// A row of the columns in [`THREAD`] and the time.
pub(super) fn thread_row(row: &Row) -> Work<ThreadRow> {
    let mut info = ThreadInfo::new(row.get::<_, String>(1), time(row.get(8)));
    info.end = unsigned(row.get(2));
    info.status = status(&info.id, row.get(3)).map_err(PgError::damaged)?;
    info.metadata = metadata(&info.id, row.get(7)).map_err(PgError::damaged)?;
    info.updated_at = time(row.get(9));
    info.expires_at = row.get::<_, Option<i64>>(10).map(time);
    info.bytes = unsigned(row.get(11));
    let (key, epoch, owner) = (row.get(0), row.get(4), row.get(5));
    Ok(ThreadRow { key, epoch, owner, lease_until: row.get(6), now: row.get(12), info })
}

/// A thread that is not over; locked against other changes in a transaction that asks for it.
pub(super) async fn find(
    db: &impl GenericClient,
    now: Option<i64>,
    thread: &str,
    lock: bool,
) -> Work<Option<ThreadRow>> {
    if thread.contains('\0') {
        return Ok(None);
    }
    let lock = if lock { "FOR UPDATE" } else { "" };
    let sql = format!(
        "SELECT {THREAD}, {NOW} FROM thread WHERE id = $2 AND (expires_at IS NULL OR expires_at > {NOW}) {lock}"
    );
    let found = db.query_opt(&db.prepare_cached(&sql).await?, &[&now, &thread]).await?;
    found.as_ref().map(thread_row).transpose()
}

/// A thread that is not over, or a new one in its place; locked.
pub(super) async fn find_or_new(db: &Transaction<'_>, now: Option<i64>, thread: &str) -> Work<ThreadRow> {
    check_thread(thread)?;
    loop {
        if let Some(row) = find(db, now, thread, true).await? {
            return Ok(row);
        }
        let sql = format!("DELETE FROM thread WHERE id = $2 AND expires_at <= {NOW}");
        db.execute(&db.prepare_cached(&sql).await?, &[&now, &thread]).await?;
        let sql = format!(
            "INSERT INTO thread (id, created_at, updated_at) VALUES ($2, {NOW}, {NOW}) ON CONFLICT (id) DO NOTHING"
        );
        db.execute(&db.prepare_cached(&sql).await?, &[&now, &thread]).await?;
    }
}

/// A thread, for its owner alone; locked.
pub(super) async fn owned(db: &Transaction<'_>, now: Option<i64>, thread: &str, fence: Fence) -> Work<ThreadRow> {
    let row = find(db, now, thread, true).await?;
    let mine = |row: &ThreadRow| unsigned(row.epoch) == fence.epoch() && row.lease_until > row.now;
    Ok(row.filter(mine).ok_or_else(|| JournalError::Fenced { thread: thread.to_owned() })?)
}

/// Keeps what a record or snapshot needs beside its row.
pub(super) async fn put_blobs(
    db: &Transaction<'_>,
    thread: i64,
    position: i64,
    snapshot: bool,
    packed: &Packed,
) -> Work<()> {
    if packed.blobs.is_empty() {
        return Ok(());
    }
    db.execute("SELECT pg_advisory_xact_lock_shared($1)", &[&BLOB_LOCK]).await?;
    let blob = db.prepare_cached("INSERT INTO blob VALUES ($1, $2) ON CONFLICT DO NOTHING").await?;
    let link = db.prepare_cached("INSERT INTO blob_ref VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING").await?;
    // In one order everywhere, so that two writers of the same texts do not wait for each other.
    let mut blobs: Vec<_> = packed.blobs.iter().collect();
    blobs.sort();
    for (hash, body) in blobs {
        let hash = hash.as_slice();
        db.execute(&blob, &[&hash, body]).await?;
        db.execute(&link, &[&thread, &position, &snapshot, &hash]).await?;
    }
    Ok(())
}

/// Removes the texts that nothing needs.
pub(super) async fn drop_blobs(db: &Transaction<'_>) -> Work<()> {
    db.execute("SELECT pg_advisory_xact_lock($1)", &[&BLOB_LOCK]).await?;
    let sql = "DELETE FROM blob b WHERE NOT EXISTS (SELECT 1 FROM blob_ref r WHERE r.hash = b.hash)";
    db.execute(&db.prepare_cached(sql).await?, &[]).await?;
    Ok(())
}

/// The text of a row.
pub(super) async fn text(
    db: &impl GenericClient,
    thread: &str,
    position: i64,
    body: String,
    how: i64,
    from: Apart,
) -> Work<String> {
    if how == 0 {
        return Ok(body);
    }
    let sql = "SELECT b.hash, b.body FROM blob_ref r JOIN blob b ON b.hash = r.hash
        WHERE r.thread = $1 AND r.position = $2 AND r.snapshot = $3";
    let found = db.query(&db.prepare_cached(sql).await?, &[&from.thread, &position, &from.snapshot]).await?;
    let blobs: HashMap<Hash, String> = found
        .iter()
        .filter_map(|row| Some((Hash::try_from(row.get::<_, &[u8]>(0)).ok()?, row.get::<_, String>(1))))
        .collect();
    Ok(whole(thread, position, body, how, &blobs)?)
}
