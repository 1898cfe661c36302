//! Leases on threads: claiming, renewing and releasing.

use std::time::Duration;

use deepagents_core::journal::{Claim, Fence, JournalError};

use crate::convert::{millis, signed, time, unsigned};
use crate::executor::Executor;
use crate::statement::Statement;
use crate::thread_row::find_or_insert;
use crate::threads::set_metadata;

static NEXT_EPOCH: Statement =
    Statement::per_database("UPDATE epoch SET last = last + 1 RETURNING last", "SELECT nextval('epoch')");
static CLAIM: Statement = Statement::new("UPDATE thread SET epoch = $2, owner = $3, lease_until = $4 WHERE key = $1");
static RENEW: Statement = Statement::new(
    "UPDATE thread SET lease_until = {now} + $4
     WHERE id = $2 AND epoch = $3 AND owner IS NOT NULL AND {live thread}",
);
/// Also deletes a thread that was only claimed.
static RELEASE: [Statement; 2] = [
    Statement::new("UPDATE thread SET owner = NULL, lease_until = 0 WHERE id = $1 AND epoch = $2"),
    Statement::new(
        "DELETE FROM thread WHERE id = $1 AND epoch = $2 AND owner IS NULL AND head = 0 AND metadata = '{}'
            AND parent IS NULL",
    ),
];

pub(crate) async fn claim(db: &dyn Executor, thread: String, claim: Claim) -> Result<Fence, JournalError> {
    let row = find_or_insert(db, &thread).await?;
    if let Some(owner) = row.owner.filter(|owner| row.lease_until > row.now && !claim.take_over.is_from(owner)) {
        return Err(JournalError::Busy { thread, owner, until: time(row.lease_until) });
    }
    let epoch: i64 = db.query_one(&NEXT_EPOCH, &[]).await?.take(0)?;
    // The owner's name is only displayed, and Postgres text cannot contain NUL.
    let owner = claim.owner.replace('\0', "\u{fffd}");
    db.execute(&CLAIM, &[&row.key, &epoch, &owner, &(row.now + millis(claim.lease))]).await?;
    if !claim.metadata.is_empty() {
        set_metadata(db, thread, claim.metadata).await?;
    }
    Ok(Fence::new(unsigned(epoch)))
}

pub(crate) async fn renew(
    db: &dyn Executor,
    thread: String,
    fence: Fence,
    lease: Duration,
) -> Result<(), JournalError> {
    let values = [&db.now() as &dyn crate::executor::Param, &thread, &signed(fence.epoch()), &millis(lease)];
    if thread.contains('\0') || db.execute(&RENEW, &values).await? == 0 {
        return Err(JournalError::Fenced { thread });
    }
    Ok(())
}

pub(crate) async fn release(db: &dyn Executor, thread: String, fence: Fence) -> Result<(), JournalError> {
    if thread.contains('\0') {
        return Ok(());
    }
    Ok(db.execute_all(&RELEASE, &[&thread, &signed(fence.epoch())]).await?)
}
