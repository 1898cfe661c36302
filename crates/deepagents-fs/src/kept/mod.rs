//! What a run changed in a directory, kept so that it can be put back.
//!
//! Contents are stored once, by their hash. What was changed, in which order, is written to a file of rows for each
//! thread and directory, before the change itself: what a run did is known also when the process died before the
//! thread's log knew of it. The thread's state holds no more than how far these rows had come, see [`KeptFiles`].

mod channel;
mod line;
mod plan;
mod store;
mod version;

pub(crate) use channel::Marks;
pub use channel::{KeptChange, KeptFiles, KeptMarks};
pub(crate) use line::{By, Earlier, LineId, NewStep, Step};
pub use plan::{Conflict, FileChange, OnConflict, RestorePlan, Stays, Why};
pub(crate) use plan::{Here, Planner};
pub use store::{Keep, Swept};
pub(crate) use store::{Store, hash_of, hash_stream};
pub use version::FileVersion;
