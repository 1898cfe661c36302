//! Events as lines of JSON.

use std::io::{self, Write};

use deepagents::Event;
use serde::Serialize;

use super::{Renderer, escaped_json};

/// Prints every event as a line of JSON on stdout, in the format of `docs/events.md`, and nothing else.
#[derive(Debug)]
pub(crate) struct JsonLines;

impl JsonLines {
    /// Prints a value as a line.
    pub(crate) fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let line = serde_json::to_string(value).map_err(io::Error::other)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{}", escaped_json(&line))?;
        out.flush()
    }
}

impl Renderer for JsonLines {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.line(event)
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        crate::output::remark(text);
        Ok(())
    }
}
