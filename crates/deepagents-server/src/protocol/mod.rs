//! Version 2 of the protocol: a client reads a thread instead of a run, from the same events, and sends commands to it.

mod command;
mod encode;
mod errors;
mod filter;
mod routes;
mod socket;

pub(crate) use routes::routes;
