//! Hooks: commands of the user's, and of a directory that is trusted, which run at moments of a run.

mod command;
mod find;
mod sender;

pub(crate) use command::hooks;
pub(crate) use find::{FoundHooks, brought, commands_here, find, find_quietly, run_here};
