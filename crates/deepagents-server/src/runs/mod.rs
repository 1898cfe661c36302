//! Runs over HTTP: accepted, kept in the store, and worked on one after the other on each thread.

mod breakpoints;
mod create;
mod execute;
mod host;
mod live;
mod record;
mod routes;
mod spending;

pub(crate) use create::{RunCreate, StreamMode};
pub(crate) use execute::final_values;
pub(crate) use host::{Runs, forget_thread, recover, settled};
pub(crate) use live::{CancelAction, LiveRun};
pub(crate) use record::{RunRecord, Status, find, of_thread};
pub(crate) use routes::{joined, routes, start, start_once};
pub(crate) use spending::Spending;
