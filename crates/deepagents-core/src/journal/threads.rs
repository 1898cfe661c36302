//! Threads as a whole.

use std::ops::Range;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Fence, JournalError, Record, ThreadQuery};
use crate::env::Timestamp;
use crate::ids::{LogPosition, ThreadId};
use crate::message::{DEEPEST, is_deeper};
use crate::status::FinishReason;
use crate::status::RunStatus;

/// Threads as a whole: listing, metadata, copying, deleting. A thread whose time to live is over is gone for every
/// method, whether or not it has been swept up; that of a thread which somebody works on, or on one below it, with a lease
/// that has not run out, is not over before.
pub trait Threads: Send + Sync {
    /// What is known of a thread.
    ///
    /// # Errors
    /// When the storage fails.
    fn get<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<Option<ThreadInfo>, JournalError>>;

    /// The threads a query asks for: the one that changed last first, or last where the query is for
    /// [claimable](ThreadQuery::claimable) ones.
    ///
    /// # Errors
    /// When the storage fails.
    fn list<'a>(&'a self, query: &'a ThreadQuery) -> BoxFuture<'a, Result<Vec<ThreadInfo>, JournalError>>;

    /// Sets these keys of a thread's metadata, null removing one; a thread that does not exist begins to.
    ///
    /// # Errors
    /// [`JournalError::Name`] when the name cannot be used, [`JournalError::Metadata`] when a value cannot be stored.
    fn set_metadata<'a>(
        &'a self,
        thread: &'a str,
        metadata: Map<String, Value>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Makes a thread the child of another, such as that of an agent in the background, or of none; a thread that does
    /// not exist begins to. A child's name is `PARENT/NAME`. Whether the parent exists does not matter.
    ///
    /// # Errors
    /// [`JournalError::Name`] when the name cannot be used, or does not begin with that of the parent and a slash.
    fn set_parent<'a>(&'a self, thread: &'a str, parent: Option<&'a str>) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Lets a thread live so long after its last change, or for ever.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] when there is no such thread.
    fn set_ttl<'a>(&'a self, thread: &'a str, ttl: Option<Duration>) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Copies a thread to a new one, metadata included: its log up to a position, or all of it. The copy has no owner,
    /// no time to live and no parent. Children, and theirs, are copied whole: `FROM/NAME` becomes `TO/NAME`.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] when there is nothing to copy, [`JournalError::Exists`] when there is a thread with a
    /// new name, [`JournalError::NoState`] when the log has no state at the position.
    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        until: Option<LogPosition>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Deletes a thread with all it has, its children and theirs included; returns whether there was one.
    ///
    /// # Errors
    /// When the storage fails.
    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<bool, JournalError>>;

    /// Removes the records at these positions and the snapshots that fall among them; the snapshot at the end of the
    /// range stands for them from now on. Meant for [`prune`](super::prune), which sees to it that there is one.
    ///
    /// # Errors
    /// [`JournalError::Fenced`] as for an append: whoever owns the thread by now may have gone back to what is to be
    /// removed. [`JournalError::NoState`] when there is no snapshot at the end of the range.
    fn remove<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        positions: Range<LogPosition>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Deletes the threads whose time is over and their children, and returns how many threads that were.
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
    /// The thread whose child it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ThreadId>,
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
    /// What of all this is damaged and told as empty or failed, where a listing found such a thread: it can be deleted,
    /// and every other method says what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// The key of a thread's metadata that holds which owner noted what is there, see
/// [`RunInput::note`](crate::run::RunInput::note).
pub(crate) const NOTED_BY: &str = "noted_by";

impl ThreadInfo {
    /// Whether the one who works on the thread has noted something in its metadata with
    /// [`RunInput::note`](crate::run::RunInput::note): what is there may be of an owner before that, and then says nothing of
    /// this one.
    pub fn is_noted_by_owner(&self) -> bool {
        let noted_by = self.metadata.get(NOTED_BY).and_then(Value::as_str);
        self.owner.as_deref().is_some_and(|owner| noted_by == Some(owner))
    }

    /// A thread that has nothing yet, for journals.
    pub fn new(id: impl Into<ThreadId>, at: Timestamp) -> Self {
        Self {
            v: THREAD_INFO_VERSION,
            id: id.into(),
            parent: None,
            end: 0,
            status: RunStatus::Empty,
            owner: None,
            metadata: Map::new(),
            created_at: at,
            updated_at: at,
            expires_at: None,
            bytes: 0,
            damage: None,
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

    /// Whether a worker may go on with a thread that stands so.
    pub fn is_claimable(self) -> bool {
        matches!(self, Self::Empty | Self::Open)
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

/// Checks metadata to be set: readers of JSON have to take it, so its values may be nested 96 levels deep.
///
/// # Errors
/// When one is nested deeper.
pub fn check_metadata(thread: &str, metadata: &Map<String, Value>) -> Result<(), JournalError> {
    match metadata.iter().find(|(_, value)| is_deeper(value, DEEPEST)) {
        Some((key, _)) => Err(JournalError::Metadata { thread: thread.to_owned(), key: key.clone() }),
        None => Ok(()),
    }
}

/// Checks the name of a thread that becomes the child of another: that of the parent, a slash, and one of its own.
///
/// # Errors
/// When it is not so, or either name cannot be used.
pub fn check_child(thread: &str, parent: &str) -> Result<(), JournalError> {
    check_thread(thread)?;
    check_thread(parent)?;
    match thread.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/')) {
        Some(name) if !name.is_empty() => Ok(()),
        _ => {
            let reason = "a child's name must be its parent's name, a slash, and a name of its own";
            Err(JournalError::Name { thread: thread.to_owned(), reason })
        }
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
