//! The state of a thread: typed channels, changed by updates.
//!
//! A channel is a zero-sized key type that implements [`Channel`]. Middlewares declare the channels they use with
//! [`ChannelSpec::new`]. A [`Schema`] collects them when an agent is built and rejects two types with the same name.
//! Values are typed in Rust and become JSON at every boundary. [`Sharing`] defines what sub-agents see of a channel.

mod builtin;
mod channel;
mod schema;
mod sharing;
mod storable;
mod update;
mod view;

pub use builtin::{MessagesChannel, StructuredResponse};
pub(crate) use builtin::{Undelivered, UndeliveredMessage};
pub use channel::{Channel, ChannelError, ChannelSpec, Concurrent, Merge};
pub use schema::{Schema, SchemaError};
pub use sharing::Sharing;
pub(crate) use storable::too_deep;
pub use update::{Update, UpdateEntry};
pub(crate) use view::StorableState;
pub use view::{ChildState, Inheritance, State};
