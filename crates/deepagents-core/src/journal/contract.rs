//! The contract of journals.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};

use super::{JournalError, Record, Threads};
use crate::env::Timestamp;
use crate::forward_journal;
use crate::ids::LogPosition;

/// Stores the logs of threads.
///
/// Records are appended in order and never changed. An append succeeds only for the owner of the thread, and only at
/// the end that the writer expects, so that two processes on one thread get an error instead of silently forking it.
/// `Ok` means that the records are durable, at the level that the journal promises. The journal suite of
/// `deepagents-testing` tests implementations. A journal that wraps another one forwards the methods that it does
/// not change with [`forward_journal!`](crate::forward_journal).
///
/// The last owner to claim a thread owns it until it is released. An expired lease lets others claim the thread, but
/// changes nothing else: until someone does, the owner can still write and renew. A writer that was frozen past its
/// lease therefore continues if nobody has replaced it, and writes nothing if somebody has.
///
/// ```
/// use std::time::Duration;
/// use deepagents_core::journal::{Claim, Journal, MemoryJournal, Record};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let journal = MemoryJournal::new();
/// let fence = journal.claim("t1", Claim::new("me", Duration::from_secs(60))).await?;
/// let record = Record::RunStarted { run: "run_1".to_owned(), at: "2026-01-01T00:00:00Z".to_owned(), thread: None };
/// let appended = journal.append("t1", fence, 0, vec![record]).await?;
/// assert_eq!(appended.end, 1);
/// journal.release("t1", fence).await?;
/// # Ok::<(), deepagents_core::journal::JournalError>(()) }).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a journal",
    note = "`MemoryJournal::new()` is one, and so is `Sqlite::open(path).await?` of `deepagents-persist`"
)]
pub trait Journal: Send + Sync + 'static {
    /// Makes `claim.owner` the owner of a thread for a while, with a fence that no owner of any thread has had before.
    /// Creates the thread if it does not exist. The claim's metadata is set atomically with the owner; if the claim
    /// fails, none is set.
    ///
    /// # Errors
    /// Returns [`JournalError::Busy`] if the thread has an owner with a valid lease and the claim does not take it
    /// over, and the errors of [`Threads::set_metadata`] for the metadata.
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> BoxFuture<'a, Result<Fence, JournalError>>;

    /// Renews the owner's lease, even if it has expired: it now expires after `lease`.
    ///
    /// # Errors
    /// Returns [`JournalError::Fenced`] if another owner has claimed the thread since, or it was released.
    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Releases a thread; a no-op if it has another owner by now. The release takes its place among this process's
    /// calls when it is called, not when it is first polled: a later claim of the same thread finds it free.
    ///
    /// # Errors
    /// Returns an error if the storage fails.
    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Appends records at `expected` atomically.
    ///
    /// An append may be retried if its response was lost. If the log of the same owner ends with exactly these records,
    /// byte for byte and starting at `expected`, the retry returns the original response and writes nothing.
    ///
    /// # Errors
    /// Returns [`JournalError::Fenced`] if the thread does not, or no longer, belong to this owner, and
    /// [`JournalError::Conflict`] if the log ends elsewhere.
    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>>;

    /// Loads what is needed to compute the state at a position, by default the end: the last snapshot at or before it,
    /// and the entries that follow. An unknown thread has no entries, and its end is 0.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> BoxFuture<'a, Result<Loaded, JournalError>>;

    /// Reads the entries at these positions, in order. Entries that were pruned or not yet written are missing.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    fn read<'a>(
        &'a self,
        thread: &'a str,
        positions: Range<LogPosition>,
    ) -> BoxFuture<'a, Result<Vec<LogEntry>, JournalError>>;

    /// Stores a snapshot, replacing any at the same position, and returns its size in bytes.
    ///
    /// # Errors
    /// Returns [`JournalError::Fenced`] as for an append, and [`JournalError::NoState`] if the log ends before the
    /// snapshot's position.
    fn put_snapshot<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<u64, JournalError>>;

    /// Returns the interface for whole threads: listing, metadata, copying, deleting.
    fn threads(&self) -> &dyn Threads;

    /// Returns a name for the storage, if one can be determined without writing to it. Handles with equal names share
    /// the same storage; different names, or none, imply nothing. A journal that wraps another returns that journal's
    /// name.
    ///
    /// # Errors
    /// Returns an error if the storage cannot be queried.
    fn storage(&self) -> BoxFuture<'_, Result<Option<String>, JournalError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Lets a builder accept both a journal and a shared one.
