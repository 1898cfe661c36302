//! What runs changed in a directory, recorded so that it can be undone.
//!
//! One SQLite file holds the contents, each once by its hash, and for each thread and directory a log of changes. A
//! change is in the log before it is made, so what a run did is known also when the process died before the thread's
//! journal knew of it. The thread's state holds no more than how far its log had come, see [`FileUndo`].

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
