//! Assistants: an agent with a configuration under an id. Each agent has one assistant that cannot be changed.

mod drawing;
mod record;
mod routes;
mod search;

pub(crate) use record::{Assistant, all, find, known};
pub(crate) use routes::routes;
