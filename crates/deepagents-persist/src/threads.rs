//! Operations on whole threads.

use std::ops::Range;
use std::time::Duration;

use deepagents_core::journal::{
    Fence, JournalError, LogPosition, RunStatus, ThreadInfo, check_child, check_metadata, check_thread,
};
use serde_json::{Map, Value};

use crate::blob::Hash;
use crate::blobs;
use crate::convert::{millis, signed};
use crate::executor::Executor;
use crate::log::delete_snapshots;
use crate::statement::Statement;
use crate::thread_row::{LastRun, ThreadRow, find, find_locked, find_or_insert, find_owned, insert};

/// Identifies the storage: the file, or the table and the server's start time.
static STORAGE: Statement = Statement::per_database(
    "SELECT 'sqlite ' || file FROM pragma_database_list WHERE name = 'main'",
    "SELECT 'postgres ' || pg_postmaster_start_time() || ' ' || current_database() || ' '
        || CAST(CAST('thread' AS regclass) AS oid)",
);
static CHILDREN: Statement =
    Statement::new("SELECT {thread} FROM thread WHERE parent = $2 AND {live thread} ORDER BY id {for update}");
static SET_PARENT: Statement = Statement::new("UPDATE thread SET parent = $2 WHERE key = $1");
static SET_METADATA: Statement =
    Statement::new("UPDATE thread SET metadata = $2, updated_at = $3, expires_at = $3 + ttl WHERE key = $1");
static SET_TTL: Statement =
    Statement::new("UPDATE thread SET ttl = $3, expires_at = updated_at + $3 WHERE id = $2 AND {live thread}");
static DELETE: Statement =
    Statement::new("DELETE FROM thread WHERE id IN ({families} id = $2 AND {live thread} {and theirs})");
static DELETE_ALL_EXPIRED: Statement =
    Statement::new("DELETE FROM thread WHERE id IN ({families} {expired thread} {and theirs})");
static STATE_AT: Statement = Statement::new(
    "WITH base AS (SELECT coalesce(max(position), 0) AS at FROM snapshot WHERE thread = $1 AND position <= $2)
     SELECT base.at, (SELECT count(*) FROM event WHERE thread = $1 AND position >= base.at AND position < $2) FROM base",
);
static STATUS_AT: Statement = Statement::new(
    "SELECT status, stop FROM event WHERE thread = $1 AND position < $2 AND status IS NOT NULL
     ORDER BY position DESC LIMIT 1",
);
static COPY: [Statement; 3] = [
    Statement::new(
        "INSERT INTO event (thread, position, at, status, stop, bytes, how, body)
            SELECT $3, position, at, status, stop, bytes, how, body FROM event WHERE thread = $1 AND position < $2
            ORDER BY position",
    ),
    Statement::new(
        "INSERT INTO snapshot (thread, position, bytes, how, body)
            SELECT $3, position, bytes, how, body FROM snapshot WHERE thread = $1 AND position <= $2",
    ),
    Statement::new(
        "INSERT INTO blob_ref (thread, position, snapshot, hash)
            SELECT $3, position, snapshot, hash FROM blob_ref
            WHERE thread = $1 AND (position < $2 OR (snapshot AND position = $2))",
    ),
];
static FINISH_COPY: Statement = Statement::new(
    "UPDATE thread SET head = $2, status = $3, metadata = (SELECT metadata FROM thread WHERE key = $4), parent = $5,
        stop = $6,
        bytes = (SELECT {bytes} FROM event WHERE thread = $1) + (SELECT {bytes} FROM snapshot WHERE thread = $1)
     WHERE key = $1",
);
static HAS_SNAPSHOT: Statement = Statement::new("SELECT position FROM snapshot WHERE thread = $1 AND position = $2");
static DELETE_EVENTS: [Statement; 3] = [
    Statement::new("UPDATE thread SET bytes = bytes - (SELECT {bytes} FROM event WHERE {at positions}) WHERE key = $1"),
    Statement::new("DELETE FROM event WHERE {at positions}"),
    Statement::new("DELETE FROM blob_ref WHERE {at positions} AND NOT snapshot"),
];

pub(crate) async fn storage(db: &dyn Executor) -> Result<Option<String>, JournalError> {
    Ok(Some(db.query_one(&STORAGE, &[]).await?.take(0)?))
}

pub(crate) async fn get(db: &dyn Executor, thread: String) -> Result<Option<ThreadInfo>, JournalError> {
    Ok(find(db, &thread).await?.map(ThreadRow::info))
}

pub(crate) async fn set_metadata(
    db: &dyn Executor,
    thread: String,
    metadata: Map<String, Value>,
) -> Result<(), JournalError> {
    check_metadata(&thread, &metadata)?;
    let row = find_or_insert(db, &thread).await?;
    merge_metadata(db, row, metadata).await
}

pub(crate) async fn update_metadata(
    db: &dyn Executor,
    thread: String,
    metadata: Map<String, Value>,
) -> Result<(), JournalError> {
    check_metadata(&thread, &metadata)?;
    match find_locked(db, &thread).await? {
        Some(row) => merge_metadata(db, row, metadata).await,
        None => Err(JournalError::NotFound { thread }),
    }
}

