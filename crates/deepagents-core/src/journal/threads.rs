//! Threads as a whole.

use std::ops::Range;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{JournalError, Record};
use crate::env::Timestamp;
use crate::ids::{LogPosition, ThreadId};
use crate::status::FinishReason;
use crate::status::RunStatus;

/// Threads as a whole: listing, metadata, copying, deleting. A thread whose time to live is over is gone for every
/// method, whether or not it has been swept up.
pub trait Threads: Send + Sync {
    /// What is known of a thread.
    ///
    /// # Errors
    /// When the storage fails.
    fn get<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<Option<ThreadInfo>, JournalError>>;

    /// The threads a query asks for, the one that changed last first.
    ///
    /// # Errors
    /// When the storage fails.
    fn list<'a>(&'a self, query: &'a ThreadQuery) -> BoxFuture<'a, Result<Vec<ThreadInfo>, JournalError>>;

    /// Sets these keys of a thread's metadata, null removing one; a thread that does not exist begins to.
    ///
    /// # Errors
    /// [`JournalError::Name`] when the name cannot be used.
    fn set_metadata<'a>(
        &'a self,
        thread: &'a str,
        metadata: Map<String, Value>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Lets a thread live so long after its last change, or for ever.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] when there is no such thread.
    fn set_ttl<'a>(&'a self, thread: &'a str, ttl: Option<Duration>) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Copies a thread to a new one, metadata included: its log up to a position, or all of it. The copy has no owner
    /// and no time to live.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] when there is nothing to copy, [`JournalError::Exists`] when there is a thread with
    /// the new name, [`JournalError::NoState`] when the log has no state at the position.
    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        until: Option<LogPosition>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Deletes a thread with all it has; returns whether there was one.
    ///
    /// # Errors
    /// When the storage fails.
    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<bool, JournalError>>;

    /// Removes the records at these positions and the snapshots that fall among them; the snapshot at the end of the
    /// range stands for them from now on. Meant for [`prune`](super::prune), which sees to it that there is one.
    ///
    /// # Errors
    /// [`JournalError::NoState`] when there is no snapshot at the end of the range.
    fn remove<'a>(&'a self, thread: &'a str, positions: Range<LogPosition>) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Deletes the threads whose time is over, and returns how many there were.
    ///
    /// # Errors
    /// When the storage fails.
    fn sweep(&self) -> BoxFuture<'_, Result<u64, JournalError>>;
}

/// Version of the JSON form of [`ThreadInfo`]. It grows when a field changes its meaning or goes away, not when one is added.
pub const THREAD_INFO_VERSION: u32 = 1;

/// What is known of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// [`THREAD_INFO_VERSION`].
    pub v: u32,
    /// Its name.
    pub id: ThreadId,
    /// Where its log ends.
    pub end: LogPosition,
    /// How its last run stands.
    pub status: RunStatus,
    /// Who works on it, while the lease lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What the application noted.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// When it began.
    pub created_at: Timestamp,
    /// When its log or metadata changed last.
    pub updated_at: Timestamp,
    /// When it will be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Bytes its log and snapshots take.
    pub bytes: u64,
}

impl ThreadInfo {
    /// A thread that has nothing yet, for journals.
    pub fn new(id: impl Into<ThreadId>, at: Timestamp) -> Self {
        Self {
            v: THREAD_INFO_VERSION,
            id: id.into(),
            end: 0,
            status: RunStatus::Empty,
            owner: None,
            metadata: Map::new(),
            created_at: at,
            updated_at: at,
            expires_at: None,
            bytes: 0,
        }
    }
}

impl RunStatus {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Empty, Self::Open, Self::Interrupted, Self::Ended, Self::Failed];

    /// The status after more records.
    #[must_use]
    pub fn after<'a>(self, records: impl IntoIterator<Item = &'a Record>) -> Self {
        records.into_iter().fold(self, |status, record| match record {
            Record::RunStarted { .. } | Record::RunResumed { .. } => Self::Open,
            Record::RunFinished { stop: Some(FinishReason::Interrupted), .. } => Self::Interrupted,
            Record::RunFinished { stop: Some(_), .. } => Self::Ended,
            Record::RunFinished { stop: None, .. } => Self::Failed,
            _ => status,
        })
    }

    /// The word in databases and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Open => "open",
            Self::Interrupted => "waiting",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }

    /// The status with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// Which threads to list.
///
/// ```
/// use deepagents_core::journal::{RunStatus, ThreadQuery};
/// let query = ThreadQuery::default().metadata("user", "ada").status(RunStatus::Open).limit(20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadQuery {
    /// Only those whose name begins so.
    pub prefix: String,
    /// Only those whose metadata has all of these.
    pub metadata: Map<String, Value>,
    /// Only those with this status.
    pub status: Option<RunStatus>,
    /// At most so many.
    pub limit: usize,
    /// Leaving out so many first.
    pub offset: usize,
}

impl Default for ThreadQuery {
    fn default() -> Self {
        Self { prefix: String::new(), metadata: Map::new(), status: None, limit: usize::MAX, offset: 0 }
    }
}

impl ThreadQuery {
    /// Only those whose name begins so.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only those whose metadata has this.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Only those with this status.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// At most so many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Leaving out so many first.
    #[must_use]
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Whether a thread is one of those, limit and offset aside; a key that is missing counts as null.
    pub fn matches(&self, thread: &ThreadInfo) -> bool {
        let has = |(key, value): (&String, &Value)| thread.metadata.get(key).unwrap_or(&Value::Null) == value;
        thread.id.starts_with(&self.prefix)
            && self.status.is_none_or(|status| status == thread.status)
            && self.metadata.iter().all(has)
    }
}

/// Checks the name of a thread to be written to: 1 to 512 bytes, without NUL.
///
/// # Errors
/// When it is not so.
pub fn check_thread(thread: &str) -> Result<(), JournalError> {
    let reason = if thread.is_empty() {
        "it is empty"
    } else if thread.len() > 512 {
        "it is longer than 512 bytes"
    } else if thread.contains('\0') {
        "it contains NUL"
    } else {
        return Ok(());
    };
    Err(JournalError::Name { thread: thread.to_owned(), reason })
}
