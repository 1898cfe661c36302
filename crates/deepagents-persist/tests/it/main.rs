//! Behaviour of the databases.

mod memory;
mod postgres;
mod sqlite;
