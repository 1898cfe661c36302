//! The user's text input.

mod editor;
mod history;
mod keys;
mod pastes;
mod rows;
mod vi;
mod vi_changes;
mod vi_places;

pub(crate) use editor::Editor;
pub(crate) use history::History;
pub(crate) use vi::{KeyResult, Vi, ViMode};
