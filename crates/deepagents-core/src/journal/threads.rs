//! Operations on whole threads.

use std::ops::Range;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Fence, JournalError, Record, ThreadQuery};
use crate::env::Timestamp;
use crate::ids::{LogPosition, ThreadId};
use crate::message::{MAX_VALUE_DEPTH, is_deeper};
use crate::status::{FinishReason, RunStatus};

/// Operations on whole threads: listing, metadata, copying, deleting. A thread whose time to live has passed does not
/// exist for any method, whether or not it has been swept. While a thread or one of its descendants has an owner with a
/// valid lease, it does not expire.
pub trait Threads: Send + Sync {
    /// Returns information about a thread.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn get<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<Option<ThreadInfo>, JournalError>>;

    /// Lists the threads that match a query, in its order.
    ///
    /// # Errors
    /// When the storage fails.
    fn list<'a>(&'a self, query: &'a ThreadQuery) -> BoxFuture<'a, Result<Vec<ThreadInfo>, JournalError>>;

    /// Sets these keys of a thread's metadata; null removes a key. Creates the thread if it does not exist.
    ///
    /// # Errors
    /// Returns [`JournalError::Name`] if the name is not valid, and [`JournalError::Metadata`] if a value cannot be
    /// stored.
    fn set_metadata<'a>(
        &'a self,
        thread: &'a str,
        metadata: Map<String, Value>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Sets these keys of the metadata of an existing thread; null removes a key. Does not create the thread if it does
    /// not exist, so that a change cannot bring back a thread that was deleted meanwhile.
    ///
    /// # Errors
    /// Returns [`JournalError::NotFound`] if the thread does not exist, and [`JournalError::Metadata`] if a value
    /// cannot be stored.
    fn update_metadata<'a>(
        &'a self,
        thread: &'a str,
        metadata: Map<String, Value>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Makes a thread a child of another, such as that of a background agent, or of none. Creates the thread if it does
    /// not exist. A child's name is `PARENT/NAME`. The parent need not exist.
    ///
    /// # Errors
    /// Returns [`JournalError::Name`] if the name is not valid, or does not start with the parent's name and a slash.
    fn set_parent<'a>(&'a self, thread: &'a str, parent: Option<&'a str>) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Sets how long a thread lives after its last change; `None` for ever.
    ///
    /// # Errors
    /// Returns [`JournalError::NotFound`] if the thread does not exist.
    fn set_ttl<'a>(&'a self, thread: &'a str, ttl: Option<Duration>) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Copies a thread to a new one, including its metadata: its log up to a position, or all of it. The copy has no
    /// owner, no time to live and no parent. Descendants are copied whole: `FROM/NAME` becomes `TO/NAME`.
    ///
    /// # Errors
    /// Returns [`JournalError::NotFound`] if the thread does not exist, [`JournalError::Exists`] if a thread with a new
    /// name exists, and [`JournalError::NoState`] if the log has no state at the position.
    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        until: Option<LogPosition>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Deletes a thread with all its data and descendants. Returns whether it existed.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<bool, JournalError>>;

    /// Removes the records and snapshots at these positions. The snapshot at the end of the range replaces them. Meant
    /// for [`prune`](super::prune), which makes sure that this snapshot exists.
    ///
    /// # Errors
    /// Returns [`JournalError::Fenced`] as for an append, because a new owner may have rewound to a position in the
    /// range, and [`JournalError::NoState`] if there is no snapshot at the end of the range.
    fn remove<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        positions: Range<LogPosition>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Deletes the expired threads and their descendants. Returns the number of threads deleted.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn sweep(&self) -> BoxFuture<'_, Result<u64, JournalError>>;
}

/// Version of the JSON form of [`ThreadInfo`]. It is incremented when a field changes meaning or is removed, not when
/// one is added.
pub const THREAD_INFO_VERSION: u32 = 1;