impl<J: Journal + ?Sized> Journal for Arc<J> {
    forward_journal!([.as_ref()]; claim, renew, release, append, load, read, put_snapshot, threads, storage);
}

/// Which owner a claim may take a thread from while that owner's lease is still valid. The outcome of the former
/// owner's calls in progress is then unknown, and it can no longer write.
///
/// ```
/// use deepagents_core::journal::TakeOver;
/// assert!(TakeOver::From("run-1".to_owned()).is_from("run-1") && !TakeOver::Nobody.is_from("run-1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum TakeOver {
    /// No owner.
    #[default]
    Nobody,
    /// This owner, unless the thread has another one by now.
    From(String),
    /// Any owner.
    Anybody,
}

impl TakeOver {
    /// Returns whether a claim takes the thread from this owner.
    pub fn is_from(&self, owner: &str) -> bool {
        match self {
            Self::Nobody => false,
            Self::From(named) => named == owner,
            Self::Anybody => true,
        }
    }
}

/// A request to own a thread for a while.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Shown to others who want the thread.
    pub owner: String,
    /// How long the owner has the thread without renewing.
    pub lease: Duration,
    /// Whether the claim takes the thread from an owner whose lease is still valid.
    pub take_over: TakeOver,
    /// Metadata to set together with the owner, as by [`Threads::set_metadata`].
    pub metadata: Map<String, Value>,
}

impl Claim {
    /// Creates a claim that respects other owners.
    pub fn new(owner: impl Into<String>, lease: Duration) -> Self {
        Self { owner: owner.into(), lease, take_over: TakeOver::Nobody, metadata: Map::new() }
    }

    /// Takes the thread from any owner. The outcome of that owner's calls in progress is then unknown, and it can no
    /// longer write.
    #[must_use]
    pub fn take_over(self) -> Self {
        self.take_over_from(TakeOver::Anybody)
    }

    /// Sets which owner the thread may be taken from.
    #[must_use]
    pub fn take_over_from(mut self, owner: TakeOver) -> Self {
        self.take_over = owner;
        self
    }

    /// Sets metadata of the thread together with the owner.
    #[must_use]
    pub fn metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = metadata;
        self
    }
}

/// Proof of ownership of a thread. Later owners have greater fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// Creates the fence with this number, for journal implementations.
    pub fn new(epoch: u64) -> Self {
        Self(epoch)
    }

    /// Returns the fence's number.
    pub fn epoch(self) -> u64 {
        self.0
    }
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The new end of the log.
    pub end: LogPosition,
    /// Size of the records in bytes; 0 if they take no storage.
    pub bytes: u64,
}

/// A record with its position and time.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The record's position: the number of records appended before it.
    pub position: LogPosition,
    /// When the record was appended, to the millisecond.
    pub at: Timestamp,
    /// The record.
    pub record: Record,
}

/// The state of a log at a position. The body is JSON in a format internal to this crate; journals need not understand
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of records that it replaces.
    pub position: LogPosition,
    /// The state and everything else that the records contain.
    pub body: String,
}

/// What is needed to compute a state.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The last snapshot at or before the position.
    pub snapshot: Option<Snapshot>,
    /// Size of the snapshot in bytes.
    pub snapshot_bytes: u64,
    /// The entries after the snapshot, or from the start if there is none.
    pub entries: Vec<LogEntry>,
    /// Size of the entries in bytes.
    pub entry_bytes: u64,
    /// The end of the whole log.
    pub end: LogPosition,
    /// When the thread was created, as in [`ThreadInfo`](super::ThreadInfo); `None` for an unknown thread. A run
    /// resumed in a copy of its thread recognises the copy by this, even if the copy has the name of a deleted thread.
    pub created_at: Option<Timestamp>,
}
