//! A terminal interface for conversations with an agent. It draws below the terminal's own scrollback.
//!
//! - [`run`] shows the interface until the user quits. A [`Host`] provides what it needs from the program around it.
//! - State transitions are one pure function of state and event. Anything that waits is a task that ends with an event.
//! - A run is accessed through its handle and its thread only.
//! - Finished parts are written once, above a live area of a few rows in which only changed cells are rewritten. Text
//!   from models, tools and files, including file names, reaches the terminal as text and never as control sequences.

mod app;
mod duration;
mod headless;
mod host;
mod input;
mod key_map;
mod policy;
mod preferences;
mod screens;
mod session;
mod terminal;
pub mod text;
mod theme;
mod title;
mod view;

pub use headless::Headless;
pub use host::{Begin, CommandFile, Connection, Effort, Host, Offered, Options, Page, Servers};
pub use policy::{Mode, Policy, Rule};
pub use preferences::{KeyError, Notifications, Preferences, UserTheme, check_key};
pub use screens::{End, Ended, TuiError, run};
pub use terminal::{Colours, Graphics};
pub use theme::theme_names;
