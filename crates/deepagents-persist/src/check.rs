//! Checks for damage.

use std::ops::ControlFlow;

use crate::error::DatabaseError;
use crate::executor::{Access, Engine, Executor};
use crate::row::Row;
use crate::statement::Statement;
use crate::store;
use crate::thread_row::ThreadRow;

static FILE: Statement = Statement::per_database("PRAGMA integrity_check", "SELECT 'ok'");
static BLOBS: Statement = Statement::per_database(
    "SELECT 'the blob of a record is missing: ' || hex(r.hash) FROM blob_ref r
     LEFT JOIN blob b ON b.hash = r.hash WHERE b.hash IS NULL",
    "SELECT 'the blob of a record is missing: ' || encode(r.hash, 'hex') FROM blob_ref r
     LEFT JOIN blob b ON b.hash = r.hash WHERE b.hash IS NULL",
);
static THREADS: Statement = Statement::new("SELECT {thread} FROM thread ORDER BY id");
static ITEMS: Statement = Statement::new("SELECT {item} FROM item ORDER BY namespace, name");

/// Reads everything except the logs, and lists all damage.
pub(crate) async fn find_damage<E: Engine>(engine: &E) -> Result<(), DatabaseError> {
    engine.run(Access::Snapshot, |db| Box::pin(check(db))).await
}

async fn check(db: &dyn Executor) -> Result<(), DatabaseError> {
    let mut lines = Vec::new();
    for statement in [&FILE, &BLOBS] {
        for mut row in db.query(statement, &[]).await? {
            lines.push(row.take::<String>(0)?);
        }
    }
    lines.retain(|line| line != "ok");
    let mut note = |found: Result<(), DatabaseError>| match found {
        Err(DatabaseError::Damaged { reason, .. }) => {
            lines.push(reason);
            Ok(ControlFlow::Continue(()))
        }
        other => other.map(ControlFlow::Continue),
    };
    db.scan(&THREADS, &[&db.now()], &mut |row: Row| note(ThreadRow::read(db, row).map(|_| ()))).await?;
    db.scan(&ITEMS, &[], &mut |row: Row| note(store::item(db, row).map(|_| ()))).await?;
    if lines.is_empty() { Ok(()) } else { Err(db.damaged(lines.join("; "))) }
}
