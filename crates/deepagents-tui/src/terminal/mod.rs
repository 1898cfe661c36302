//! The terminal: its modes, what is written to it, and what comes from it.

mod input;
mod modes;
mod output;
mod sgr;
mod surface;

pub(crate) use input::Input;
pub(crate) use modes::{Modes, last_panic, size};
pub(crate) use output::Output;
pub(crate) use surface::Surface;
