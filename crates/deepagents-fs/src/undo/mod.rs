//! A record of the changes that runs make in a directory, so that they can be undone.
//!
//! One SQLite file holds the file contents, deduplicated by hash, and a change log for each thread and directory. A
//! change is logged before it is made, so the effects of a run are known even if the process dies before the thread's
//! journal records them. The thread's state holds only the position in its log; see [`FileUndo`].

mod cursor;
mod database;
mod log;
mod plan;
mod store;
mod version;

pub(crate) use cursor::ThreadLog;
pub use cursor::{FileUndo, UndoCursor, UndoUpdate};
pub use database::UndoError;
pub(crate) use database::{Database, Tx};
pub(crate) use log::{Actor, Change};
pub use plan::{Conflict, ConflictReason, FileChange, OnConflict, RestorePlan, Skipped};
pub(crate) use plan::{OnDisk, Planner};
pub use store::{GcStats, UndoStore};
pub use version::FileVersion;
pub(crate) use version::{hash_of, hash_stream, time_mark};
