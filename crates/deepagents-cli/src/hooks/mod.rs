//! Hooks: commands of the user, or of a trusted directory, that run at certain points of a run.

mod command;
mod find;
mod sender;

pub(crate) use command::{hooks, problems};
pub(crate) use find::{FoundHooks, brought, commands_run, find, find_quietly, programs_run};
