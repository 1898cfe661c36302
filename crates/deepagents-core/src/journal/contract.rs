//! What a journal does.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};

use super::{JournalError, Record, Threads};
use crate::env::Timestamp;
use crate::ids::LogPosition;

/// Keeps the logs of threads.
///
/// Records are appended in order and never changed. An append succeeds only for the owner of the thread, and only at
/// the end the writer knows, so that two processes on one thread get an error instead of a fork in silence. `Ok` means
/// durable, at the level the journal promises. An implementation is tested by the journal suite of
/// `deepagents-testing`.
///
/// Whoever claimed a thread last owns it until it releases it. That its lease ran out lets others claim the thread, and
/// changes nothing else: as long as nobody has, the owner writes and renews as before. A writer that was frozen past
/// its lease thus goes on where nobody has taken its place, and writes nothing where somebody has.
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
    /// Makes somebody the owner of a thread for a while, with a fence that no owner of any thread has had before. A
    /// thread that does not exist begins to. What the claim says of the thread's metadata is set with it: nobody ever sees an
    /// owner without, and where the claim fails nothing is.
    ///
    /// # Errors
    /// [`JournalError::Busy`] when it has an owner whose lease has not run out, unless it is to be taken over, and as
    /// [`Threads::set_metadata`] for its metadata.
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> BoxFuture<'a, Result<Fence, JournalError>>;

    /// Begins a new lease for the owner, also where the last one has run out: it runs out after `lease` from now.
    ///
    /// # Errors
    /// [`JournalError::Fenced`] when somebody else has claimed the thread since, or it was released.
    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Gives a thread up; nothing happens if it has another owner by now. Takes its place among the calls of this
    /// process when it is called, not when it is first polled: a claim of the same thread that follows finds it free.
    ///
    /// # Errors
    /// When the storage fails.
    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>>;

    /// Appends records at `expected`, all or none.
    ///
    /// An append whose answer was lost may be repeated: where the same owner's log ends with these very records, byte for
    /// byte and the first of them at `expected`, the answer is that of the first time and nothing is written.
    ///
    /// # Errors
    /// [`JournalError::Fenced`] when the thread is not, or no longer, this owner's; [`JournalError::Conflict`] when the
    /// log ends elsewhere.
    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>>;

    /// What is needed for the state at a position, by default the end: the last snapshot that is not after it, and the
    /// entries from there on. Of an unknown thread nothing, with end 0.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> BoxFuture<'a, Result<Loaded, JournalError>>;

    /// The entries at these positions, in order; those that were pruned or not yet written are missing.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn read<'a>(
        &'a self,
        thread: &'a str,
        positions: Range<LogPosition>,
    ) -> BoxFuture<'a, Result<Vec<LogEntry>, JournalError>>;

    /// Keeps a snapshot, in place of one at the same position, and returns the bytes it takes.
    ///
    /// # Errors
    /// [`JournalError::Fenced`] as for an append; [`JournalError::NoState`] when the log ends before it.
    fn put_snapshot<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<u64, JournalError>>;

    /// The threads as a whole: listing, metadata, copying, deleting.
    fn threads(&self) -> &dyn Threads;

    /// Names the storage, where that can be told without writing to it: handles whose names are equal are of one storage.
    /// Other names, or none, say nothing. A journal around another one gives the name of that.
    ///
    /// # Errors
    /// When the storage cannot be asked.
    fn storage(&self) -> BoxFuture<'_, Result<Option<String>, JournalError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// So that a builder takes a journal and a shared one alike.
impl<J: Journal + ?Sized> Journal for Arc<J> {
    fn claim<'a>(&'a self, thread: &'a str, claim: Claim) -> BoxFuture<'a, Result<Fence, JournalError>> {
        (**self).claim(thread, claim)
    }

    fn renew<'a>(&'a self, thread: &'a str, fence: Fence, lease: Duration) -> BoxFuture<'a, Result<(), JournalError>> {
        (**self).renew(thread, fence, lease)
    }