/// Information about a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// [`THREAD_INFO_VERSION`].
    pub v: u32,
    /// The thread's name.
    pub id: ThreadId,
    /// Its parent thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ThreadId>,
    /// The end of its log.
    pub end: LogPosition,
    /// The status of its last run.
    pub status: RunStatus,
    /// Why its last run ended, unless it failed. `None` also if the run ended before journals stored the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<FinishReason>,
    /// The owner, while its lease is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Metadata set by the application.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its log or metadata last changed.
    pub updated_at: Timestamp,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Size of its log and snapshots in bytes.
    pub bytes: u64,
    /// What is damaged, if a listing found the thread so. Damaged values are shown as empty or failed. The thread can
    /// be deleted; every other method returns the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// The metadata key that holds the owner who set the metadata; see [`RunInput::note`](crate::run::RunInput::note).
pub(crate) const NOTED_BY: &str = "noted_by";

impl ThreadInfo {
    /// Returns whether the current owner has set metadata with [`RunInput::note`](crate::run::RunInput::note).
    /// Otherwise the metadata may be from a previous owner, and says nothing about this one.
    pub fn is_noted_by_owner(&self) -> bool {
        let noted_by = self.metadata.get(NOTED_BY).and_then(Value::as_str);
        self.owner.as_deref().is_some_and(|owner| noted_by == Some(owner))
    }

    /// Creates the information of an empty thread, for journal implementations.
    pub fn new(id: impl Into<ThreadId>, at: Timestamp) -> Self {
        Self {
            v: THREAD_INFO_VERSION,
            id: id.into(),
            parent: None,
            end: 0,
            status: RunStatus::Empty,
            stop: None,
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
    /// All values.
    pub const ALL: [Self; 5] = [Self::Empty, Self::Open, Self::Interrupted, Self::Ended, Self::Failed];

    /// Returns the status after further records.
    #[must_use]
    pub fn after<'a>(self, records: impl IntoIterator<Item = &'a Record>) -> Self {
        records.into_iter().filter_map(Record::run_status).last().map_or(self, |(status, _)| status)
    }

    /// Returns whether a worker may claim a thread with this status.
    pub fn is_claimable(self) -> bool {
        matches!(self, Self::Empty | Self::Open)
    }

    /// Returns the name used in databases and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Open => "open",
            Self::Interrupted => "waiting",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }

    /// Returns the status with this name.
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl Record {
    /// Returns the status that the record gives the last run of its thread, with the reason if it ends the run. Returns
    /// `None` if the record does not change the status.
    pub fn run_status(&self) -> Option<(RunStatus, Option<&FinishReason>)> {
        match self {
            Self::RunStarted { .. } | Self::RunResumed { .. } => Some((RunStatus::Open, None)),
            Self::RunFinished { stop: None, .. } => Some((RunStatus::Failed, None)),
            Self::RunFinished { stop: Some(stop @ FinishReason::Interrupted), .. } => {
                Some((RunStatus::Interrupted, Some(stop)))
            }
            Self::RunFinished { stop: Some(stop), .. } => Some((RunStatus::Ended, Some(stop))),
            _ => None,
        }
    }
}

/// Checks that metadata can be parsed as JSON again: values may be nested at most 96 levels deep.
///
/// # Errors
/// Returns an error if a value is nested deeper.
pub fn check_metadata(thread: &str, metadata: &Map<String, Value>) -> Result<(), JournalError> {
    match metadata.iter().find(|(_, value)| is_deeper(value, MAX_VALUE_DEPTH)) {
        Some((key, _)) => Err(JournalError::Metadata { thread: thread.to_owned(), key: key.clone() }),
        None => Ok(()),
    }
}

/// Checks the name of a child thread: the parent's name, a slash, and a name of its own.
///
/// # Errors
/// Returns an error if it does not have this form, or either name is not valid.
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
/// Returns an error if the name is not valid.
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
