//! Behaviour of the databases.

mod corpus;
mod errors;
mod memory;
mod postgres;
mod resume;
mod sqlite;