    fn release<'a>(&'a self, thread: &'a str, fence: Fence) -> BoxFuture<'a, Result<(), JournalError>> {
        (**self).release(thread, fence)
    }

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        (**self).append(thread, fence, expected, records)
    }

    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> BoxFuture<'a, Result<Loaded, JournalError>> {
        (**self).load(thread, at)
    }

    fn read<'a>(
        &'a self,
        thread: &'a str,
        positions: Range<LogPosition>,
    ) -> BoxFuture<'a, Result<Vec<LogEntry>, JournalError>> {
        (**self).read(thread, positions)
    }

    fn put_snapshot<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<u64, JournalError>> {
        (**self).put_snapshot(thread, fence, snapshot)
    }

    fn threads(&self) -> &dyn Threads {
        (**self).threads()
    }

    fn storage(&self) -> BoxFuture<'_, Result<Option<String>, JournalError>> {
        (**self).storage()
    }
}

/// From whom a claim takes a thread whose lease has not run out. What that owner was doing is in doubt then, and it can
/// write no more.
///
/// ```
/// use deepagents_core::journal::TakeOver;
/// assert!(TakeOver::From("run-1".to_owned()).is_from("run-1") && !TakeOver::Nobody.is_from("run-1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum TakeOver {
    /// From nobody.
    #[default]
    Nobody,
    /// From this owner, unless it is another one by now.
    From(String),
    /// From whoever has it.
    Anybody,
}

impl TakeOver {
    /// Whether a thread is taken from an owner.
    pub fn is_from(&self, owner: &str) -> bool {
        match self {
            Self::Nobody => false,
            Self::From(named) => named == owner,
            Self::Anybody => true,
        }
    }
}

/// Who wants a thread, and for how long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Told to others that want the thread.
    pub owner: String,
    /// How long the thread is the owner's unless it renews.
    pub lease: Duration,
    /// Whether the thread is taken from an owner whose lease has not run out.
    pub take_over: TakeOver,
    /// What the thread is to say of itself once it is the owner's, as for [`Threads::set_metadata`].
    pub metadata: Map<String, Value>,
}

impl Claim {
    /// A claim that respects other owners.
    pub fn new(owner: impl Into<String>, lease: Duration) -> Self {
        Self { owner: owner.into(), lease, take_over: TakeOver::Nobody, metadata: Map::new() }
    }

    /// Takes the thread from whoever has it. What that owner was doing is in doubt then, and it can write no more.
    #[must_use]
    pub fn take_over(self) -> Self {
        self.take_over_from(TakeOver::Anybody)
    }

    /// Says from whom the thread is taken.
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

/// Proves ownership of a thread. A later owner has a greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The fence with this number, for journals.
    pub fn new(epoch: u64) -> Self {
        Self(epoch)
    }

    /// Its number.
    pub fn epoch(self) -> u64 {
        self.0
    }
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where the log ends now.
    pub end: LogPosition,
    /// The bytes the records take; 0 where they take no storage.
    pub bytes: u64,
}

/// A record and its circumstances.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The record's position: how many records were appended before it.
    pub position: LogPosition,
    /// When it was appended, to the millisecond.
    pub at: Timestamp,
    /// The record.
    pub record: Record,
}

/// What a log amounts to at a position. The text is JSON of this crate's own making; journals need not understand it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// How many records it stands for.
    pub position: LogPosition,
    /// The state and all else that the records say.
    pub body: String,
}

/// What is needed for a state.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The last snapshot that is not after the position.
    pub snapshot: Option<Snapshot>,
    /// Bytes the snapshot takes.
    pub snapshot_bytes: u64,
    /// The entries after the snapshot, or all from the start.
    pub entries: Vec<LogEntry>,
    /// Bytes the entries take.
    pub entry_bytes: u64,
    /// Where the whole log ends.
    pub end: LogPosition,
    /// When the thread began, as [`ThreadInfo`](super::ThreadInfo) has it; nothing of an unknown thread. A run that goes on
    /// in a copy of its thread knows it by this, also where the copy has the name of a thread that was deleted.
    pub created_at: Option<Timestamp>,
}
