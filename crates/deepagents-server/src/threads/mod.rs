//! Threads over HTTP: the threads of the journal, with what clients expect beside.

mod checkpoints;
mod record;
mod routes;
mod search;
mod state;
mod ttl;

pub(crate) use checkpoints::{CheckpointCache, Place};
pub(crate) use record::{Held, set_own, shown_status};
pub(crate) use routes::{CheckpointRef, make, routes};
pub(crate) use search::{contains, pagination, project};
pub(crate) use ttl::{sweep, touch};
