//! Version 2 of the streaming protocol: a client subscribes to a thread instead of a run and sends commands to it. It
//! uses the same events.

mod command;
mod encode;
mod filter;
mod routes;
mod socket;

pub(crate) use routes::routes;
