//! What a person types.

mod editor;
mod history;

pub(crate) use editor::Editor;
pub(crate) use history::History;
