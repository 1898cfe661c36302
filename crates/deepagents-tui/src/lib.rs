//! The interactive screens: a conversation with an agent at the end of the terminal's own scrollback.
//!
//! - [`run`] shows them until the person leaves. What it needs of the program around it is a [`Host`].
//! - The state and what events make of it are one pure function; everything that waits is a task that ends with an event.
//! - A run is reached through its handle and its thread alone.
//! - Finished parts are written once, above a live area of a few rows, of which only the cells that change are written.
//!   What a model, a tool, a file or its name says reaches the terminal as text and never as a control sequence.

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
