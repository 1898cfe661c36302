//! Runs over HTTP: accepted, kept in the store, and worked on one after the other on each thread.

mod breakpoints;
mod create;
mod execute;
mod host;
mod live;
mod record;
mod routes;

pub(crate) use create::StreamMode;
pub(crate) use host::{Runs, forget_thread, recover};
pub(crate) use live::LiveRun;
pub(crate) use record::RunRecord;
pub(crate) use routes::routes;
