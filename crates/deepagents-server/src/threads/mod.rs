//! Threads over HTTP: the threads of the journal, with what clients expect beside.

mod checkpoints;
mod record;
mod routes;
mod search;
mod state;

pub(crate) use checkpoints::Place;
pub(crate) use record::{Held, set_own};
pub(crate) use routes::{CheckpointRef, make, routes};
pub(crate) use search::{contains, pagination, project};