async fn merge_metadata(db: &dyn Executor, row: ThreadRow, metadata: Map<String, Value>) -> Result<(), JournalError> {
    let mut all = row.info.metadata;
    all.extend(metadata);
    all.retain(|_, value| !value.is_null());
    db.execute(&SET_METADATA, &[&row.key, &Value::Object(all).to_string(), &row.now]).await?;
    Ok(())
}

pub(crate) async fn set_parent(db: &dyn Executor, thread: String, parent: Option<String>) -> Result<(), JournalError> {
    if let Some(parent) = &parent {
        check_child(&thread, parent)?;
    }
    let row = find_or_insert(db, &thread).await?;
    db.execute(&SET_PARENT, &[&row.key, &parent]).await?;
    Ok(())
}

pub(crate) async fn set_ttl(db: &dyn Executor, thread: String, ttl: Option<Duration>) -> Result<(), JournalError> {
    if thread.contains('\0') || db.execute(&SET_TTL, &[&db.now(), &thread, &ttl.map(millis)]).await? == 0 {
        return Err(JournalError::NotFound { thread });
    }
    Ok(())
}

pub(crate) async fn copy(
    db: &dyn Executor,
    from: String,
    to: String,
    until: Option<LogPosition>,
) -> Result<(), JournalError> {
    check_thread(&to)?;
    let Some(source) = find_locked(db, &from).await? else { return Err(JournalError::NotFound { thread: from }) };
    let mut sources = vec![(source, until)];
    while let Some((source, until)) = sources.pop() {
        for row in db.query(&CHILDREN, &[&db.now(), &source.info.id]).await? {
            sources.push((ThreadRow::read(db, row)?, None));
        }
        let renamed = |id: &str| id.strip_prefix(&*from).map(|rest| format!("{to}{rest}"));
        let copy = renamed(&source.info.id).unwrap_or_default();
        let parent = source.info.parent.as_deref().filter(|_| source.info.id != from).and_then(renamed);
        copy_one(db, &source, &copy, parent.as_deref(), until).await?;
    }
    Ok(())
}

async fn copy_one(
    db: &dyn Executor,
    source: &ThreadRow,
    to: &str,
    parent: Option<&str>,
    until: Option<LogPosition>,
) -> Result<(), JournalError> {
    check_thread(to)?;
    if find(db, to).await?.is_some() {
        return Err(JournalError::Exists { thread: to.to_owned() });
    }
    let position = until.unwrap_or(source.info.end);
    let no_state = |reason| JournalError::NoState { thread: source.info.id.clone(), position, reason };
    if position > source.info.end {
        return Err(no_state("the log ends before it"));
    }
    let end = signed(position);
    let mut found = db.query_one(&STATE_AT, &[&source.key, &end]).await?;
    let (base, events): (i64, i64) = (found.take(0)?, found.take(1)?);
    if events != end - base {
        return Err(no_state("it was pruned"));
    }
    let (status, stop): (String, Option<String>) = if position == source.info.end {
        let last_run = LastRun::new(source.info.status, source.info.stop.as_ref());
        (last_run.status.to_owned(), last_run.stop)
    } else {
        match db.query(&STATUS_AT, &[&source.key, &end]).await?.pop() {
            Some(mut row) => (row.take(0)?, row.take(1)?),
            None => (if base == 0 { RunStatus::Empty } else { RunStatus::Ended }.as_str().to_owned(), None),
        }
    };
    // Another process may have created a thread of that name in the meantime.
    let Some(copy) = insert(db, to).await? else {
        return Err(JournalError::Exists { thread: to.to_owned() });
    };
    db.execute_all(&COPY, &[&source.key, &end, &copy.key]).await?;
    db.execute(&FINISH_COPY, &[&copy.key, &end, &status, &source.key, &parent, &stop]).await?;
    Ok(())
}

/// Deletes a thread and its descendants. Returns the blobs they referenced, or `None` if the thread did not exist.
pub(crate) async fn delete(db: &dyn Executor, thread: String) -> Result<Option<Vec<Hash>>, JournalError> {
    if thread.contains('\0') {
        return Ok(None);
    }
    let texts = blobs::of_thread(db, &thread).await?;
    // The row's contents are not read, so a damaged thread can be deleted too.
    let deleted = db.execute(&DELETE, &[&db.now(), &thread]).await?;
    Ok((deleted > 0).then_some(texts))
}

/// Removes records and snapshots. Returns the blobs they referenced.
pub(crate) async fn remove(
    db: &dyn Executor,
    thread: String,
    fence: Fence,
    positions: Range<LogPosition>,
) -> Result<Vec<Hash>, JournalError> {
    let (from, until) = (signed(positions.start), signed(positions.end));
    let key = find_owned(db, &thread, fence).await?.key;
    if db.query(&HAS_SNAPSHOT, &[&key, &until]).await?.is_empty() {
        let reason = "there is no snapshot to replace what comes before it";
        return Err(JournalError::NoState { thread, position: positions.end, reason });
    }
    let texts = blobs::at_positions(db, key, &(from..until)).await?;
    delete_snapshots(db, key, from..until).await?;
    db.execute_all(&DELETE_EVENTS, &[&key, &from, &until]).await?;
    Ok(texts)
}

pub(crate) async fn sweep(db: &dyn Executor) -> Result<u64, JournalError> {
    Ok(db.execute(&DELETE_ALL_EXPIRED, &[&db.now()]).await?)
}
