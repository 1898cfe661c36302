//! Runs over HTTP: accepted, stored, and executed one after the other on each thread.

mod agents;
mod breakpoints;
mod check;
mod config;
mod create;
mod execute;
mod finish;
mod host;
mod input;
mod live;
mod open;
mod others;
mod queues;
mod record;
mod routes;
mod served;
mod spending;
mod start;
mod waiting;
mod work;

pub(crate) use agents::announce;
pub(crate) use config::mirror_context;
pub(crate) use create::{Command, RunCreate, StreamMode, check_input};
pub(crate) use finish::{StoppedEarly, final_values};
pub(crate) use host::{forget_thread, wait_until_idle};
pub(crate) use live::{CancelAction, LiveRun};
pub(crate) use open::has_open;
pub(crate) use others::{end, follow, live, recover, watch};
pub(crate) use queues::Runs;
pub(crate) use record::{RunRecord, Status, find, of_thread};
pub(crate) use routes::routes;
pub use served::ServedRun;
pub(crate) use spending::Spending;
pub(crate) use start::{start, start_once};
pub(crate) use waiting::joined;
