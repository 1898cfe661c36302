//! Every event as a line of JSON.

use std::io::{self, Write};

use deepagents::Event;

use super::{Ending, Renderer, escaped_json};

/// Every event as a line of JSON on stdout, in the form that `docs/events.md` describes, and nothing else.
#[derive(Debug)]
pub(crate) struct JsonLines;

impl Renderer for JsonLines {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let line = serde_json::to_string(event).map_err(io::Error::other)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{}", escaped_json(&line))?;
        out.flush()
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        crate::output::remark(text);
        Ok(())
    }

    fn end(&mut self, _ending: &Ending) -> io::Result<()> {
        Ok(())
    }
}
