//! Journals: the logs of threads, in which every event is recorded before its effect is visible.
//!
//! A checkpoint is a position in the log, not a copy of the state. History is never rewritten: a rewind is a record
//! like any other. The state is computed here, in the same way for every journal: [`load`] replays the records after
//! the nearest [`Snapshot`]. Runs write a snapshot when the log since the last one has outgrown it, so the total
//! storage stays proportional to what happened.
//!
//! [`MemoryJournal`] stores logs in memory. Databases implement [`Journal`]; they only need [`encode`] and [`decode`]
//! and not the meaning of records.

mod agents;
mod calls;
mod checkpoint;
mod child_log;
mod codec;
mod contract;
mod error;
mod forward;
mod intact;
mod lease;
mod load;
mod load_each;
mod memory;
mod process;
mod prune;
mod record;
mod replay;
mod snapshot;
mod thread_query;
mod threads;
mod unfinished;
mod usage;
mod writer;

pub use agents::{SubAgentInfo, load_sub_agent, sub_agents};
pub use calls::calls_since;
pub use checkpoint::{CHECKPOINT_VERSION, Checkpoint, CheckpointSource, checkpoints};
pub(crate) use child_log::ChildLog;
pub use codec::{RECORD_VERSION, decode, encode};
pub use contract::{Appended, Claim, Fence, Journal, Loaded, LogEntry, Snapshot, TakeOver};
pub use error::JournalError;
pub(crate) use intact::{load_intact, read_intact};
pub use lease::Lease;
pub use load::load;
pub(crate) use load::{LoadedReplay, load_replay};
pub(crate) use load_each::follow;
pub use load_each::load_each;
pub use memory::MemoryJournal;
pub use process::ProcessIdentity;
pub use prune::{RetentionPolicy, prune};
pub use record::{Record, RecordUpdate, ThreadInstance};
pub(crate) use replay::{LastRun, Replay, UnknownChannels};
pub use replay::{ReplayedState, fold};
pub(crate) use snapshot::SnapshotRule;
pub use thread_query::{ParentFilter, SortDirection, ThreadCursor, ThreadQuery, ThreadSort};
pub(crate) use threads::NOTED_BY;
pub use threads::{THREAD_INFO_VERSION, ThreadInfo, Threads, check_child, check_metadata, check_thread};
pub use usage::{ThreadUsage, usage};
pub(crate) use writer::LogWriter;

pub use crate::ids::{LogPosition, ThreadId};
pub use crate::status::RunStatus;
