//! The log of a thread: what happened, appended before its effect is visible.
//!
//! A checkpoint is a position in the log, not a copy of the state, and history is never rewritten: going back is a
//! record like any other. What a log amounts to is worked out here, once, for every journal: [`load`] folds the records
//! after the nearest [`Snapshot`], and runs write a snapshot when the log since the last one has outgrown it, so that
//! all that is written stays proportional to what happened.
//!
//! [`MemoryJournal`] keeps logs in memory; databases implement [`Journal`], and need know nothing of what a record
//! means beyond [`encode`] and [`decode`].

mod checkpoint;
mod codec;
mod contract;
mod error;
mod fold;
mod lease;
mod load;
mod memory;
mod prune;
mod record;
mod snapshot;
mod threads;

pub use checkpoint::{Checkpoint, Origin, checkpoints};
pub use codec::{RECORD_VERSION, decode, encode};
pub use contract::{Appended, Claim, Entry, Fence, Journal, Loaded, Snapshot};
pub use error::JournalError;
pub(crate) use fold::{Fold, Kept, LastRun, Open, committed};
pub use fold::{Folded, fold};
pub(crate) use lease::Lease;
pub use load::load;
pub(crate) use load::{LoadedFold, load_fold};
pub use memory::MemoryJournal;
pub use prune::{Keep, prune};
pub use record::{Record, RecordUpdate};
pub(crate) use snapshot::SnapshotRule;
pub use threads::{Status, ThreadInfo, ThreadQuery, Threads, check_thread};

/// Names a thread of conversation.
pub type ThreadId = String;

/// A place in a log: how many records were appended before it, those that have since been pruned included.
pub type Position = u64;
