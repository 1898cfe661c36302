//! Rows of the texts that are stored apart from records and snapshots.

use std::collections::HashMap;
use std::ops::Range;

use crate::blob::{Hash, Packed};
use crate::error::DatabaseError;
use crate::executor::Executor;
use crate::statement::Statement;

/// Appends that store texts apart hold this lock together, whoever deletes unused ones holds it alone.
static LOCK_SHARED: Statement = Statement::per_database("", "SELECT pg_advisory_xact_lock_shared(1684103778)");
static LOCK: Statement = Statement::per_database("", "SELECT pg_advisory_xact_lock(1684103778)");
static INSERT: Statement = Statement::new("INSERT INTO blob (hash, body) VALUES ($1, $2) ON CONFLICT DO NOTHING");
static INSERT_REF: Statement = Statement::new(
    "INSERT INTO blob_ref (thread, position, snapshot, hash) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
);
static SELECT: Statement = Statement::new(
    "SELECT hash, body FROM blob WHERE hash IN (SELECT hash FROM blob_ref
        WHERE thread = $1 AND position >= $2 AND position < $3 AND snapshot = $4)",
);
static DELETE_UNUSED: Statement =
    Statement::new("DELETE FROM blob WHERE NOT EXISTS (SELECT 1 FROM blob_ref r WHERE r.hash = blob.hash)");

/// Stores what a record or a snapshot needs beside its row.
pub(crate) async fn insert(
    db: &dyn Executor,
    thread: i64,
    position: i64,
    snapshot: bool,
    packed: &Packed,
) -> Result<(), DatabaseError> {
    if packed.blobs.is_empty() {
        return Ok(());
    }
    db.execute(&LOCK_SHARED, &[]).await?;
    // In one order everywhere, so that two writers of the same texts do not wait for each other.
    let mut blobs: Vec<_> = packed.blobs.iter().collect();
    blobs.sort();
    for (hash, body) in blobs {
        let hash = hash.as_slice();
        db.execute(&INSERT, &[&hash, body]).await?;
        db.execute(&INSERT_REF, &[&thread, &position, &snapshot, &hash]).await?;
    }
    Ok(())
}

/// What the records or snapshots at these positions need beside their rows.
pub(crate) async fn select(
    db: &dyn Executor,
    thread: i64,
    positions: Range<i64>,
    snapshot: bool,
) -> Result<HashMap<Hash, String>, DatabaseError> {
    let rows = db.query(&SELECT, &[&thread, &positions.start, &positions.end, &snapshot]).await?;
    rows.into_iter().map(|mut row| Ok((row.take(0)?, row.take(1)?))).collect()
}

/// Deletes the texts that nothing needs.
pub(crate) async fn delete_unused(db: &dyn Executor) -> Result<(), DatabaseError> {
    db.execute(&LOCK, &[]).await?;
    db.execute(&DELETE_UNUSED, &[]).await.map(|_| ())
}
