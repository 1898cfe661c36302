//! Rows of blobs: long texts stored separately from records and snapshots.
//!
//! Threads share blobs, but must not wait for each other because of that.
//!
//! On Postgres, a blob is stored in a statement of its own or in the append's, and deleted in one of its own once
//! nothing references it. A transaction only adds references, so no lock on a new blob is held between statements. The
//! foreign key catches a concurrent deletion.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use crate::blob::{Hash, Packed, hex};
use crate::error::DatabaseError;
use crate::executor::{BlobText, Executor};
use crate::row::Row;
use crate::statement::Statement;

/// Maximum number of blobs deleted per statement.
const MAX_DELETED_BLOBS: usize = 1_000;

static FIND: Statement = Statement::new("SELECT hash FROM blob WHERE hash = $1 {for key share}");
static INSERT: Statement = Statement::new("INSERT INTO blob (hash, body) VALUES ($1, $2) ON CONFLICT DO NOTHING");
static INSERT_REF: Statement = Statement::new(
    "INSERT INTO blob_ref (thread, position, snapshot, hash) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
);
static SELECT: Statement = Statement::new(
    "SELECT hash, body FROM blob WHERE hash IN (SELECT hash FROM blob_ref
        WHERE {at positions} AND snapshot = $4)",
);
static OF_THREAD: Statement = Statement::new(
    "SELECT DISTINCT hash FROM blob_ref WHERE thread IN (SELECT key FROM thread WHERE id IN
        ({families} id = $2 AND {live thread} {and theirs}))",
);
static AT_POSITIONS: Statement = Statement::new("SELECT DISTINCT hash FROM blob_ref WHERE {at positions}");
static DELETE_UNUSED: Statement = Statement::new(
    "DELETE FROM blob WHERE hash IN
        (SELECT hash FROM blob WHERE hash IN ({given hashes}) AND {is unused} ORDER BY hash {for update skip locked})",
);
static DELETE_ALL_UNUSED: Statement = Statement::new(
    "DELETE FROM blob WHERE hash IN
        (SELECT hash FROM blob WHERE {is unused} ORDER BY hash {for update skip locked})",
);

/// Stores blobs, each in its own statement, always in hash order.
pub(crate) async fn store(db: &dyn Executor, packed: &Packed) -> Result<(), DatabaseError> {
    for (hash, body) in sorted(packed) {
        if db.query(&FIND, &[&hash.as_slice()]).await?.is_empty() {
            db.execute(&INSERT, &[&hash.as_slice(), &BlobText(body)]).await?;
        }
    }
    Ok(())
}

/// Stores the blobs of a record or a snapshot and its references to them.
pub(crate) async fn insert(
    db: &dyn Executor,
    thread: i64,
    position: i64,
    snapshot: bool,
    packed: &Packed,
) -> Result<(), DatabaseError> {
    store(db, packed).await?;
    for (hash, _) in sorted(packed) {
        db.execute(&INSERT_REF, &[&thread, &position, &snapshot, &hash.as_slice()]).await?;
    }
    Ok(())
}

fn sorted(packed: &Packed) -> Vec<&(Hash, String)> {
    let mut blobs: Vec<_> = packed.blobs.iter().collect();
    blobs.sort();
    blobs
}

/// Returns the blobs of the records or snapshots at these positions.
pub(crate) async fn select(
    db: &dyn Executor,
    thread: i64,
    positions: Range<i64>,
    snapshot: bool,
) -> Result<HashMap<Hash, String>, DatabaseError> {
    let rows = db.query(&SELECT, &[&thread, &positions.start, &positions.end, &snapshot]).await?;
    rows.into_iter().map(|mut row| Ok((row.take(0)?, row.take_blob_text(1)?))).collect()
}

/// Returns the blobs that a thread and its descendants reference.
pub(crate) async fn of_thread(db: &dyn Executor, thread: &str) -> Result<Vec<Hash>, DatabaseError> {
    hashes(db.query(&OF_THREAD, &[&db.now(), &thread]).await?)
}

/// Returns the blobs that records and snapshots of a thread reference at these positions.
pub(crate) async fn at_positions(
    db: &dyn Executor,
    thread: i64,
    positions: &Range<i64>,
) -> Result<Vec<Hash>, DatabaseError> {
    hashes(db.query(&AT_POSITIONS, &[&thread, &positions.start, &positions.end]).await?)
}

fn hashes(rows: Vec<Row>) -> Result<Vec<Hash>, DatabaseError> {
    rows.into_iter().map(|mut row| row.take(0)).collect()
}

/// Deletes those of the given blobs that are no longer referenced.
pub(crate) async fn delete_unused(db: &dyn Executor, hashes: &[Hash]) -> Result<(), DatabaseError> {
    for page in hashes.chunks(MAX_DELETED_BLOBS) {
        let page: Value = page.iter().map(hex).collect();
        db.execute(&DELETE_UNUSED, &[&page.to_string()]).await?;
    }
    Ok(())
}

/// Deletes all unreferenced blobs, such as those left behind by an interrupted deletion.
pub(crate) async fn delete_all_unused(db: &dyn Executor) -> Result<(), DatabaseError> {
    db.execute(&DELETE_ALL_UNUSED, &[]).await.map(|_| ())
}
