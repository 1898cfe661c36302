//! What a person types.

mod editor;
mod history;
mod vi;

pub(crate) use editor::Editor;
pub(crate) use history::History;
pub(crate) use vi::{Vi, ViMode};
