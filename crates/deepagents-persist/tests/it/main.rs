//! Behaviour of the databases.

mod memory;
mod sqlite;
