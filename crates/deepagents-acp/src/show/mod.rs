//! The display of a run in an editor.

mod calls;
mod presenter;
mod replay;
mod spending;

pub(crate) use calls::{old_text, short as short_title};
pub(crate) use presenter::Presenter;
pub(crate) use replay::replay;
pub(crate) use spending::Spending;
