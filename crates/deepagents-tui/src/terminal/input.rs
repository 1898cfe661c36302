//! What comes from the terminal.

use std::io;

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;

/// Keys, pastes and sizes as they come. While it is suspended nothing is read, so that another program can be at the
/// terminal.
#[derive(Debug, Default)]
pub(crate) struct Input {
    stream: Option<EventStream>,
}

impl Input {
    pub(crate) fn new() -> Self {
        Self { stream: Some(EventStream::new()) }
    }

    pub(crate) fn suspend(&mut self) {
        self.stream = None;
    }

    pub(crate) fn resume(&mut self) {
        self.stream = Some(EventStream::new());
    }

    /// The next event; nothing once the terminal is gone. Never while suspended.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Event>> {
        match &mut self.stream {
            Some(stream) => stream.next().await,
            None => std::future::pending().await,
        }
    }
}
