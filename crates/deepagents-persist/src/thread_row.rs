//! Rows of threads.

use deepagents_core::journal::{Fence, JournalError, LogPosition, RunStatus, ThreadInfo, check_thread};
use deepagents_core::run::FinishReason;
use serde_json::{Map, Value};

use crate::convert::{signed, time};
use crate::error::DatabaseError;
use crate::executor::Executor;
use crate::row::Row;
use crate::statement::Statement;

static FIND: Statement = Statement::new("SELECT {thread} FROM thread WHERE id = $2 AND {live thread}");
static FIND_LOCKED: Statement =
    Statement::new("SELECT {thread} FROM thread WHERE id = $2 AND {live thread} {for update}");
static FIND_OWNED: Statement = Statement::new(
    "SELECT key, head, status, {now}, stop FROM thread WHERE id = $2 AND epoch = $3 AND owner IS NOT NULL \
     AND {live thread} {for update}",
);
static DELETE_EXPIRED: Statement =
    Statement::new("DELETE FROM thread WHERE id IN ({families} id = $2 AND {expired thread} {and theirs})");
static INSERT: Statement = Statement::new(
    "INSERT INTO thread (id, created_at, updated_at) VALUES ($2, {now}, {now}) ON CONFLICT (id) DO NOTHING",
);

/// A thread's row and the time at which it was read.
pub(crate) struct ThreadRow {
    pub(crate) key: i64,
    pub(crate) owner: Option<String>,
    pub(crate) lease_until: i64,
    pub(crate) now: i64,
    pub(crate) info: ThreadInfo,
}

/// The columns a writer needs of a thread's row, and the time at which they were read.
pub(crate) struct OwnedRow {
    pub(crate) key: i64,
    pub(crate) end: LogPosition,
    pub(crate) last_run: LastRun,
    pub(crate) now: i64,
}

/// The status of a thread's last run, and why it ended, as the columns hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastRun {
    pub(crate) status: &'static str,
    pub(crate) stop: Option<String>,
}

impl LastRun {
    pub(crate) fn new(status: RunStatus, stop: Option<&FinishReason>) -> Self {
        let name = stop.and_then(|stop| serde_json::to_value(stop).ok());
        Self { status: status.as_str(), stop: name.as_ref().and_then(Value::as_str).map(str::to_owned) }
    }
}

impl ThreadRow {
    /// Reads the columns `{thread}`.
    pub(crate) fn read(db: &dyn Executor, row: Row) -> Result<Self, DatabaseError> {
        let row = Self::read_damaged(row)?;
        match &row.info.damage {
            Some(damage) => Err(db.damaged(format!("thread `{}` has {damage}", row.info.id))),
            None => Ok(row),
        }
    }

    /// Reads the columns `{thread}`, tolerating columns that cannot be decoded.
    pub(crate) fn read_damaged(mut row: Row) -> Result<Self, DatabaseError> {
        let mut info = ThreadInfo::new(row.take::<String>(1)?, time(row.take(7)?));
        info.end = row.take(2)?;
        let (status, metadata): (String, String) = (row.take(3)?, row.take(6)?);
        let mut damage = Vec::new();
        info.status = RunStatus::from_name(&status).unwrap_or_else(|| {
            damage.push(unknown_status(&status));
            RunStatus::Failed
        });
        info.metadata = serde_json::from_str(&metadata).unwrap_or_else(|error| {
            damage.push(format!("metadata that is not a JSON object: {error}"));
            Map::new()
        });
        info.damage = (!damage.is_empty()).then(|| damage.join(", and "));
        info.updated_at = time(row.take(8)?);
        info.expires_at = row.take::<Option<i64>>(9)?.map(time);
        info.bytes = row.take(10)?;
        info.parent = row.take(12)?;
        // Other versions may have other reasons.
        info.stop = row.take::<Option<String>>(13)?.and_then(|name| serde_json::from_value(Value::String(name)).ok());
        let (key, owner) = (row.take(0)?, row.take(4)?);
        Ok(Self { key, owner, lease_until: row.take(5)?, now: row.take(11)?, info })
    }

    /// Returns the public information about the thread.
    pub(crate) fn info(self) -> ThreadInfo {
        let owner = self.owner.filter(|_| self.lease_until > self.now);
        let mut info = self.info;
        info.owner = owner;
        info
    }
}

fn unknown_status(word: &str) -> String {
    let known = RunStatus::ALL.map(RunStatus::as_str).join(", ");
    format!("the status `{word}`, which is not one of {known}")
}

/// Returns a thread that has not expired.
pub(crate) async fn find(db: &dyn Executor, thread: &str) -> Result<Option<ThreadRow>, DatabaseError> {
    find_with(db, &FIND, thread).await
}

/// Returns a thread that has not expired, locked until the transaction ends.
pub(crate) async fn find_locked(db: &dyn Executor, thread: &str) -> Result<Option<ThreadRow>, DatabaseError> {
    find_with(db, &FIND_LOCKED, thread).await
}

async fn find_with(db: &dyn Executor, statement: &Statement, thread: &str) -> Result<Option<ThreadRow>, DatabaseError> {
    // No thread has such a name, and Postgres text cannot contain NUL.
    if thread.contains('\0') {
        return Ok(None);
    }
    let row = db.query(statement, &[&db.now(), &thread]).await?.pop();
    row.map(|row| ThreadRow::read(db, row)).transpose()
}

/// Inserts a new thread and locks it. Returns `None` if an unexpired one exists.
pub(crate) async fn insert(db: &dyn Executor, thread: &str) -> Result<Option<ThreadRow>, JournalError> {
    check_thread(thread)?;
    db.execute(&DELETE_EXPIRED, &[&db.now(), &thread]).await?;
    if db.execute(&INSERT, &[&db.now(), &thread]).await? == 0 {
        return Ok(None);
    }
    Ok(find_locked(db, thread).await?)
}

/// Returns the thread if it has not expired, otherwise replaces or creates it. Either way, its row is locked.
pub(crate) async fn find_or_insert(db: &dyn Executor, thread: &str) -> Result<ThreadRow, JournalError> {
    check_thread(thread)?;
    loop {
        if let Some(row) = find_locked(db, thread).await? {
            return Ok(row);
        }
        db.execute(&DELETE_EXPIRED, &[&db.now(), &thread]).await?;
        db.execute(&INSERT, &[&db.now(), &thread]).await?;
    }
}

/// Returns the thread, locked, if `fence` is from its latest claim and has not been released. An expired lease matters
/// only to processes that want to claim the thread.
pub(crate) async fn find_owned(db: &dyn Executor, thread: &str, fence: Fence) -> Result<OwnedRow, JournalError> {
    let fenced = || JournalError::Fenced { thread: thread.to_owned() };
    if thread.contains('\0') {
        return Err(fenced());
    }
    let rows = db.query(&FIND_OWNED, &[&db.now(), &thread, &signed(fence.epoch())]).await?;
    let mut row = rows.into_iter().next().ok_or_else(fenced)?;
    let (key, end, now, stop) = (row.take(0)?, row.take(1)?, row.take(3)?, row.take(4)?);
    let word: String = row.take(2)?;
    let status = RunStatus::from_name(&word)
        .ok_or_else(|| db.damaged(format!("thread `{thread}` has {}", unknown_status(&word))))?;
    Ok(OwnedRow { key, end, last_run: LastRun { status: status.as_str(), stop }, now })
}
