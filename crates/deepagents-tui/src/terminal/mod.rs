//! The terminal: its modes, its output and its input.

mod graphics;
mod hangup;
mod input;
mod modes;
mod output;
mod sequences;
mod sgr;
mod sixel;
mod surface;

pub(crate) use graphics::Canvas;
pub use graphics::Graphics;
pub(crate) use input::Input;
pub(crate) use modes::{Modes, cell, last_panic, size, write};
pub(crate) use output::Output;
pub use sgr::Colours;
pub(crate) use surface::Surface;
