//! Runs on a schedule.

mod record;
mod routes;
mod schedule;
mod timer;

pub(crate) use record::remove_where;
pub(crate) use routes::routes;
pub(crate) use timer::run;
