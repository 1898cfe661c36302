//! Every event as a line of JSON.

use std::io::{self, Write};

use deepagents::Event;

use super::{Ending, Renderer};

/// Every event as a line of JSON on stdout, in the form that `docs/events.md` describes, and nothing else.
#[derive(Debug)]
pub(crate) struct JsonLines;

impl Renderer for JsonLines {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut out = io::stdout().lock();
        out.write_all(&line)?;
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
