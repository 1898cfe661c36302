//! Appending to logs.

use deepagents_core::journal::{Appended, Fence, JournalError, LogPosition, Record, encode};

use crate::blob::{Packed, pack};
use crate::blobs;
use crate::convert::signed;
use crate::error::DatabaseError;
use crate::executor::{Executor, Param};
use crate::statement::Statement;
use crate::thread_row::{LastRun, OwnedRow, find_owned};

static INSERT_EVENT: Statement = Statement::new(
    "INSERT INTO event (thread, position, at, status, stop, bytes, how, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
);
static ADVANCE: Statement = Statement::new(
    "UPDATE thread SET head = $2, bytes = bytes + $3, updated_at = $4, expires_at = $4 + ttl WHERE key = $1",
);
/// A separate statement, because SQLite rewrites every index that contains a column being set, even if its value stays
/// the same.
static SET_STATUS: Statement = Statement::new("UPDATE thread SET status = $2, stop = $3 WHERE key = $1");
static STORED: Statement =
    Statement::new("SELECT how, body FROM event WHERE thread = $1 AND position >= $2 ORDER BY position");

/// Records encoded as rows.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) thread: String,
    pub(crate) fence: Fence,
    pub(crate) expected: LogPosition,
    /// Each record with the status it gives the thread, if it sets one.
    pub(crate) events: Vec<(Packed, Option<LastRun>)>,
    pub(crate) bytes: u64,
}

impl Batch {
    /// Encodes records as JSON. The application's values are serialised here, before the append is queued or takes any
    /// lock.
    pub(crate) fn encode(
        thread: &str,
        fence: Fence,
        expected: LogPosition,
        records: &[Record],
    ) -> Result<Self, JournalError> {
        let (mut events, mut bytes) = (Vec::with_capacity(records.len()), 0);
        for (position, record) in (expected..).zip(records) {
            let packed = encode(record).and_then(pack).map_err(|error| JournalError::Encode {
                thread: thread.to_owned(),
                position,
                reason: error.to_string(),
            })?;
            bytes += packed.bytes;
            events.push((packed, record.run_status().map(|(status, stop)| LastRun::new(status, stop))));
        }
        Ok(Self { thread: thread.to_owned(), fence, expected, events, bytes })
    }

    pub(crate) fn appended(&self) -> Appended {
        Appended { end: self.expected + self.events.len() as u64, bytes: self.bytes }
    }

    /// Locks the thread and checks that its log ends at the expected position. Returns `None` if the log already ends
    /// with exactly these records.
    pub(crate) async fn lock(&self, db: &dyn Executor) -> Result<Option<OwnedRow>, JournalError> {
        let row = find_owned(db, &self.thread, self.fence).await?;
        let found = row.end;
        if found == self.expected {
            return Ok(Some(row));
        }
        if found == self.appended().end && self.is_stored(db, row.key).await? {
            return Ok(None);
        }
        Err(JournalError::Conflict { thread: self.thread.clone(), expected: self.expected, found })
    }

    /// Returns whether the log contains exactly these records from the expected position on.
    async fn is_stored(&self, db: &dyn Executor, thread: i64) -> Result<bool, DatabaseError> {
        let rows = db.query(&STORED, &[&thread, &signed(self.expected)]).await?;
        if rows.len() != self.events.len() {
            return Ok(false);
        }
        for (mut row, (packed, _)) in rows.into_iter().zip(&self.events) {
            let (how, body): (i64, String) = (row.take(0)?, row.take(1)?);
            if how != packed.how || body != packed.body {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) async fn write(&self, db: &dyn Executor) -> Result<Appended, JournalError> {
        let Some(row) = self.lock(db).await? else { return Ok(self.appended()) };
        let (mut last_run, appended) = (&row.last_run, self.appended());
        for (position, (packed, after)) in (signed(self.expected)..).zip(&self.events) {
            last_run = after.as_ref().unwrap_or(last_run);
            let (LastRun { status, stop }, bytes) = (last_run, signed(packed.bytes));
            let values: [&dyn Param; 8] =
                [&row.key, &position, &row.now, status, stop, &bytes, &packed.how, &packed.body];
            db.execute(&INSERT_EVENT, &values).await?;
            blobs::insert(db, row.key, position, false, packed).await?;
        }
        let (end, bytes) = (signed(appended.end), signed(self.bytes));
        db.execute(&ADVANCE, &[&row.key, &end, &bytes, &row.now]).await?;
        if *last_run != row.last_run {
            db.execute(&SET_STATUS, &[&row.key, &last_run.status, &last_run.stop]).await?;
        }
        Ok(appended)
    }
}
